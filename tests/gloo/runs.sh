#!/usr/bin/env bash
# Runs of 4_grpo with ranks that are processes, each in a network namespace of its own where this
# user may make some, and on loopback otherwise. With 2 and 4 ranks, of data and of a divided model,
# they end with the weights of ranks that are threads. Then kills and hangs (SIGSTOP) of one rank at
# random moments: every other rank has to name it and to end within the timeout of 2 s and 1 s, and
# the run that goes on from the newest checkpoint ends with the weights of one that nobody stopped.
# 3 kills and 3 hangs; 100 and 50 with --long. SEED repeats a run.
#
#   runs.sh 4_GRPO MODEL [--long]
set -euo pipefail

readonly program=$1 model=$2
readonly steps=100

source "$(dirname "$0")/network.sh"
enter_namespaces "$@"
source "$(dirname "$0")/processes.sh" "$@"

# Ranks, and how many of them divide a model.
readonly layouts=("2 1" "4 1" "2 2" "4 2")

# The command of a run that TENSOR ranks divide, into OUT.
command_of() {
  local tensor=$1 out=$2
  command=("$program" --model "$model" --data "$work/rows.jsonl" --steps $steps --out "$out"
    --set parallel.tensor="$tensor" --set parallel.reduction_parts="$tensor"
    --set runtime.threads=1 --set runtime.seed=7 --set optimizer.lr=1e-3
    --set sampling.allowed_token_ids=19,20,67,68,69,70,71,72 --set sampling.temperature=8
    --set sampling.max_new_tokens=8 --set pipeline.prompts_per_step=4
    --set pipeline.samples_per_prompt=4 --set checkpoint.every_steps=1
    --set checkpoint.keep_last=2)
}

digest_in() { sed -n 's/.*"weight_digest": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }

# Below the ports that the system gives out, others for another run.
readonly port=$((20000 + $$ % 5000 * 2))

# start RANKS TENSOR OUT ARGUMENT...: a process for each rank, with its output in $work/out.RANK.
start() {
  local ranks=$1 rank
  command_of "$2" "$3"
  shift 3
  pids=()
  export WORLD_SIZE=$ranks MASTER_PORT=$port RANK MASTER_ADDR
  MASTER_ADDR=$(address_of 0 127.0.0.1)
  for ((RANK = 0; RANK < ranks; ++RANK)); do
    on_host "$RANK" "${command[@]}" --launcher torchrun "$@" >"$work/out.$RANK" 2>&1 &
    pids+=($!)
  done
}

# finish RANKS WHAT: all end well.
finish() {
  local rank
  for ((rank = 0; rank < $1; ++rank)); do
    wait "${pids[$rank]}" || fail "$2: rank $rank of $1"
  done
  pids=()
}

# The digest of each layout, by its place in the list: of threads, and of processes that nobody
# stops.
digests=()
whole_runs() {
  local layout ranks tensor digest
  for layout in "${layouts[@]}"; do
    read -r ranks tensor <<<"$layout"
    command_of "$tensor" "$work/threads"
    "${command[@]}" --ranks "$ranks" >"$work/out.0" 2>&1 || fail "$layout: threads"
    digest=$(digest_in "$work/threads")
    start "$ranks" "$tensor" "$work/processes"
    finish "$ranks" "$layout"
    [[ $digest != "" && $(digest_in "$work/processes") == "$digest" ]] ||
      fail "$layout: processes end with other weights than threads"
    digests+=("$digest")
    rm -r "$work/threads" "$work/processes"
  done
  echo "runs of ${#layouts[@]} layouts: the weights of threads"
}

# lose SIGNAL ROUND: a run whose victim gets the signal, and the run that goes on. The first victim
# is rank 0, which holds the store and writes checkpoints.
lose() {
  local signal=$1 round=$2 ranks tensor rank begun status took
  read -r ranks tensor <<<"${layouts[$round % ${#layouts[@]}]}"
  local victim=$((RANDOM % ranks)) what="$1 $2"
  ((round == 0)) && victim=0
  start "$ranks" "$tensor" "$work/run" --set comm.timeout_ns=2s
  await 0 "step 1 "
  sleep "0.$(printf %03d $((RANDOM % 600)))"
  [[ $signal == KILL ]] && disown "${pids[$victim]}"  # the shell would report its end
  begun=$(date +%s%N)
  kill -"$signal" "${pids[$victim]}" || fail "$what: rank $victim of $ranks ended by itself"
  for ((rank = 0; rank < ranks; ++rank)); do
    ((rank == victim)) && continue
    status=0
    wait "${pids[$rank]}" || status=$?
    took=$(($(date +%s%N) - begun))
    ((status == 1)) || fail "$what: rank $rank of $ranks ended with $status"
    grep -q "^RL_RANK_LOST: rank $victim of $ranks" "$work/out.$rank" ||
      fail "$what: rank $rank of $ranks did not name rank $victim"
    ((took < limit_ns)) || fail "$what: rank $rank took $((took / 1000000)) ms"
    ((took > slowest)) && slowest=$took
  done
  if [[ $signal == STOP ]]; then
    # It wakes, learns that it was given up, and ends by itself.
    kill -CONT "${pids[$victim]}"
    wait "${pids[$victim]}" && fail "$what: rank $victim ended as if nothing had been"
  fi
  start "$ranks" "$tensor" "$work/run" --resume
  finish "$ranks" "$what, resumed"
  [[ $(digest_in "$work/run") == "${digests[$round % ${#layouts[@]}]}" ]] ||
    fail "$what: the run that goes on ends with other weights"
  rm -r "$work/run"
}

lose_many() {
  local signal=$1 count=$2 round
  slowest=0
  for ((round = 0; round < count; ++round)); do lose "$signal" "$round"; done
  echo "$count x SIG$signal: every other rank named it and ended, after" \
    "$((slowest / 1000000)) ms at most, and the run went on to the same weights"
}

for a in 1 2 3 4 5 6 7 8; do
  echo "{\"prompt\": \"$((a % 2)) + 1?\", \"tag\": \"$((a % 2 + 1))\"}"
done >"$work/rows.jsonl"
make_network
echo "SEED=$SEED, network namespaces: $RL_NAMESPACES"
whole_runs
lose_many KILL $kills
lose_many STOP $hangs
