#!/usr/bin/env python3
"""4_grpo: trains a model by GRPO on questions whose answer is an integer, as examples/c/4_grpo.c
does, section by section. librl drives the loop, this host rewards: 1 when the last integer of an
answer is the one in the row's tag, else 0. Held-out rows are answered greedily before and after.
Ctrl-C ends the run with a checkpoint; --resume goes on. PYTHONPATH has bindings/python."""
import argparse
import json
import os
import re
import resource
import signal
import statistics
import sys
import time

import rl

BAR_WIDTH, EDGE_STEPS, MAX_STEPS = 30, 5, 10000
SERIES = {"step_s": "timing_s/step", "reward": "critic/rewards/mean",
          "rollout": "perf/rollout_tokens_per_s", "train": "perf/train_tokens_per_s"}
SCORE, STEP, EVAL = (rl.constant("RL_EVENT_" + name) for name in ("SCORE", "STEP", "EVAL"))
TRAIN = rl.constant("RL_PURPOSE_TRAIN")
START_S = time.monotonic()

# ---- pieces ----


def parse():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name, kind in {"model": str, "data": str, "out": str, "steps": int}.items():
        parser.add_argument("--" + name, type=kind, required=True)
    parser.add_argument("--eval")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--resume", action="store_true")
    a = parser.parse_args()
    if not 1 <= a.steps <= MAX_STEPS:
        parser.error(f"--steps must be 1 to {MAX_STEPS}")
    return a


def configure(options, a):
    settings = {
        "model.path": a.model, "data.path": a.data, "eval.path": a.eval or "",
        "eval.every_steps": a.steps if a.eval else 0, "pipeline.total_steps": a.steps,
        "checkpoint.dir": a.out + "/checkpoints",
        "checkpoint.resume": "auto" if a.resume else "never",
        "metrics.jsonl": a.out + "/metrics.jsonl",
        "metrics.eval_jsonl": a.out + "/evals.jsonl" if a.eval else "",
        "metrics.samples": a.out + "/samples.jsonl", "metrics.tensorboard": "true",
        "profiler.timeline.enable": "true", "profiler.timeline.dir": a.out}
    for key, value in settings.items():
        rl.call("rl_options_set_text", options, key, str(value))
    for setting in a.set:
        rl.call("rl_options_set_assignment", options, setting)


def option(options, key):
    return rl.get("rl_options_get_u64", options, key, kind=rl.c_uint64)


def reward_of(text, tag):
    integers = re.findall(rb"-?[0-9]+", text)
    return 1.0 if integers and int(integers[-1]) == int(tag) else 0.0


# ---- events ----


class Run:
    """A pipeline, and what its events have told."""

    def __init__(self, pipeline, step, num_answers):
        self.pipeline, self.step, self.num_answers = pipeline, step, num_answers
        self.rewarded = 0  # rewards given in this step
        self.stopping, self.first_step_end_s, self.diff = False, None, None
        self.eval_s, self.accuracy = [], []
        self.series = {name: [] for name in SERIES}

    def on_score(self, event):
        sample = rl.SampleView()
        rl.call("rl_event_sample", event, sample)
        try:
            rl.call("rl_pipeline_score", self.pipeline, sample.sample_id,
                    reward_of(sample.text, sample.tag))
        except rl.Error:
            if not self.stopping:  # a step given up takes no more rewards
                raise
        if sample.purpose == TRAIN and sys.stdout.isatty():
            self.rewarded += 1
            bar = "#" * (self.rewarded * BAR_WIDTH // self.num_answers)
            print(f"\rstep {self.step + 1} [{bar:{BAR_WIDTH}}] {self.rewarded}/{self.num_answers}",
                  end="")

    def on_step(self, event, step):
        if self.first_step_end_s is None:
            self.first_step_end_s = time.monotonic() - START_S - sum(self.eval_s)
        self.step, self.rewarded = step, 0
        for name, values in self.series.items():
            values.append(metric(event, SERIES[name]))
        self.diff = max(self.diff or 0, metric(event, "training/logprob_max_abs_diff"))
        step_s, reward, rollout, train = (values[-1] for values in self.series.values())
        print(f"step {step}  reward {reward:.3f}  {step_s:.2f} s  rollout {rollout:.0f} tokens/s  "
              f"train {train:.0f} tokens/s")

    def on_event(self, event):
        view = rl.EventView()
        rl.call("rl_event_get_view", event, view)
        if view.kind != SCORE and sys.stdout.isatty():
            print("\r\033[K", end="")
        if view.kind == SCORE:
            self.on_score(event)
        if view.kind == STEP:
            self.on_step(event, view.step)
        if view.text_len > 0:
            print(view.text.decode())  # a checkpoint's path, why a group ended
        if view.kind == EVAL:
            self.eval_s.append(metric(event, "timing_s/eval"))
            self.accuracy.append(view.value)
            print(f"held-out accuracy {view.value:.3f} of {view.count} questions")
        sys.stdout.flush()

    def serve(self, interrupted):
        """Serves the pipeline until it ends. Ctrl-C gives the current step up and writes a
        checkpoint."""
        event = rl.c_void_p()
        while (status := rl.call("rl_pipeline_next", self.pipeline, 100_000_000,
                                 rl.byref(event))) != rl.DONE:
            if status == rl.OK:
                self.on_event(event)
            rl.lib.rl_event_release(event)
            if interrupted and not self.stopping:
                self.stopping = True
                rl.call("rl_pipeline_stop", self.pipeline, 0)
        if self.stopping:
            path = rl.get("rl_pipeline_checkpoint", self.pipeline, -1)
            print(f"stopped after step {self.step}: {rl.lib.rl_bytes_data(path).decode()}")
            rl.lib.rl_bytes_release(path)


def metric(event, name):
    return rl.get("rl_event_metric_named", event, name, kind=rl.c_double)


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
    interrupted = []
    signal.signal(signal.SIGINT, lambda number, frame: interrupted.append(number))
    os.makedirs(a.out, exist_ok=True)

    # Options and objects.
    options = rl.get("rl_options_create")
    configure(options, a)
    runtime = rl.get("rl_runtime_create", rl.HEADER_ABI, options)
    model = rl.get("rl_model_open", runtime, options, rl.constant("RL_USE_PIPELINE"))
    pipeline = rl.get("rl_pipeline_create", model, options)
    stats, plan, info = rl.PipelineStats(), rl.get("rl_pipeline_plan", pipeline), rl.PlanInfo()
    rl.call("rl_pipeline_get_stats", pipeline, stats)
    rl.call("rl_plan_get_info", plan, info)
    num_answers = (option(options, "pipeline.samples_per_prompt")
                   * option(options, "pipeline.prompts_per_step"))
    run = Run(pipeline, stats.step, num_answers)

    # Work.
    if a.eval:
        rl.call("rl_pipeline_evaluate", pipeline)
    rl.call("rl_pipeline_start", pipeline)
    run.serve(interrupted)
    rl.call("rl_model_save", model, a.out + "/model", rl.constant("RL_DTYPE_BF16"),
            rl.constant("RL_SAVE_REPLACE"))
    digest = rl.get("rl_model_digest", model, kind=rl.c_uint64)
    write_summary(run, a.out, info, digest, option(options, "runtime.seed"))
    rl.call("rl_profiler_write_report", pipeline, None, a.out + "/report.html")

    # Check.
    good = (run.stopping or run.step == option(options, "pipeline.total_steps")) and not run.diff
    if not good:
        print("4_grpo: steps are missing or log-probs differ", file=sys.stderr)

    # End.
    rl.lib.rl_pipeline_destroy(pipeline)
    rl.lib.rl_plan_release(plan)
    rl.lib.rl_model_destroy(model)
    rl.lib.rl_runtime_destroy(runtime)
    rl.lib.rl_options_destroy(options)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except rl.Error as error:
        sys.exit(str(error))
