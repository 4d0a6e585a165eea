#!/bin/sh
# HPUStrategy under mpirun; NUM_WORKERS chooses how many cards, arguments go to the program.
cd "$(dirname "$0")" || exit
exec mpirun --allow-run-as-root --oversubscribe --tag-output --bind-to none -np "${NUM_WORKERS:-2}" \
  "${PYTHON:-python3}" mnist_keras.py "$@"
