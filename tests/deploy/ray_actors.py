#!/usr/bin/env python3
"""examples/deploy/ray_pair.py with Ray: actors that are killed are replaced, a run that was ended
goes on, and the weights at the end are those of a run in one process.

usage: ray_actors.py SOURCE_DIRECTORY MODEL DIRECTORY

The environment variable RL_RAY_PYTHON names a Python that has ray and numpy.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

STEPS = 6
SKIPPED = 77
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": "local",
               "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(200 << 20)}
LINE = re.compile(r"step (\d+)  .*\(processes (\d+) and (\d+)\)\n")


def expect(condition, text):
    if not condition:
        sys.exit(text)


def run(command, *words, kills=None):
    """The digest of a run and the processes of its steps, as (rollout, trainer). `kills` maps a
    number of steps to the one of both that is killed then."""
    process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **ENVIRONMENT})
    pairs, shown = [], []
    for line in process.stdout:
        print(line, end="", flush=True)
        shown.append(line)
        if step := LINE.fullmatch(line):
            pairs.append((int(step[2]), int(step[3])))
            if kills and int(step[1]) in kills:
                os.kill(pairs[-1][kills[int(step[1])]], signal.SIGKILL)
    expect(process.wait(timeout=250) == 0, f"exit status {process.returncode}")
    digest = re.fullmatch(r"\d+ steps, weights ([0-9a-f]{16})\n", shown[-1])
    expect(digest, f"no digest in {shown[-1]!r}")
    return digest[1], pairs


def main(source, model, directory):
    python = os.environ.get("RL_RAY_PYTHON")
    if not python:
        print("skipped: external: RL_RAY_PYTHON names no Python that has ray and numpy")
        return SKIPPED
    out = pathlib.Path(directory)
    shutil.rmtree(out, ignore_errors=True)
    command = [python, pathlib.Path(source) / "examples/deploy/ray_pair.py", model,
               "--set", "optimizer.lr=1e-3"]
    expected, pairs = run(command, "--steps", str(STEPS), "--alone")
    expect(len(pairs) == STEPS and len({*pairs}) == 1, f"processes {pairs} of a run alone")
    _, pairs = run(command, "--steps", "3", "--out", out, kills={1: 0})
    expect(len(pairs) == 3 and pairs[0][0] != pairs[2][0] and pairs[0][1] == pairs[2][1],
           f"processes {pairs} where the rollout was killed after step 1")
    digest, pairs = run(command, "--steps", str(STEPS), "--out", out, kills={5: 1})
    expect(len(pairs) == STEPS - 3 and pairs[1][1] != pairs[2][1],
           f"processes {pairs} where the trainer was killed after step 5")
    expect(digest == expected, f"the weights have the digest {digest} instead of {expected}")
    print(f"{STEPS} steps, twice with an actor killed: the digest of one process")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
