# What scripts share that start ranks as processes. Read with the arguments of the script, behind
# enter_namespaces: $work is a directory that ends with the script, and so do the processes in pids,
# whose outputs are $work/out.RANK. kills and hangs are how many to try where a rank is killed or
# stopped.

readonly limit_ns=3000000000
kills=3 hangs=3
[[ ${*: -1} == "--long" ]] && kills=100 hangs=50
export SEED=${SEED:-$RANDOM}
RANDOM=$SEED

work=$(mktemp -d)
pids=()
stop_all() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap stop_all EXIT

fail() {
  echo "FAILED (SEED=$SEED): $*" >&2
  tail -n 5 "$work"/out.* >&2 || true
  exit 1
}

# await RANK WORD: until the rank's output has a line that begins so, for 30 s.
await() {
  local tries
  for ((tries = 0; tries < 3000; ++tries)); do
    grep -q "^$2" "$work/out.$1" && return
    sleep 0.01
  done
  fail "rank $1 never said \"$2\""
}
