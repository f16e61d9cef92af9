#!/usr/bin/env python3
"""Runs examples/deploy/slurm.sh, or the pods of kubernetes.yaml, on a tiny model: a job that is
told to end leaves a checkpoint and says that it is not done, and the next one finishes. Of
slurm_ray.sh what it starts is looked at, with a program in place of Ray.

usage: deploy_jobs.py slurm|slurm_ray|kubernetes SOURCE_DIRECTORY 4_GRPO MODEL DIRECTORY

The environment variable RL_RANKS is the number of tasks or pods; more than one need librl_gloo.so.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

try:
    import yaml
except ImportError:
    yaml = None

SMALL = ["sampling.max_new_tokens=8", "eval.max_new_tokens=4", "pipeline.prompts_per_step=2",
         "pipeline.samples_per_prompt=2"]
MANY = 9999  # steps that are never done
PATIENCE_S = 250  # for what takes a second on a free machine
RANKS = int(os.environ.get("RL_RANKS", "1"))
STUBS = {  # in place of the programs of Slurm and Ray
    "srun": 'while [[ $1 == --* ]]; do echo "$1" >>"$STUBS/srun.log"; shift; done\n'
            ': >"$STUBS/pids"\nfor ((i = 0; i < SLURM_NTASKS; ++i)); do\n'
            '  SLURM_PROCID=$i "$@" &\n  echo $! >>"$STUBS/pids"\ndone\n'
            'status=0\nfor pid in $(<"$STUBS/pids"); do wait "$pid" || status=$?; done\n'
            'exit "$status"',
    "scontrol": '[[ $1 == show ]] && exec echo 127.0.0.1\necho "$@" >>"$STUBS/scontrol.log"',
    "ray": 'while [[ $1 != -- ]]; do echo "$1" >>"$STUBS/ray.log"; shift; done\nshift\nexec "$@"'}
PAIR = """import sys, time
print(*sys.argv[1:], flush=True)
time.sleep(600 if "--wait" in sys.argv else 0)
"""


def expect(condition, text):
    if not condition:
        sys.exit(text)


class Job:
    """What both kinds of jobs have: the files of a run, and a process that is started in them."""

    def __init__(self, source, program, model, directory):
        self.source, self.program, self.model = pathlib.Path(source), program, model
        self.directory = pathlib.Path(directory)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        for name in ("train.jsonl", "heldout.jsonl"):
            rows = [json.dumps({"prompt": f"{a} + 1?", "tag": str(a + 1)}) for a in range(6)]
            (self.directory / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
        self.settings = [word for setting in SMALL for word in ("--set", setting)]

    def start(self, steps, *more):
        return subprocess.Popen(self.command(steps, *more), stdout=subprocess.PIPE, text=True,
                                env={**os.environ, **self.environment()})

    def stopped(self):
        """Tells a job to end after two steps; its exit status."""
        job = self.start(MANY)
        for line in job.stdout:
            if line.startswith("step 2 "):
                self.stop(job)
                break
        shown = job.stdout.read()
        status = self.ended(job)
        expect("stopped after step" in shown, f"no word of the end in {shown!r}")
        expect(2 <= self.steps() < MANY, f"{self.steps()} steps")
        expect(list((self.directory / "run/checkpoints").iterdir()), "there is no checkpoint")
        return status

    def finished(self, steps, *more):
        """The exit status of a job that nobody stops."""
        job = self.start(steps, *more)
        job.communicate(timeout=PATIENCE_S)
        return self.ended(job)

    def ended(self, job):
        return job.wait(timeout=PATIENCE_S)

    def steps(self):
        return json.loads((self.directory / "run/summary.json").read_text())["steps"]


class Slurm(Job):
    def command(self, steps, *more):
        at = self.directory
        return ["bash", self.source / "examples/deploy/slurm.sh", self.model, at / "train.jsonl",
                at / "heldout.jsonl", at / "run", str(steps), *self.settings, *more]

    def environment(self):
        stubs = self.directory / "stubs"
        if not stubs.exists():
            stubs.mkdir()
            for name, text in STUBS.items():
                (stubs / name).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
                (stubs / name).chmod(0o755)
        return {"PATH": f"{stubs}:{os.environ['PATH']}", "STUBS": str(stubs),
                "RL_PROGRAM": self.program, "SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_ID": "77",
                "SLURM_MEM_PER_NODE": str(RANKS * (2048 + 256)), "SLURM_JOB_NUM_NODES": "2",
                "SLURM_NTASKS": str(RANKS), "SLURM_NTASKS_PER_NODE": str(RANKS),
                "SLURM_JOB_NODELIST": "localhost"}

    def stop(self, job, number=signal.SIGINT):
        """As --signal does: the signal goes to what srun runs, not to the script."""
        for pid in (self.directory / "stubs/pids").read_text().split():
            os.kill(int(pid), number)

    def log(self, name):
        path = self.directory / f"stubs/{name}.log"
        return path.read_text().splitlines() if path.exists() else []


class SlurmRay(Slurm):
    def command(self, steps, *more):
        self.program = self.directory / "pair.py"
        self.program.write_text(PAIR, encoding="utf-8")
        return ["bash", self.source / "examples/deploy/slurm_ray.sh", self.model,
                self.directory / "run", str(steps), *more]

    def environment(self):
        return {**super().environment(), "RL_PROGRAM": str(self.program), "SLURM_NTASKS": "1"}


class Kubernetes(Job):
    def container(self):
        _, job = yaml.safe_load_all((self.source / "examples/deploy/kubernetes.yaml").read_text())
        container, = job["spec"]["template"]["spec"]["containers"]
        return container

    def command(self, steps, *more):
        container = self.container()
        here = {"/usr/local/bin/4_grpo": self.program, "/data/model": self.model,
                "2000": str(steps), "runtime.threads=16": "runtime.threads=1",
                "runtime.memory_budget_bytes=30GiB": "runtime.memory_budget_bytes=256MiB"}
        shell, *words = container["args"]
        expect(here.keys() <= set(words), f"{here.keys() - set(words)} are not in the container")
        words = [here.get(word, word).replace("/data/", f"{self.directory}/") for word in words]
        return [*container["command"], shell, *words, *self.settings, *more]

    def start(self, steps, *more):
        """The first pod; the others are beside it."""
        variables = {each["name"]: each["value"] for each in self.container()["env"]}
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + 2 * (os.getpid() % 5000)),
                "WORLD_SIZE": str(RANKS)}
        expect(variables.keys() == here.keys(), f"the pods have the variables {variables}")
        self.pods = [subprocess.Popen(
            self.command(steps, *more), text=True,
            stdout=subprocess.DEVNULL if index else subprocess.PIPE,
            env={**os.environ, **here, "JOB_COMPLETION_INDEX": str(index)})
            for index in range(RANKS)]
        return self.pods[0]

    def ended(self, job):
        statuses = [pod.wait(timeout=PATIENCE_S) for pod in self.pods]
        expect(len({*statuses}) == 1, f"the pods have the exit statuses {statuses}")
        return statuses[0]

    def stop(self, job):
        for pod in self.pods:
            pod.send_signal(signal.SIGTERM)


def slurm(job):
    status = job.stopped()
    expect((status, job.log("scontrol")) == (0, ["requeue 77"]),
           f"exit status {status} and {job.log('scontrol')} of a job that is not done")
    expect("--cpus-per-task=1" in job.log("srun"), f"srun was given {job.log('srun')}")
    steps = job.steps() + 2
    expect(job.finished(steps) == 0 and job.steps() == steps, "the next job did not finish")
    expect(job.finished(steps) == 0 and job.steps() == steps, "a job that is done failed")
    expect(job.finished(steps, "--set", "optimizer.lr=fast") == 1, "a failure is not told")
    expect(job.log("scontrol") == ["requeue 77"], "a job was queued again that must not be")


def slurm_ray(job):
    words = [job.model, "--out", str(job.directory / "run"), "--steps", "8", "--threads", "1"]
    whole = job.start(8, "--set", "a=b")
    shown = whole.communicate(timeout=PATIENCE_S)[0]
    expect(shown.split() == [*words, "--set", "a=b"], f"the program was given {shown!r}")
    expect(whole.returncode == 0 and not job.log("scontrol"), "a job that is done was not left")
    ray = job.log("ray")
    expect(ray[0] == "symmetric-run" and ray[ray.index("--min-nodes") + 1] == "2"
           and ray[ray.index("--num-cpus") + 1] == "1", f"ray was given {ray}")
    ends = job.start(8, "--wait")
    ends.stdout.readline()
    ends.send_signal(signal.SIGUSR1)
    status = ends.wait(timeout=PATIENCE_S)
    job.stop(ends, signal.SIGKILL)  # as requeuing does
    expect((status, job.log("scontrol")) == (0, ["requeue 77"]),
           f"exit status {status} and {job.log('scontrol')} of a job whose time is up")


def kubernetes(job):
    status = job.stopped()
    expect(status == 75, f"exit status {status} of a pod that is not done")
    steps = job.steps() + 2
    expect(job.finished(steps) == 0 and job.steps() == steps, "the next pod did not finish")
    expect(job.finished(steps) == 0 and job.steps() == steps, "a pod that is done failed")
    expect(job.finished(steps, "--set", "optimizer.lr=fast") == 1, "a failure is not told")
    expect(job.finished(steps, "--sett", "a=b") == 2, "wrong arguments are not told")


if __name__ == "__main__":
    kinds = {"slurm": (slurm, Slurm), "slurm_ray": (slurm_ray, SlurmRay),
             "kubernetes": (kubernetes, Kubernetes)}
    if len(sys.argv) != 6 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    if sys.argv[1] == "kubernetes" and yaml is None:
        print("skipped: python3-yaml is not installed")
        sys.exit(77)
    check, kind = kinds[sys.argv[1]]
    check(kind(*sys.argv[2:]))
