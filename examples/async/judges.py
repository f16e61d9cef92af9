#!/usr/bin/env python3
"""judges: what generating ahead of training is for. Judges take time for every answer, as a model
behind a network does; the same run is made in each of the modes of pipeline.mode.

  judges.py MODEL [--judges N] [--seconds S] [--steps N] [--set KEY=VALUE]...

MODEL is a GGUF file or a directory with a tokenizer. In sync nothing is computed while the judges
of a step work. In one_step_off they have as long as the step before trains. In async the answers of
pipeline.max_staleness steps and more are judged at once, so that training need not wait at all.
"""
import argparse
import concurrent.futures
import json
import os
import re
import sys
import tempfile
import time

import rl

PROMPTS, SAMPLES = 4, 4  # of a step
MODES = {
    "sync": {},
    "one_step_off": {"model.compute_copies": 2, "pipeline.mode": "one_step_off"},
    "async": {"model.compute_copies": 2, "pipeline.mode": "async", "pipeline.max_staleness": 3,
              "pipeline.queue_size": 3, "pipeline.partial_rollout": True},
}


def write_rows(path):
    with open(path, "w", encoding="utf-8") as file:
        for row in range(35):
            file.write(json.dumps({"prompt": f"{2 + row % 7} + {3 + row % 5}?"}) + "\n")
    return path


def configured(a, mode, rows):
    options = rl.Options({
        "model.path": a.model, "data.path": rows, "pipeline.total_steps": a.steps,
        "pipeline.prompts_per_step": PROMPTS, "pipeline.samples_per_prompt": SAMPLES,
        "sampling.max_new_tokens": 16,
        "engine.max_model_len": 64, "trainer.max_tokens_per_device": 512, "optimizer.lr": 1e-5,
        **MODES[mode]})
    for setting in a.set:
        options.assign(setting)
    return options


def judged(text, seconds):
    """The share of digits in an answer, after some thought."""
    time.sleep(seconds)
    return len(re.findall("[0-9]", text)) / max(1, len(text))


class Judges:
    """Threads that judge answers, each one at a time; the others wait for their turn."""

    def __init__(self, pipeline, count, seconds):
        self.pipeline, self.seconds = pipeline, seconds
        self.pool = concurrent.futures.ThreadPoolExecutor(count)

    def take(self, sample):
        return self.pool.submit(self.judge, sample.sample_id, sample.text)

    def judge(self, sample_id, text):
        try:
            self.pipeline.score(sample_id, judged(text, self.seconds))
        except rl.Error as error:
            if error.code is not rl.Code.LATE:  # its group was dropped meanwhile
                raise


def run(a, mode, rows):
    """Seconds, those in which nothing could be computed, and how many versions old samples were."""
    with configured(a, mode, rows) as options, rl.Runtime(options) as runtime, \
            rl.Model(runtime, options) as model, rl.Pipeline(model, options) as pipeline:
        judges, answers = Judges(pipeline, a.judges, a.seconds), []
        start, steps, waited, oldest = time.monotonic(), 0, 0.0, 0.0
        pipeline.start()
        with judges.pool:
            for event in pipeline:
                if event.kind is rl.EventKind.SCORE:
                    answers.append(judges.take(event.sample))
                if event.kind is rl.EventKind.STEP:
                    steps = event.step
                    waited += event.metrics["timing_s/reward"]
                    oldest = max(oldest, event.metrics.get("pipeline/staleness/max", 0.0))
        for answer in answers:
            answer.result()  # raises what a judge has raised
        if steps != a.steps:
            sys.exit(f"{mode} has {steps} steps of {a.steps}")
        return time.monotonic() - start, waited, oldest


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("model")
    parser.add_argument("--judges", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    a = parser.parse_args()
    if a.judges < 1 or a.steps < 1 or not 0 <= a.seconds <= 3600:
        parser.error("--judges and --steps must be 1 or more, --seconds 0 to 3600")
    with tempfile.TemporaryDirectory() as scratch:
        rows = write_rows(os.path.join(scratch, "rows.jsonl"))
        for mode in MODES:
            seconds, waited, oldest = run(a, mode, rows)
            print(f"{mode:13}{60 * a.steps / seconds:8.1f} steps/min  nothing to compute for "
                  f"{waited:5.1f} s of {seconds:5.1f} s  samples up to {oldest:.0f} versions old",
                  flush=True)


if __name__ == "__main__":
    try:
        main()
    except rl.Error as error:
        sys.exit(str(error))
