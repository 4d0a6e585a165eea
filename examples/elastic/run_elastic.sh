#!/bin/sh
# Elastic Horovod on two cards of this machine: one rank may die, and another one takes its place.
#
# Horovod gives up a whole host when a rank on it fails, and asks it again after a while
# (--blacklist-cooldown-range, in seconds). So each card of this machine is a host of its own here, by another name of
# the loopback interface. With several machines hosts.sh prints theirs, with as many cards as each has.
here=$(cd "$(dirname "$0")" && pwd)
exec horovodrun --gloo -np 2 --min-np 1 --max-np 2 --network-interface lo \
  --host-discovery-script "$here/hosts.sh" --blacklist-cooldown-range 1 2 \
  "${PYTHON:-python3}" "$here/train.py" "$@"
