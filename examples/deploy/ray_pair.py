#!/usr/bin/env python3
"""ray_pair: two actors of Ray train a model. One samples, the other one trains.

  ray_pair.py MODEL [--steps N] [--out DIR | --alone] [--threads N] [--set KEY=VALUE]...

MODEL is a GGUF file or a directory with a tokenizer, DIR is for checkpoints; every node sees both.
Groups of samples go to the trainer as bytes, weights come back as tensors in Ray's object store.
While the trainer works, the other actor starts the samples of the next step under the weights that
it has; they go on under the new ones, which it sets while these requests run.

Both actors may be killed at any time: Ray starts a new one and repeats its calls. A call brings the
weights that it needs, and the trainer goes on from its checkpoint, so the run ends with the same
weights, bit for bit. So does a run that is started again with the same DIR. --alone makes the same
run without Ray, in one process with one model.
"""
import argparse
import json
import os
import re
import sys
import tempfile

import rl

PROMPTS, GROUP = 4, 4  # of a step
HEAD_FORWARDS = 8      # of a step, under the weights of the step before
RESTARTS = 20          # of each actor
PLACED_WITHIN = 120    # seconds
ALONE, SAMPLES, TRAINS = 0, 1, 2  # runtime.instance

# ---- what both have ----


def configured(settings, instance):
    """Options. The budget of a micro-batch is given, since sums are split by it and it would follow
    from the memory that each process has left."""
    options = rl.Options({
        "runtime.instance": instance, "runtime.seed": 11, "engine.max_num_seqs": 8,
        "engine.max_model_len": 64, "pipeline.samples_per_prompt": GROUP,
        "sampling.max_new_tokens": 16, "trainer.max_tokens_per_device": 512, "optimizer.lr": 1e-5})
    if instance != TRAINS:
        options["model.compute_copies"] = 2  # weights may be set while requests run
    for setting in settings:
        options.assign(setting)
    return options


def opened(settings, instance):
    """A model and its options."""
    options = configured(settings, instance)
    use = {ALONE: rl.Use.PARTS, SAMPLES: rl.Use.GENERATE, TRAINS: rl.Use.TRAIN}[instance]
    return rl.Model(rl.Runtime(options), options, use), options


# ---- the actors ----


class Rollout:
    """Samples. Each call may come again, to this process or to one that takes its place, which
    knows nothing of the calls before; so a call brings all that it needs. Calls that Ray repeats
    come in any order: `after` is a result of the call that has to be done first."""

    def __init__(self, settings, shared=None):
        self.model, options = shared or opened(settings, SAMPLES)
        options = options.clone()
        options["sampling.stop_token_ids"] = self.model.eos_ids
        self.engine = rl.Engine(self.model, options)
        self.begun, self.done, self.result = -1, -1, None

    def begin(self, step, weights, after=None):
        """Submits the prompts of a step, and starts on them."""
        if step == self.begun:
            return
        self.use(weights, max(0, step - 1))
        for i in range(PROMPTS):
            self.engine.submit(self.prompt(PROMPTS * step + i), GROUP, ordinal=PROMPTS * step + i)
        for _ in range(HEAD_FORWARDS):
            self.engine.step()
        self.begun = step

    def finish(self, step, old, new, after=None):
        """Goes on under new weights until all samples of the step are finished. Returns facts, and
        the scored groups as bytes. `old` are the weights that the step began with."""
        if step != self.done:
            self.begin(step, old)
            in_flight = self.engine.stats().started
            self.use(new, step)
            self.engine.run()
            facts, groups = self.scored(self.engine.take())
            facts.update(in_flight=in_flight, version=self.model.version, process=os.getpid())
            self.done, self.result = step, (facts, groups)
        return self.result

    def use(self, weights, wanted):
        """Sets weights under the version that they have in the trainer; None: those of the file."""
        version, tensors = weights or (0, {})
        if version != wanted:
            raise RuntimeError(f"version {version} of the weights came instead of {wanted}")
        if version > self.model.version:
            self.model.set_weights(tensors, as_version=version)

    def prompt(self, row):
        """A question as a chat, or as plain text when the model has no chat format."""
        question = f"{2 + row % 7} + {3 + row % 5}?"
        try:
            return self.model.encode_chat([{"role": "user", "content": question}])
        except rl.Error as error:
            if error.code not in (rl.Code.UNSUPPORTED, rl.Code.FAILED_PRECONDITION):
                raise
            return self.model.encode(question)

    def scored(self, batch):
        """Rewards each sample with the share of digits in its text."""
        rewards = []
        for index, sample in enumerate(batch):
            text = self.model.decode(sample.response_ids, skip_special=True)
            rewards.append(len(re.findall("[0-9]", text)) / max(1, len(text)))
            batch.set_reward(index, rewards[-1])
        return {"reward": sum(rewards) / len(rewards)}, batch.to_bytes()


class Trainer:
    """Trains. Its state is on disk before a step is returned, so a process that takes its place
    goes on from there."""

    def __init__(self, settings, out, shared=None):
        self.model, _ = shared or opened(settings, TRAINS)
        self.trainer, self.out, self.facts = rl.Trainer(self.model), out, {"step": 0}
        try:
            self.facts = json.loads(self.trainer.load(out))
        except rl.Error as error:
            if error.code is not rl.Code.NOT_FOUND:  # there is no checkpoint yet
                raise

    def start(self):
        """Facts of the last step done, and the weights before and after it."""
        old = None
        if self.facts["step"] > 1:
            self.trainer.load(os.path.join(self.out, f"step_{self.facts['step'] - 1:06}"))
            old = self.weights(copy=True)
            self.trainer.load(self.out)
        return self.facts, old, self.weights()

    def train(self, step, groups):
        """Trains on the groups of a step, unless that was done before. Returns facts and the new
        weights."""
        if self.facts["step"] == step:
            event = self.trainer.step(rl.Batch.from_bytes(groups))
            self.facts = {
                "step": self.trainer.publish(), "digest": f"{self.model.digest:016x}",
                "compared": int(event.metric("training/logprob_compared_tokens"))}
            self.trainer.save(self.out, json.dumps(self.facts), keep_last=2)
        if self.facts["step"] != step + 1:
            raise RuntimeError(f"step {step} is asked for after {self.facts['step']} steps")
        return {**self.facts, "process": os.getpid()}, self.weights()

    def weights(self, copy=False):
        """The version, and the tensors. Those show the memory of the model unless they are copied:
        Ray copies them into its object store."""
        if self.model.version == 0:
            return None
        return self.model.version, {name: self.model.weight(name, copy).numpy()
                                    for name in self.model.weight_names}


# ---- the loop ----


def run(rollout, trainer, steps, get):
    """Trains until `steps` steps are done. `rollout` and `trainer` are called as actors of Ray are;
    get waits for what a call returns. Results go from one actor to the other, not through here."""
    both = {"num_returns": 2}
    facts, old, new = trainer.start.options(num_returns=3).remote()
    facts = get(facts)
    first = facts["step"]
    if first < steps:
        sampled, groups = rollout.finish.options(**both).remote(first, old, new)
    for step in range(first, steps):
        old, this = new, sampled
        if step + 1 < steps:
            begun = rollout.begin.remote(step + 1, old, this)  # while the trainer works
        facts, new = trainer.train.options(**both).remote(step, groups)
        if step + 1 < steps:
            sampled, groups = rollout.finish.options(**both).remote(step + 1, old, new, begun)
        facts, this = get(facts), get(this)
        print(f"step {facts['step']}  reward {this['reward']:.3f}  "
              f"weights {this['version']} came with {this['in_flight']} samples in flight  "
              f"log-probs of {facts['compared']} tokens are equal  "
              f"(processes {this['process']} and {facts['process']})", flush=True)
    print(f"{facts['step']} steps, weights {facts['digest']}", flush=True)


class Here:
    """An object that is called as an actor, in this process and at once."""

    def __init__(self, served):
        self.served = served

    def __getattr__(self, name):
        return HereCall(getattr(self.served, name))


class HereCall:
    def __init__(self, function):
        self.remote = function

    def options(self, **_):
        return self


def run_alone(a, out):
    shared = opened(a.set, ALONE)
    run(Here(Rollout(a.set, shared)), Here(Trainer(a.set, out, shared)), a.steps, lambda it: it)


def placed(ray, options, threads):
    """How Ray makes each of the actors: in a part of a placement group, which it starts again
    there."""
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    placement = options["pipeline.placement"]
    group = placement_group([{"CPU": threads}] * 2, strategy=placement.upper())
    if not group.wait(timeout_seconds=PLACED_WITHIN):
        sys.exit(f"Ray found no place for two actors of {threads} cores within {PLACED_WITHIN} s: "
                 f"pipeline.placement is {placement}")
    return [ray.remote(num_cpus=threads, max_restarts=RESTARTS, max_task_retries=RESTARTS,
                       scheduling_strategy=PlacementGroupSchedulingStrategy(group, part))
            for part in range(2)]


def run_with_ray(a, out):
    import ray
    options = configured(a.set, ALONE)  # an option that is wrong is refused here
    # Ray of RAY_ADDRESS or of this machine, else one that is started here.
    ray.init(log_to_driver=False, include_dashboard=False)
    for_rollout, for_trainer = placed(ray, options, a.threads)
    run(for_rollout(Rollout).remote(a.set), for_trainer(Trainer).remote(a.set, out), a.steps,
        ray.get)
    ray.shutdown()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=8)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--out", metavar="DIR")
    place.add_argument("--alone", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    a = parser.parse_args()
    if a.steps < 1:
        parser.error("--steps must be 1 or more")
    a.set = [f"model.path={os.path.abspath(a.model)}", f"runtime.threads={a.threads}", *a.set]
    with tempfile.TemporaryDirectory() as scratch:
        (run_alone if a.alone else run_with_ray)(a, os.path.abspath(a.out or scratch))


if __name__ == "__main__":
    try:
        main()
    except rl.Error as error:
        sys.exit(str(error))
