#!/usr/bin/env bash
# The layouts of two and of four ranks (layout_table.h) over gloo: ranks that are processes, each in
# a network namespace of its own where this user may make some, and on loopback otherwise. They
# generate, train, save, and go on from a checkpoint of one rank, and what they write is byte for
# byte what ranks that are threads write.
#
#   layouts.sh LAYOUT_RANK [PATTERN]: the layouts that match the pattern, without it all
set -euo pipefail

readonly program=$1 pattern=${2:-}
readonly network=$(dirname "$0")/../gloo

source "$network/network.sh"
enter_namespaces "$@"
source "$network/processes.sh" "$@"

# Below the ports that the system gives out, another for another run.
readonly port=$((30000 + $$ % 2000))

run_processes() {
  local ranks=$1 layout=$2 rank place
  place="tcp:$(address_of 0 127.0.0.1):$port"
  pids=()
  for ((rank = 0; rank < ranks; ++rank)); do
    on_host "$rank" "$program" process "$work/run" "$layout" "$rank" "$place" \
      >"$work/out.$rank" 2>&1 &
    pids+=($!)
  done
  for ((rank = 0; rank < ranks; ++rank)); do
    wait "${pids[$rank]}" || fail "$layout: rank $rank of $ranks"
  done
  pids=()
}

compare() {
  local ranks=$1 layout=$2 rank what
  local threads=$work/run/threads processes=$work/run/processes
  for ((rank = 0; rank < ranks; ++rank)); do
    cmp "$threads/text" "$processes/text.$rank" || fail "$layout: rank $rank has other samples"
  done
  for what in saved again; do
    diff -r "$threads/$what" "$processes/$what" >&2 || fail "$layout: $what differs"
  done
}

make_network
count=0
for ranks in 2 4; do
  "$program" list $ranks >"$work/list"
  while read -r layout; do
    [[ $layout =~ $pattern ]] || continue
    rm -rf "$work/run" "$work"/out.*
    "$program" threads "$work/run" "$layout" >"$work/out.threads" 2>&1 || fail "$layout: threads"
    run_processes $ranks "$layout" </dev/null
    compare $ranks "$layout"
    count=$((count + 1))
  done <"$work/list"
done
((count > 0)) || fail "no layout matches '$pattern'"
echo "$count layouts over gloo: the bytes of threads, network namespaces: $RL_NAMESPACES"
