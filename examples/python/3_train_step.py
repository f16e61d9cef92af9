#!/usr/bin/env python3
"""3_train_step: one step of reinforcement learning by hand: draw a group, score it, train on it,
publish.

  3_train_step.py MODEL        MODEL is a Hugging Face directory or a GGUF file

No tokenizer is needed. The toy reward is the share of even token ids. The log-probs stored while
sampling must equal the trainer's bit for bit. New here: Batch.set_reward, Buffer.put, Buffer.take,
Trainer.logprobs, Trainer.step, Trainer.publish, Event.metrics."""
import sys

import rl

GROUP = 8

# ---- errors ----


def checked(good, text):
    if not good:
        print(f"3_train_step: {text}", file=sys.stderr)
    return 0 if good else 1


# ---- pieces ----


def draw_group(engine):
    """A group of samples after a short prompt."""
    engine.submit([1, 2, 3, 4], GROUP)
    engine.run()
    return engine.take()


def score(trainer, batch, index):
    """Rewards a sample. True when the trainer's log-probs equal the stored ones."""
    sample = batch[index]
    ids = sample.response_ids.tolist()
    reward = sum(token % 2 == 0 for token in ids) / len(ids)
    batch.set_reward(index, reward)
    print(f"slot {sample.slot}: {len(ids)} tokens, reward {reward:.3f}")
    logprobs = trainer.logprobs(sample.ids, sample.num_prompt, sample.temperature)
    return logprobs.tobytes() == sample.logprobs.tobytes()


def print_step(step):
    """Prints the step's metrics. True when the trainer saw no log-prob differ."""
    for name, value in step.metrics.items():
        print(f"  {name:36} {value:.6g}")
    return step.metrics["training/logprob_max_abs_diff"] == 0


# ---- main ----


def main(path):
    # Options and objects.
    options = rl.Options({
        "model.path": path, "engine.max_num_seqs": 8, "engine.max_model_len": 64,
        "pipeline.samples_per_prompt": GROUP, "sampling.max_new_tokens": 16, "optimizer.lr": 1e-4})
    runtime = rl.Runtime(options)
    model = rl.Model(runtime, options, rl.Use.PARTS)
    engine, trainer = rl.Engine(model, options), rl.Trainer(model, options)
    buffer = rl.Buffer(options, GROUP)

    # Work.
    drawn = draw_group(engine)
    equal = sum(score(trainer, drawn, index) for index in range(len(drawn)))
    buffer.put(drawn)
    batch = buffer.take(1)
    step = trainer.step(batch)
    version = trainer.publish()

    # Check.
    good = print_step(step) and equal == GROUP and version == 1
    print(f"{equal} of {GROUP} samples have equal log-probs; the weights are version {version}")

    # End.
    for thing in (step, batch, drawn, buffer, trainer, engine, model, runtime, options):
        thing.close()
    return checked(good, "the step did not do what was expected")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("usage: 3_train_step.py MODEL", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(sys.argv[1]))
    except rl.Error as error:
        sys.exit(str(error))
