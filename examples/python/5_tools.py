#!/usr/bin/env python3
"""5_tools: trains an agent that calls a tool. The model calls it by writing the digit 1 or 2, the
tool replies with the other one, and the answer is right when it repeats the tool's digit.

  5_tools.py MODEL        MODEL is a GGUF file or a directory with a tokenizer

A sample has two turns of the model: the pipeline reports the first one, the host replies, and the
reply's tokens carry no loss. New here: EventKind.TURN, Event.reply, Pipeline.feed."""
import sys

import rl

STEPS, PROMPTS = 3, 2

# ---- errors ----


def checked(good, text):
    if not good:
        print(f"5_tools: {text}", file=sys.stderr)
    return 0 if good else 1


# ---- pieces ----


def configured(path):
    return rl.Options({
        "model.path": path, "pipeline.turns": "stop_string", "pipeline.max_turns": 2,
        "pipeline.prompts_per_step": PROMPTS, "pipeline.samples_per_prompt": 4,
        "sampling.stop": ["1", "2"], "sampling.temperature": 8.0, "sampling.max_new_tokens": 8,
        "engine.max_model_len": 64, "optimizer.lr": 1e-3, "runtime.seed": 7})


def allow(options, model):
    """Lets the model write only digits 1 and 2 and letters: calls and answers, and what is
    neither."""
    options["sampling.allowed_token_ids"] = [model.encode(c).tolist()[-1] for c in "12abcdef"]


def digits(text):
    return [c for c in text if c in "12"]


def feed(pipeline):
    for number in range(STEPS * PROMPTS):
        pipeline.feed({"prompt": f"{number} + 1?"}, timeout=None)
    pipeline.finish_feed()


# ---- events ----


class Run:
    """What the events of a pipeline have told."""

    def __init__(self):
        self.calls = self.steps = self.diff = 0

    def on_turn(self, event):
        """The tool: it replies with the digit that the call does not have."""
        event.reply("2" if digits(event.text)[0] == "1" else "1")
        self.calls += 1

    def on_score(self, event):
        """The response has the digits of the call, of the reply and of the answer."""
        found = digits(event.sample.text)
        event.score(float(len(found) > 2 and found[2] == found[1]))

    def on_event(self, event):
        if event.kind is rl.EventKind.TURN:
            self.on_turn(event)
        if event.kind is rl.EventKind.SCORE:
            self.on_score(event)
        if event.kind is rl.EventKind.STEP:
            self.steps = event.step
            self.diff += event.metrics["training/logprob_max_abs_diff"]
            print(f"step {event.step}  reward {event.metrics['critic/rewards/mean']:.3f}  "
                  f"calls so far {self.calls}")


# ---- main ----


def main(path):
    # Options and objects.
    options = configured(path)
    runtime = rl.Runtime(options)
    model = rl.Model(runtime, options, rl.Use.PIPELINE)
    allow(options, model)
    pipeline = rl.Pipeline(model, options)
    before, run = model.digest, Run()

    # Work.
    pipeline.start()
    feed(pipeline)
    for event in pipeline:
        with event:
            run.on_event(event)
    after = model.digest

    # Check.
    good = run.steps == STEPS and run.calls > 0 and run.diff == 0 and after != before
    print(f"{run.calls} calls of the tool; weights {after:016x}")

    # End.
    for thing in (pipeline, model, runtime, options):
        thing.close()
    return checked(good, "the run did not do what was expected")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("usage: 5_tools.py MODEL", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(sys.argv[1]))
    except rl.Error as error:
        sys.exit(str(error))
