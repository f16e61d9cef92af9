#!/usr/bin/env python3
"""store_pair: processes that sample and one that trains, joined by a directory that they share.

  store_pair.py sample MODEL DIR [--part I/N] [--steps N] [--set KEY=VALUE]...
  store_pair.py train  MODEL DIR [--steps N] [--set KEY=VALUE]...

Groups of samples go through DIR/store (buffer.store_path), weights come back as the file
DIR/weights.npz, which appears by one rename. The processes may be on machines that share DIR;
several may sample, each a part of the prompts. Each may be killed and started again at any time: a
group is trained on once. Weights are published after the checkpoint that has them, so a version
never has two contents. Needs numpy for the file of weights.
"""
import argparse
import json
import os
import re
import sys
import time

import numpy
import rl

PROMPTS, GROUP = 4, 4  # of a step
AHEAD = 2              # steps that one process samples ahead of the weights that it has
LOOK_S = 0.05          # between looks for other weights
TRAINER = 0            # runtime.instance


def opened(a, instance, use):
    """A model, its options and the buffer, in which each process has its own number."""
    options = rl.Options({
        "model.path": a.model, "runtime.instance": instance, "runtime.seed": 11,
        "engine.max_num_seqs": 8, "engine.max_model_len": 64, "sampling.max_new_tokens": 16,
        "pipeline.samples_per_prompt": GROUP, "trainer.max_tokens_per_device": 512,
        "optimizer.lr": 1e-5, "buffer.store_path": os.path.join(a.dir, "store"),
        "buffer.max_staleness": AHEAD + 1})
    for setting in a.set:
        options.assign(setting)
    return rl.Model(rl.Runtime(options), options, use), options, rl.Buffer(options, 1024)


# ---- weights ----


def publish(model, path):
    """Writes the weights, and the version that they have in the trainer."""
    tensors = {name: model.weight(name).numpy() for name in model.weight_names}
    with open(path + ".tmp", "wb") as file:
        numpy.savez(file, version=model.version, **tensors)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def take_weights(model, path):
    """Sets the newest weights, if they are others."""
    try:
        with numpy.load(path) as tensors:
            version = int(tensors["version"])
            if version > model.version:
                model.set_weights({name: tensors[name] for name in model.weight_names},
                                  as_version=version)
    except FileNotFoundError:  # nothing was trained yet
        pass


# ---- the two roles ----


def scored(model, batch):
    """Rewards each sample with the share of digits in its text."""
    for index, sample in enumerate(batch):
        text = model.decode(sample.response_ids, skip_special=True)
        batch.set_reward(index, len(re.findall("[0-9]", text)) / max(1, len(text)))
    return batch


def sample(a, path):
    """Samples until the last step is trained. A process that starts again begins with what it may
    not have put yet: the other parts can be AHEAD steps before it each. What it had put already is
    dropped when it comes again."""
    part, parts = map(int, a.part.split("/"))
    model, options, buffer = opened(a, part, rl.Use.GENERATE)
    engine = rl.Engine(model, options)
    take_weights(model, path)
    step = max(0, model.version - parts * AHEAD)
    while model.version < a.steps:
        take_weights(model, path)
        if step >= min(model.version + AHEAD, a.steps):
            time.sleep(LOOK_S)
            continue
        for row in range(PROMPTS * step + part - 1, PROMPTS * (step + 1), parts):
            prompt = model.encode(f"{2 + row % 7} + {3 + row % 5}?")
            engine.submit(prompt, GROUP, ordinal=row)
        engine.run()
        for batch in engine.batches():
            buffer.put(scored(model, batch))
        print(f"sampled step {step} with weights {model.version}", flush=True)
        step += 1


def train(a, path):
    """Trains on the groups as they come. Its state is on disk before a step is acknowledged."""
    model, _, buffer = opened(a, TRAINER, rl.Use.TRAIN)
    trainer, checkpoints = rl.Trainer(model), os.path.join(a.dir, "checkpoints")
    step, trained = 0, []
    try:
        step, trained = json.loads(trainer.load(checkpoints)).values()
    except rl.Error as error:
        if error.code is not rl.Code.NOT_FOUND:  # there is no checkpoint yet
            raise
    buffer.resume(step)
    if step > 0:
        publish(model, path)  # it may have been killed before
    while step < a.steps:
        batch = buffer.take(PROMPTS, min_groups=PROMPTS, version=model.version, step=step + 1,
                            timeout=None)
        groups = sorted({s.ordinal for s in batch})
        trainer.step(batch)
        step, trained = trainer.publish(), trained + groups
        trainer.save(checkpoints, json.dumps({"step": step, "groups": trained}), keep_last=2)
        buffer.acknowledge(step)
        publish(model, path)
        print(f"trained step {step} on groups {groups}", flush=True)
    print(f"{step} steps on {len(trained)} groups, {len(set(trained))} different ones; weights "
          f"{model.digest:016x}", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("role", choices=["sample", "train"])
    parser.add_argument("model")
    parser.add_argument("dir")
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    a = parser.parse_args()
    if a.steps < 1 or not re.fullmatch("1/1|1/2|2/2|[1-4]/4", a.part):
        parser.error(f"--steps must be 1 or more, --part one of 1, 2 or {PROMPTS} parts")
    os.makedirs(a.dir, exist_ok=True)
    (sample if a.role == "sample" else train)(a, os.path.join(a.dir, "weights.npz"))


if __name__ == "__main__":
    try:
        main()
    except rl.Error as error:
        sys.exit(str(error))
