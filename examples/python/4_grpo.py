#!/usr/bin/env python3
"""4_grpo: trains a model by GRPO on questions whose answer is an integer, as examples/c/4_grpo.c
does, section by section. librl drives the loop, this host rewards: 1 when the last integer of an
answer is the one in the row's tag, else 0. Held-out rows are answered greedily before and after.
Ctrl-C ends the run with a checkpoint; --resume goes on. With --ranks so many ranks share the work,
each on a thread of its own, those of parallel.tensor, context and pipeline included; with
--launcher this process is one of a run's ranks."""
import argparse
import json
import math
import os
import re
import resource
import signal
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import launcher
import rl

BAR_WIDTH, EDGE_STEPS, MAX_STEPS, MAX_RANKS = 30, 5, 10000, 64
SERIES = {"step_s": "timing_s/step", "reward": "critic/rewards/mean",
          "rollout": "perf/rollout_tokens_per_s", "train": "perf/train_tokens_per_s"}
START_S = time.monotonic()

# ---- errors ----


def checked(good, text):
    if not good:
        print(f"4_grpo: {text}", file=sys.stderr)
    return 0 if good else 1


# ---- pieces ----


def parse():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name, kind in {"model": str, "data": str, "out": str, "steps": int}.items():
        parser.add_argument("--" + name, type=kind, required=True)
    parser.add_argument("--eval")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--launcher", metavar="torchrun|slurm|mpi|kubernetes|ray")
    parser.add_argument("--rendezvous", metavar="PLACE")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--resume", action="store_true")
    a = parser.parse_args()
    if not 1 <= a.steps <= MAX_STEPS:
        parser.error(f"--steps must be 1 to {MAX_STEPS}")
    if a.ranks is not None and not 1 <= a.ranks <= MAX_RANKS:
        parser.error(f"--ranks must be 1 to {MAX_RANKS}")
    if a.ranks if a.launcher else a.rendezvous:
        parser.error("it is --ranks N or --launcher NAME, and --rendezvous is for the latter")
    return a


def refuse(why):
    print(f"4_grpo: {why}", file=sys.stderr)
    sys.exit(2)


def share_ranks(options, ranks):
    """Sets parallel.data so that the axes make so many ranks."""
    inner = math.prod(options[f"parallel.{axis}"] for axis in ("tensor", "context", "pipeline"))
    if ranks % inner != 0:
        refuse(f"{ranks} ranks are not a multiple of parallel.tensor * parallel.context * "
               f"parallel.pipeline = {inner}")
    options["parallel.data"] = ranks // inner


def join_run(options, a):
    """Makes this process a rank of a run of several."""
    try:
        place = launcher.place_of_launcher(a.launcher, a.rendezvous)
    except ValueError as error:
        refuse(f"launcher {a.launcher}: {error}")
    if place.ranks > 1:
        share_ranks(options, place.ranks)
        options["comm.backend"], options["comm.rank"] = "gloo", place.rank
        options["comm.rendezvous"] = place.rendezvous
    return place


def configured(a):
    options = rl.Options({
        "model.path": a.model, "data.path": a.data, "eval.path": a.eval or "",
        "eval.every_steps": a.steps if a.eval else 0, "pipeline.total_steps": a.steps,
        "checkpoint.dir": a.out + "/checkpoints",
        "checkpoint.resume": "auto" if a.resume else "never",
        "metrics.jsonl": a.out + "/metrics.jsonl",
        "metrics.eval_jsonl": a.out + "/evals.jsonl" if a.eval else "",
        "metrics.samples": a.out + "/samples.jsonl", "metrics.tensorboard": True,
        "profiler.timeline.enable": True, "profiler.timeline.dir": a.out})
    for setting in a.set:
        options.assign(setting)
    if a.ranks:
        share_ranks(options, a.ranks)
    return options


def reward_of(text, tag):
    integers = re.findall(r"-?[0-9]+", text, re.ASCII)
    return 1.0 if integers and int(integers[-1]) == int(tag) else 0.0


def reward(event):
    """A step that was given up takes no more rewards."""
    try:
        event.score(reward_of(event.sample.text, event.sample.tag))
    except rl.Error as error:
        if error.code != rl.Code.LATE:
            raise


# ---- events ----


class Run:
    """A pipeline, and what its events have told: metrics, if it is that of rank 0."""

    def __init__(self, pipeline, step, num_answers, leads):
        self.pipeline, self.step, self.num_answers = pipeline, step, num_answers
        self.leads = leads
        self.rewarded = 0  # rewards given in this step
        self.stopping, self.first_step_end_s, self.diff = False, None, None
        self.eval_s, self.accuracy = [], []
        self.series = {name: [] for name in SERIES}

    def on_score(self, event):
        try:
            reward(event)
        except rl.Error:
            if not self.stopping:
                raise
        if event.sample.purpose is rl.Purpose.TRAIN and sys.stdout.isatty():
            self.rewarded += 1
            bar = "#" * (self.rewarded * BAR_WIDTH // self.num_answers)
            print(f"\rstep {self.step + 1} [{bar:{BAR_WIDTH}}] {self.rewarded}/{self.num_answers}",
                  end="")

    def on_step(self, event):
        if self.first_step_end_s is None:
            self.first_step_end_s = time.monotonic() - START_S - sum(self.eval_s)
        self.rewarded = 0
        for name, values in self.series.items():
            values.append(event.metrics[SERIES[name]])
        self.diff = max(self.diff or 0, event.metrics["training/logprob_max_abs_diff"])
        step_s, reward, rollout, train = (values[-1] for values in self.series.values())
        print(f"step {self.step}  reward {reward:.3f}  {step_s:.2f} s  "
              f"rollout {rollout:.0f} tokens/s  train {train:.0f} tokens/s")

    def on_event(self, event):
        if event.kind is not rl.EventKind.SCORE and sys.stdout.isatty():
            print("\r\033[K", end="")
        if event.kind is rl.EventKind.SCORE:
            self.on_score(event)
        if event.kind is rl.EventKind.STEP:
            self.step = event.step
            if self.leads:
                self.on_step(event)
        if event.text:
            print(event.text)  # a checkpoint's path, why a group ended
        if event.kind is rl.EventKind.EVAL:
            self.eval_s.append(event.metrics["timing_s/eval"])
            self.accuracy.append(event.view.value)
            print(f"held-out accuracy {event.view.value:.3f} of {event.view.count} questions")
        sys.stdout.flush()

    def serve(self):
        """Serves the pipeline until it ends."""
        for event in self.pipeline:
            self.on_event(event)

    def on_interrupt(self, number, frame):
        """Gives the current step up. Python runs this between calls, also within a wait."""
        if not self.stopping:
            self.stopping = True
            try:
                self.pipeline.stop(timeout=0)
            except rl.Timeout:  # it is ending
                pass


class Rank:
    """One of the ranks of a run. All but the first only reward the samples that they generate."""

    def __init__(self, options, first=None, number=0):
        self.runtime = first.runtime.create_rank(number) if first else rl.Runtime(options)
        self.model = rl.Model(self.runtime, options)
        self.pipeline = rl.Pipeline(self.model, options)
        self.error = None
        self.thread = threading.Thread(target=self.reward)

    def start(self):
        self.pipeline.start()
        self.thread.start()

    def reward(self):
        try:
            for event in self.pipeline:
                if event.kind is rl.EventKind.SCORE:
                    reward(event)
        except rl.Error as error:  # the first rank says why the run ended
            self.error = error

    def close(self):
        for thing in (self.pipeline, self.model, self.runtime):
            thing.close()


def together(ranks, call):
    """A call that ranks which divide a model make together; what it returns on the first."""
    with ThreadPoolExecutor(MAX_RANKS) as pool:
        return next(iter(list(pool.map(call, ranks))), None)


# ---- summary ----


def write_summary(run, out, plan, digest, seed):
    def known(function, values):
        return function(values) if values else None
    series, accuracy = run.series, run.accuracy
    summary = {
        "steps": run.step, "step_s_median": known(statistics.median, series["step_s"]),
        "first_step_end_s": run.first_step_end_s,
        "eval_before_s": run.eval_s[0] if run.eval_s else None,
        "accuracy_before": accuracy[0] if accuracy else None,
        "accuracy_after": accuracy[-1] if accuracy[1:] else None,
        "reward_first": known(statistics.mean, series["reward"][:EDGE_STEPS]),
        "reward_last": known(statistics.mean, series["reward"][-EDGE_STEPS:]),
        "rollout_tokens_per_s": known(statistics.median, series["rollout"]),
        "train_tokens_per_s": known(statistics.median, series["train"]),
        "logprob_max_abs_diff": run.diff,
        "peak_rss_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "planned_bytes": plan.total_bytes, "wall_s": time.monotonic() - START_S,
        "threads": plan.threads, "weight_digest": f"{digest:016x}", "seed": seed}
    with open(out + "/summary.json", "w", encoding="utf-8") as file:
        json.dump(summary, file, indent=2)


# ---- main ----


def main():
    a = parse()
    os.makedirs(a.out, exist_ok=True)

    # Options and objects.
    options = configured(a)
    place = join_run(options, a) if a.launcher else launcher.Place()
    first = Rank(options)
    num_parts = options["parallel.tensor"]
    num_copies = options["parallel.context"] * options["parallel.data"]  # of each part
    num_ranks = num_parts * num_copies * options["parallel.pipeline"] if place.ranks == 1 else 1
    others = [Rank(options, first, number) for number in range(1, num_ranks)]
    ranks = [first] + others
    copies = [(place.rank + i) // num_parts % num_copies for i in range(num_ranks)]
    savers = [rank for rank, copy in zip(ranks, copies) if copy == 0]  # they divide one model
    model, pipeline = first.model, first.pipeline
    plan = pipeline.plan()
    num_answers = options["pipeline.samples_per_prompt"] * options["pipeline.prompts_per_step"]
    run = Run(pipeline, pipeline.stats.step, num_answers, leads=place.rank == 0)
    signal.signal(signal.SIGINT, run.on_interrupt)

    # Work.
    if a.eval and run.leads:
        pipeline.evaluate()
    for rank in others:
        rank.start()
    pipeline.start()
    run.serve()
    for rank in others:
        rank.thread.join()
    missing = run.step < options["pipeline.total_steps"]
    if run.stopping or missing and place.ranks > 1:  # perhaps another process was stopped
        path = together(savers, lambda rank: rank.pipeline.checkpoint())
        if savers:
            print(f"stopped after step {run.step}: {path}")
    together(savers, lambda rank: rank.model.save(a.out + "/model", replace=True))
    if run.leads:
        write_summary(run, a.out, plan.info, model.digest, options["runtime.seed"])
        pipeline.write_report(a.out + "/report.html")
    else:
        print(f"rank {place.rank}: weights {model.digest:016x}")

    # Check.
    in_ring = options["parallel.context"] > 1 and options["parallel.context_kind"] == "ring"
    good = (run.stopping or not missing) and (in_ring or not run.diff)  # they differ a little there
    same = place.ranks > 1 or all(
        rank.model.digest == ranks[i - copies[i] * num_parts].model.digest and not rank.error
        for i, rank in enumerate(ranks))

    # End.
    plan.close()
    for rank in others + [first]:
        rank.close()
    options.close()
    return checked(good, "steps are missing or log-probs differ") or checked(
        same, "the weights of ranks differ")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except rl.Error as error:
        sys.exit(str(error))
