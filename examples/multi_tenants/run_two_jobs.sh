#!/bin/sh
# Two jobs of two cards each, side by side on one machine: each sees its own cards only.
# run_two_jobs.sh [first.log [second.log]]; it ends when both have, and fails if one of them did.
first_log=$(realpath "${1:-first.log}") && second_log=$(realpath "${2:-second.log}") || exit
cd "$(dirname "$0")/../hello_world" || exit
HABANA_VISIBLE_MODULES=0,1 habana-tf run -n 2 --strategy horovod --load example_hvd.py > "$first_log" 2>&1 &
first=$!
HABANA_VISIBLE_MODULES=2,3 habana-tf run -n 2 --strategy horovod --load example_hvd.py > "$second_log" 2>&1 &
second=$!
wait $first
code=$?
wait $second && exit $code
