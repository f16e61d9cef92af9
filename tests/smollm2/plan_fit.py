#!/usr/bin/env python3
"""Holds rl_plan_fit to its promise, on SmolLM2-135M-Instruct: for eight budgets between the least
that fits and twice what the defaults take, none of five other settings that fit, drawn from all
knobs, is more than 10 % faster than the proposed one when both are measured. A setting that seems
faster in one pair of runs is measured in three more, in turns, and the median of the ratios counts.

usage: plan_fit.py [--budgets N] [--only K] [--seed N] [--least MIB]

RL_SMOLLM2_GGUF is the model's file, RL_LIBRARY librl.so. Nothing else should run meanwhile.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import memory_plan

MIB = memory_plan.MIB
LIMIT = 1.10
PAIRS, OTHERS, STEPS, DRAWS = 3, 5, 3, 1000
BASE = {
    "runtime.threads": 2, "runtime.seed": 1, "pipeline.total_steps": STEPS,
    "pipeline.prompts_per_step": 4, "pipeline.samples_per_prompt": 8,
    "sampling.max_new_tokens": 32, "sampling.ignore_eos": True, "engine.max_model_len": 128,
    "algo.kl.where": "loss", "algo.kl.coef": "0.01", "optimizer.lr": "1e-5",
}


def options_of(data, settings):
    import rl
    options = rl.Options({**BASE, **settings})
    options["model.path"] = os.environ["RL_SMOLLM2_GGUF"]
    options["data.path"] = data
    return options


def run(data, settings):
    """Runs the steps; prints the seconds of the fastest after the first."""
    print(memory_plan.run_step(options_of(data, settings))["seconds"])


def measured(data, settings):
    done = subprocess.run([sys.executable, __file__, "--run", data, json.dumps(settings)],
                          capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        sys.exit(f"{settings}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split()[-1])


def whole(settings):
    """Full recompute needs a method and a number of layers."""
    if settings.get("trainer.recompute_granularity") == "full":
        return settings | {"trainer.recompute_method": "uniform", "trainer.recompute_num_layers": 1}
    return settings


def fits(data, settings):
    """Plan info and knobs, or None if the budget refuses the settings."""
    import rl
    try:
        plan = rl.Plan(options_of(data, settings), rl.Use.PIPELINE)
    except rl.Error as error:
        if error.code is not rl.Code.RESOURCE_EXHAUSTED:
            raise
        return None
    return plan


def fitted(runtime, machine, data, budget):
    """The settings that rl_plan_fit proposes, the estimated seconds, and the seconds it took."""
    import rl
    options = options_of(data, {"runtime.memory_budget_bytes": budget})
    begin = time.monotonic()
    plan, estimate = rl.Plan.fit(runtime, options, rl.Use.PIPELINE, machine)
    took = time.monotonic() - begin
    proposed = plan.options()
    changed = {key: str(proposed[key]) for key in KNOBS if proposed[key] != options[key]}
    return whole({"runtime.memory_budget_bytes": budget, **changed}), estimate.total_s, took


# Values that knobs take: a draw sets each key by chance to one of them, or leaves it alone.
KNOBS = {
    "engine.memory_fraction": ["0.2", "0.5"], "engine.max_num_batched_tokens": ["128", "512"],
    "engine.max_num_seqs": ["4", "8", "16"], "trainer.backward_weights": ["by_layer"],
    "trainer.recompute_granularity": ["selective", "full"],
    "trainer.recompute_loss": ["true"], "trainer.free_grad_buffers_on_publish": ["true"],
    "runtime.threads": ["1"],
    "trainer.max_tokens_per_device": ["128", "256", "512", "1024"],
    "trainer.logprob_chunk_tokens": ["64", "256", "1024"],
    "optimizer.state_dtype": ["bf16", "int8"], "trainer.grad_dtype": ["bf16"],
    "model.dtype": ["bf16"],
}


def random_setting(chance, budget, like):
    """Keys by chance take one of their values, or that of another setting, or are left alone."""
    settings = {"runtime.memory_budget_bytes": budget}
    for key, values in KNOBS.items():
        if chance.random() < 0.4:
            settings[key] = chance.choice(values)
        elif key in like:
            settings[key] = like[key]
    return whole(settings)


def others(chance, data, budget, proposed):
    """Settings other than the proposed one that fit: drawn from nothing, and, as few of those fit a
    small budget, from the proposed one. There may be fewer than OTHERS."""
    found = []
    for draw in range(DRAWS):
        like = proposed if draw >= DRAWS // 4 else {}
        settings = random_setting(chance, budget, like)
        if settings == proposed or settings in found or fits(data, settings) is None:
            continue
        found.append(settings)
        if len(found) == OTHERS:
            break
    return found


def least_budget(runtime, machine, data, low, high):
    """The least budget that rl_plan_fit serves, to 8 MiB."""
    import rl
    while high - low > 8 * MIB:
        middle = (low + high) // 2
        try:
            fitted(runtime, machine, data, middle)
            high = middle
        except rl.Error:
            low = middle
    return high


def gain(data, proposed, other):
    """How much faster the other setting is than the proposed one: a ratio."""
    ratios = [measured(data, proposed) / measured(data, other)]
    if ratios[0] > LIMIT:
        ratios = [measured(data, proposed) / measured(data, other) for _ in range(PAIRS)]
    return statistics.median(ratios)


def main():
    import rl
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--budgets", type=int, default=8)
    parser.add_argument("--only", type=int, help="the budget of this index alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, help="the least budget in MiB, where it is known")
    arguments = parser.parse_args()
    if not os.environ.get("RL_SMOLLM2_GGUF"):
        print("skipped: RL_SMOLLM2_GGUF is not set: the model file is not here")
        return memory_plan.SKIPPED
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "data.jsonl"
        memory_plan.write_data(path, 16)
        data = str(path)
        runtime = rl.Runtime(rl.Options({"runtime.threads": 2}))
        machine = runtime.probe()
        default = fits(data, {}).info.total_bytes
        least = (arguments.least * MIB if arguments.least is not None else
                 least_budget(runtime, machine, data, 256 * MIB, default))
        print(f"defaults take {default // MIB} MiB, the least budget is {least // MIB} MiB")
        chosen = range(arguments.budgets) if arguments.only is None else [arguments.only]
        for i in chosen:
            chance = random.Random(f"{arguments.seed} {i}")
            budget = least + i * (2 * default - least) // max(1, arguments.budgets - 1)
            proposed, estimate, took = fitted(runtime, machine, data, budget)
            print(f"{budget // MIB} MiB, found in {took:.2f} s, estimated {estimate:.2f} s a step: "
                  f"{proposed}")
            for other in others(chance, data, budget, proposed):
                ratio = gain(data, proposed, other)
                failed += ratio > LIMIT
                print(f"  {'FASTER' if ratio > LIMIT else 'slower' if ratio < 1 else 'near'} "
                      f"{ratio:.3f}: {other}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], json.loads(sys.argv[3]))
    else:
        sys.exit(main())
