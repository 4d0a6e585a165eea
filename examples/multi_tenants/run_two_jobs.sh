#!/bin/sh
# Two jobs of two cards each, side by side on one machine: each sees its own cards only.
cd "$(dirname "$0")/../hello_world" || exit
HABANA_VISIBLE_MODULES=0,1 habana-tf run -n 2 --strategy horovod --load example_hvd.py > "${1:-first.log}" 2>&1 &
first=$!
HABANA_VISIBLE_MODULES=2,3 habana-tf run -n 2 --strategy horovod --load example_hvd.py > "${2:-second.log}" 2>&1 &
second=$!
wait $first && wait $second
