#!/usr/bin/env bash
# Trains SmolLM2-135M-Instruct by GRPO to add two numbers, from a bare machine: sets up, builds,
# fetches the model, trains 40 steps with examples/c/4_grpo and prints what was learned, how fast
# and with how much memory. All results are in out/demo; a new run deletes them first.
#
#   scripts/demo.sh [ARGUMENT...]     further arguments go to 4_grpo, e.g. --steps 6
#                                     --set runtime.threads=1
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly out=out/demo
readonly probe=build/release/bench/rl_probe
readonly trainer=build/release/examples/c/4_grpo

scripts/setup.sh
build_preset release bench/rl_probe examples/c/4_grpo
model=$(scripts/fetch_model.sh)

rm -rf "$out"
mkdir -p "$out"
python3 tools/demo_data.py "$out"

# A separate process measures the machine's limits before and after, so that a noisy moment does
# not count. The budget is for few threads, as each has its own workspace. Without bf16 dot
# products everything is fp32: twice as large, except masters, gradients and moments.
threads=$(nproc)
((threads <= 4)) || threads=4
budget=2660MiB
grep -qw avx512_bf16 /proc/cpuinfo || budget=4000MiB

say "measuring the machine"
"$probe" >"$out/probe_before.json"
"$trainer" --model "$model" --data "$out/train.jsonl" --eval "$out/heldout.jsonl" \
  --steps 40 --out "$out" \
  --set pipeline.prompts_per_step=8 \
  --set pipeline.samples_per_prompt=8 \
  --set sampling.max_new_tokens=32 \
  --set sampling.temperature=1 \
  --set eval.max_new_tokens=32 \
  --set optimizer.lr=1e-5 \
  --set algo.kl.where=none \
  --set trainer.grad_dtype=bf16 \
  --set engine.max_model_len=128 \
  --set engine.block_size=16 \
  --set runtime.memory_budget_bytes=$budget \
  --set runtime.seed=1 \
  --set runtime.threads="$threads" \
  "$@"
"$probe" >"$out/probe_after.json"
python3 tools/demo_summary.py "$out" "$out/probe_before.json" "$out/probe_after.json"
