#!/bin/bash
# 4_grpo, which embeds a pipeline, as a Slurm job that goes on where it stopped. Five minutes before
# the time limit the program gets the signal of Ctrl-C and ends with a checkpoint. Until all steps
# are done the job then queues itself again, and --resume finds the newest checkpoint. Each task of
# the job is a rank of the run: --nodes and --ntasks-per-node say how many share its work.
#
#   sbatch examples/deploy/slurm.sh MODEL TRAIN.jsonl EVAL.jsonl OUT STEPS [ARGUMENT]...
#
# All nodes see the paths. RL_PROGRAM is the 4_grpo of any language; ARGUMENTs are for it, such as
# --set optimizer.lr=1e-6.
#
#SBATCH --job-name=grpo
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=32G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=INT@300
set -euo pipefail

readonly program=${RL_PROGRAM:-/usr/local/bin/4_grpo}
readonly model=$1 train=$2 heldout=$3 out=$4 steps=$5
shift 5

# The ranks meet on the first node, at the port after MASTER_PORT. Jobs whose ids are a multiple of
# 5,000 apart have the same port, so two of them must not begin on one node at the same time.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + 2 * (SLURM_JOB_ID % 5000)))
export MASTER_ADDR MASTER_PORT

# Processes that own all their cores: librl starts as many threads as it is told and no more, and
# srun does not take --cpus-per-task over from sbatch. The budget of a rank, of which Slurm gives
# the node's in MiB, leaves room for the program itself; a plan that would not fit is refused at the
# start instead of killed in the night.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores "$program" \
  --model "$model" --data "$train" --eval "$heldout" --out "$out" --steps "$steps" --resume \
  --launcher slurm \
  --set runtime.threads="$SLURM_CPUS_PER_TASK" \
  --set runtime.memory_budget_bytes=$((SLURM_MEM_PER_NODE / SLURM_NTASKS_PER_NODE - 2048))MiB \
  --set checkpoint.every_steps=50 "$@"

# A run that was stopped has a summary too, with the steps that it came to.
done_steps=$(python3 -c 'import json, sys; print(int(json.load(open(sys.argv[1]))["steps"]))' \
  "$out/summary.json")
if ((done_steps < steps)); then
  scontrol requeue "$SLURM_JOB_ID"
fi
