#!/bin/sh
# Starts a program N times with the variables that torchrun sets, and with nothing else of it. Ends
# when all have ended, with a status of one that failed.
#
#   launch.sh N PROGRAM [ARGUMENT]...
set -eu
count=$1
shift
# A port below those that the system gives out, another for another run; librl takes the next one.
export WORLD_SIZE="$count" LOCAL_WORLD_SIZE="$count" MASTER_ADDR=127.0.0.1 \
  MASTER_PORT=$((20000 + 2 * ($$ % 5000)))
rank=0
pids=
while [ "$rank" -lt "$count" ]; do
  RANK=$rank LOCAL_RANK=$rank "$@" &
  pids="$pids $!"
  rank=$((rank + 1))
done
status=0
for pid in $pids; do
  wait "$pid" || status=$?
done
exit "$status"
