#!/usr/bin/env bash
# Ranks that are processes, each in a network namespace of its own where this user may make some,
# and on loopback otherwise: every collective with 2 and 4 ranks, then kills and hangs (SIGSTOP) of
# one rank at random moments. Every other rank has to name it within the timeout of 2 s and 1 s, and
# to end by itself. 3 kills and 3 hangs; 100 and 50 with --long. SEED repeats a run.
#
#   ranks.sh PROGRAM [--long]
set -euo pipefail

readonly program=$1

source "$(dirname "$0")/network.sh"
enter_namespaces "$@"
source "$(dirname "$0")/processes.sh" "$@"

# start MODE SIZE PLACE: all ranks, with their output in $work/out.RANK.
start() {
  local mode=$1 size=$2 place=$3 rank
  pids=()
  for ((rank = 0; rank < size; ++rank)); do
    : >"$work/out.$rank"
    on_host "$rank" "$program" "$mode" "$rank" "$size" "$place" "$(address_of "$rank" -)" \
      >"$work/out.$rank" 2>&1 &
    pids+=($!)
  done
}

# Of the store: below the ports that the system gives out, another for another run.
readonly port=$((20000 + $$ % 10000))

# The places to meet, in turn: a directory, and a store of rank 0.
place_of() {
  if (($1 % 2 == 0)); then
    echo "file:$work/meeting"
  else
    echo "tcp:$(address_of 0 127.0.0.1):$port"
  fi
}

collectives() {
  local size round=0 rank
  for size in 2 4 2 4; do
    start collectives $size "$(place_of $round)"
    for ((rank = 0; rank < size; ++rank)); do
      wait "${pids[$rank]}" || fail "collectives: rank $rank of $size"
    done
    round=$((round + 1))
  done
  echo "collectives of 2 and 4 ranks: done"
}

# lose SIGNAL ROUND: a stream whose victim gets the signal. The first victim is rank 0, which
# holds the store.
lose() {
  local signal=$1 round=$2 size=$((2 + 2 * ($2 % 2))) rank begun named took
  local victim=$((RANDOM % size))
  ((round == 1)) && victim=0
  start stream $size "$(place_of "$round")"
  for ((rank = 0; rank < size; ++rank)); do await $rank ready; done
  sleep "0.$(printf %03d $((RANDOM % 600)))"
  [[ $signal == KILL ]] && disown "${pids[$victim]}"  # the shell would report its end
  begun=$(date +%s%N)
  kill -"$signal" "${pids[$victim]}" || fail "$signal $round: rank $victim of $size ended by itself"
  for ((rank = 0; rank < size; ++rank)); do
    ((rank == victim)) && continue
    await $rank destroyed
    named=$(sed -n "s/^named $victim at \([0-9]*\) in .*/\1/p" "$work/out.$rank")
    [[ -n $named ]] || fail "$signal $round: rank $rank of $size did not name rank $victim"
    took=$((named - begun))
    ((took < limit_ns)) || fail "$signal $round: rank $rank took $((took / 1000000)) ms"
    ((took > slowest)) && slowest=$took
    wait "${pids[$rank]}" || fail "$signal $round: rank $rank ended with an error"
  done
  if [[ $signal == STOP ]]; then
    # It wakes, learns that it was given up, and ends by itself.
    kill -CONT "${pids[$victim]}"
    wait "${pids[$victim]}" || fail "STOP $round: rank $victim did not end well"
  fi
  pids=()
}

lose_many() {
  local signal=$1 count=$2 round
  slowest=0
  for ((round = 0; round < count; ++round)); do lose "$signal" "$round"; done
  echo "$count x SIG$signal: every other rank named it, after $((slowest / 1000000)) ms at most"
}

mkdir "$work/meeting"
make_network
echo "SEED=$SEED, network namespaces: $RL_NAMESPACES"
collectives
lose_many KILL $kills
lose_many STOP $hangs
