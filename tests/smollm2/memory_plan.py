#!/usr/bin/env python3
"""Holds the memory of runs to their plans, on SmolLM2-135M-Instruct: for each configuration below,
a step in a process of its own. The ledger must equal the plan exactly, and the peak of the process,
less that of one with an empty runtime, must lie within 5 % and 64 MiB of it. A budget that is too
small must be refused with knobs, and turning them in their order must make the run fit.

usage: memory_plan.py [--all] [--steps N] [NAME...]      without --all those marked as quick

RL_SMOLLM2_GGUF is the model's file, RL_LIBRARY librl.so. It prints what is planned, what the peak
was beyond an empty runtime, their difference, and with two steps or more the time of the fastest
after the first, for which nothing else should run meanwhile.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MIB = 2**20
SLACK_FRACTION, SLACK_BYTES = 0.05, 64 * MIB
SKIPPED = 77
BASE = {
    "runtime.threads": 2, "runtime.seed": 1,
    "pipeline.prompts_per_step": 4, "pipeline.samples_per_prompt": 4,
    "sampling.max_new_tokens": 24, "engine.max_model_len": 128, "algo.kl.where": "none",
    "trainer.max_tokens_per_device": 512, "optimizer.lr": "1e-5",
}
FULL = {"trainer.recompute_granularity": "full", "trainer.recompute_method": "uniform",
        "trainer.recompute_num_layers": 1}
REFERENCE = {"algo.kl.where": "loss", "algo.kl.coef": "0.01"}
CRITIC = {"algo.advantage": "gae"}


def budget(mib):
    return {"runtime.memory_budget_bytes": f"{mib}MiB"}


# Options beyond BASE, and a preset where there is one. "turn" marks those that a budget refuses
# until their knobs are turned, "quick" those of the short form.
CONFIGURATIONS = {
    "plain": ({}, "quick"),
    "fp32": ({"model.dtype": "fp32"},),
    "selective": ({"trainer.recompute_granularity": "selective"},),
    "full": (FULL,),
    "full_block": ({"trainer.recompute_granularity": "full", "trainer.recompute_method": "block",
                    "trainer.recompute_num_layers": 12},),
    "full_offload": ({**FULL, "trainer.activation_offload": True},),
    "recompute_loss": ({"trainer.recompute_loss": True},),
    "small_chunks": ({"trainer.logprob_chunk_tokens": 64},),
    "whole_chunks": ({"trainer.logprob_chunk_tokens": 0},),
    "moments_bf16": ({"optimizer.state_dtype": "bf16"},),
    "moments_int8": ({"optimizer.state_dtype": "int8", **FULL}, "quick"),
    "gradients_bf16": ({"trainer.grad_dtype": "bf16"},),
    "gradients_lent": ({"trainer.free_grad_buffers_on_publish": True},),
    "least": ({"optimizer.state_dtype": "int8", "trainer.grad_dtype": "bf16", **FULL,
               "trainer.recompute_loss": True, "trainer.free_grad_buffers_on_publish": True},),
    "checkpoint_meanwhile": ({"checkpoint.async": True, "checkpoint.every_steps": 1},),
    "offload_half": ({"optimizer.cpu_offload": True, "optimizer.cpu_offload_fraction": "0.5"},),
    "offload_all": ({"optimizer.cpu_offload": True, "optimizer.overlap_d2h_h2d": True},),
    "muon": ({"optimizer.name": "muon"},),
    "averages": ({"optimizer.ema": "0.9"},),
    "reference": (REFERENCE,),
    "critic": (CRITIC,),
    "critic_and_reference": ({**CRITIC, **REFERENCE, "critic.recompute_granularity": "selective"},),
    "short_of_memory": ({**REFERENCE, **budget(2200)}, "turn", "quick"),
    "very_short_of_memory": ({**CRITIC, **REFERENCE, **budget(3700)}, "turn"),
    "low_memory": ({}, "preset:low_memory"),
    "colocate_dense": ({}, "preset:colocate_dense"),
}


def peak_bytes():
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line))


# ---- in a process of its own ----

def options_of(name, data, steps):
    import rl
    settings, *marks = CONFIGURATIONS[name]
    options = rl.Options()
    for mark in marks:
        if mark.startswith("preset:"):
            options.apply_preset(mark.split(":")[1])
    for key, value in {**BASE, **settings}.items():
        options[key] = value
    options["model.path"] = os.environ["RL_SMOLLM2_GGUF"]
    options["data.path"] = data
    options["pipeline.total_steps"] = steps
    if "checkpoint.async" in settings:
        options["checkpoint.dir"] = str(pathlib.Path(data).parent / name)
    return options


def turn_knobs(options):
    """Turns the knobs of the refusal in their order, so that the plan fits; returns what it set."""
    import rl
    try:
        rl.Plan(options, rl.Use.PIPELINE)
        raise AssertionError("the budget was not refused")
    except rl.Error as refusal:
        knobs = refusal.knobs
    assert knobs, "the refusal has no knobs"
    for knob in knobs:
        options[knob.key] = knob.proposed
    rl.Plan(options, rl.Use.PIPELINE).close()
    return [f"{knob.key}={knob.proposed}" for knob in knobs]


def run_step(options):
    """Runs the steps and returns plan, ledger, peak and time."""
    import rl
    runtime = rl.Runtime(options)
    model = rl.Model(runtime, options)
    pipeline = rl.Pipeline(model, options)
    pipeline.start()
    seconds = []
    for event in pipeline:
        if event.kind is rl.EventKind.SCORE:
            event.score(1.0 / (1 + event.sample.slot))
        if event.kind is rl.EventKind.STEP:
            seconds.append(event.metrics["timing_s/step"])
    info = pipeline.plan().info
    arenas = [i for i in pipeline.plan() if i.kind is rl.PlanKind.ARENA]
    return {"planned": info.total_bytes, "arenas": sum(i.bytes for i in arenas),
            "ledger": runtime.reserved_bytes, "peak": peak_bytes(),
            "seconds": min(seconds[1:], default=None)}


def child(name, data, steps):
    if name == "empty":
        import rl
        options = rl.Options({"runtime.threads": BASE["runtime.threads"]})
        runtime = rl.Runtime(options)
        result = {"peak": peak_bytes(), "threads": runtime.threads}
    else:
        options = options_of(name, data, int(steps))
        turned = turn_knobs(options) if "turn" in CONFIGURATIONS[name] else []
        result = {**run_step(options), "turned": turned}
    print(json.dumps(result))


# ---- of all ----

def in_child(name, data, steps):
    done = subprocess.run([sys.executable, __file__, "--child", name, data, str(steps)],
                          capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["without a word"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def faults(result, empty_bytes):
    """What is wrong with a configuration's figures."""
    if "failed" in result:
        return [result["failed"]]
    wrong = []
    if result["ledger"] != result["arenas"]:
        wrong.append(f"the ledger has {result['ledger']} bytes, the plan {result['arenas']}")
    used, planned = result["peak"] - empty_bytes, result["planned"]
    if abs(used - planned) > SLACK_FRACTION * planned + SLACK_BYTES:
        wrong.append(f"the peak is {used} bytes above an empty runtime, the plan {planned}")
    return wrong


def write_data(path, num_rows=8):
    rows = [{"messages": [{"role": "user", "content": f"What is {a} + {20 - a}?"}], "tag": "20"}
            for a in range(num_rows)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def self_test():
    good = {"ledger": 10, "arenas": 10, "planned": 1000 * MIB, "peak": 1100 * MIB}
    cases = {"good": (good, 0), "a ledger of its own": ({**good, "ledger": 11}, 1),
             "above the plan": ({**good, "peak": 1220 * MIB}, 1),
             "below the plan": ({**good, "peak": 980 * MIB}, 1), "failed": ({"failed": "x"}, 1)}
    wrong = [name for name, (result, want) in cases.items()
             if len(faults(result, 100 * MIB)) != want]
    print("\n".join(wrong))
    return 1 if wrong else 0


def print_result(name, result, empty_bytes):
    used, planned = result["peak"] - empty_bytes, result["planned"]
    print(f"{name}: planned {planned / MIB:.0f} MiB, used {used / MIB:.0f} MiB "
          f"({100 * (used - planned) / planned:+.1f} %), arenas {result['arenas']}, "
          f"ledger {result['ledger']}"
          + (f", {result['seconds']:.2f} s a step" if result["seconds"] else "")
          + "".join(f", {turned}" for turned in result["turned"]), flush=True)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("names", nargs="*", choices=[[], *CONFIGURATIONS])
    arguments = parser.parse_args()
    if not os.environ.get("RL_SMOLLM2_GGUF"):
        print("skipped: RL_SMOLLM2_GGUF is not set: the model file is not here")
        return SKIPPED
    quick = [name for name, (_, *marks) in CONFIGURATIONS.items() if "quick" in marks]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "data.jsonl"
        write_data(data)
        empty_bytes = in_child("empty", str(data), 0)["peak"]
        print(f"an empty runtime: {empty_bytes / MIB:.0f} MiB")
        for name in arguments.names or (CONFIGURATIONS if arguments.all else quick):
            result = in_child(name, str(data), arguments.steps)
            wrong = faults(result, empty_bytes)
            failed += bool(wrong)
            if "planned" in result:
                print_result(name, result, empty_bytes)
            for text in wrong:
                print(f"{name}: failed: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    elif sys.argv[1:2] == ["--self-test"]:
        sys.exit(self_test())
    else:
        sys.exit(main())
