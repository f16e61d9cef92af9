"""4_grpo as a Ray task that goes on where it stopped:

    python3 ray_host.py MODEL TRAIN.jsonl EVAL.jsonl OUT      paths that all nodes see

Ray finds a node with the cores and the memory and starts the task again elsewhere when that node is
lost; --resume finds the newest checkpoint. The program is a process of its own, so librl never
meets Ray's worker, its threads or its forks."""
import json
import pathlib
import subprocess
import sys

import ray

PROGRAM = "/usr/local/bin/4_grpo"
THREADS, STEPS = 16, 2000


# The memory that Ray reserves is above the budget that librl plans by, which is refused at the
# start when too small.
@ray.remote(num_cpus=THREADS, memory=32 << 30, max_retries=20)
def train(model, data, heldout, out):
    subprocess.run([PROGRAM, "--model", model, "--data", data, "--eval", heldout, "--out", out,
                    "--steps", str(STEPS), "--resume", "--set", f"runtime.threads={THREADS}",
                    "--set", "runtime.memory_budget_bytes=30GiB",
                    "--set", "checkpoint.every_steps=50"], check=True)
    return json.loads((pathlib.Path(out) / "summary.json").read_text())


def main(model, data, heldout, out):
    ray.init(address="auto")
    summary = ray.get(train.remote(model, data, heldout, out))
    print(f"{summary['steps']} steps, weights {summary['weight_digest']}, "
          f"accuracy {summary['accuracy_after']}")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
