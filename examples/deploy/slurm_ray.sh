#!/bin/bash
# ray_pair.py, which embeds an engine and a trainer in actors of Ray, as a Slurm job on two nodes. A
# minute before the time limit the job queues itself again. It may be killed at any time: the
# trainer saves every step below OUT, and the next job goes on from there.
#
#   sbatch examples/deploy/slurm_ray.sh MODEL OUT STEPS [ARGUMENT]...
#
# Submit it with the Python that has ray and numpy first in PATH, and with RL_LIBRARY and PYTHONPATH
# as package rl needs them. All nodes see the paths. ARGUMENTs are for ray_pair.py.
#
#SBATCH --job-name=ray_pair
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=32G
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@60
set -euo pipefail

# Slurm runs a copy of this script, so its own directory says nothing.
readonly program=${RL_PROGRAM:-/usr/local/share/doc/rl/examples/deploy/ray_pair.py}
readonly model=$1 out=$2 steps=$3
shift 3

# This script runs on the first node. Ray starts there and on the others; the program runs on the
# first alone, and an actor takes all cores of a node. With the program every Ray of the nodes ends,
# so they are not shared with other jobs.
trap 'scontrol requeue "$SLURM_JOB_ID"; exit 0' USR1
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores \
  ray symmetric-run --address "$(hostname):6379" --min-nodes "$SLURM_JOB_NUM_NODES" \
  --num-cpus "$SLURM_CPUS_PER_TASK" -- \
  python3 "$program" "$model" --out "$out" --steps "$steps" --threads "$SLURM_CPUS_PER_TASK" \
  "$@" &
wait $!
