#!/bin/sh
# Horovod on as many cards as the machine has, or as many as the first argument says.
cd "$(dirname "$0")" || exit
cards=$(($(hl-smi -Q bus_id --format=csv | wc -l) - 1))  # the first line is the header
exec mpirun --allow-run-as-root --oversubscribe --tag-output -np "${1:-$cards}" \
  "${PYTHON:-python3}" -m habana_tf example_hvd.py
