#!/usr/bin/env python3
"""What tools/scale computes, against ranks that are threads.

usage: measured_ranks.py traffic MODELS            bytes, on models of tests/fixtures
       measured_ranks.py times COLLECTIVES_BENCH   seconds of 1 and 2 ranks, on RL_SMOLLM2_GGUF

Times are predicted from what one rank measures with two threads on two and on six samples, and from
a sum over ranks that the program COLLECTIVES_BENCH measures. They hold on a machine of two cores
that does nothing else.
"""
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time
from array import array

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bindings/python")]
import rl  # noqa: E402
from scale import traffic  # noqa: E402
from scale.machine import Link, Machine  # noqa: E402
from scale.shapes import Layout, Shape, Work  # noqa: E402
from scale.times import UPDATE_BYTES, Step  # noqa: E402

SKIPPED = 77
SMOLLM2 = Shape("SmolLM2-135M", 30, 576, 1536, 9, 3, 64, 49152, tied=True)
TOKENS = 512  # of a sample that is timed
ALLOWED = 0.15
BLOCK = 16  # rows of a KV block
AXES = ("tensor", "context", "data", "pipeline")


def expect(condition, text):
    if not condition:
        sys.exit(text)


class Ranks:
    """Ranks of one run with a model and a trainer each, which make a step together."""

    def __init__(self, model, **options):
        settings = {"model.path": str(model), "algo.objective": "sft", "runtime.threads": 1,
                    **{key.replace("__", "."): value for key, value in options.items()}}
        with rl.Options(settings) as options:
            first = rl.Runtime(options)
            count = math.prod(options[f"parallel.{axis}"] for axis in AXES)
            self.runtimes = [first] + [first.create_rank(r) for r in range(1, count)]
            self.models = [rl.Model(r, options, rl.Use.TRAIN) for r in self.runtimes]
            self.trainers = [rl.Trainer(model, options) for model in self.models]

    def step(self, batch):
        """The metrics of each rank, and the seconds of all."""
        found = [None] * len(self.trainers)

        def run(rank):
            try:
                with self.trainers[rank].step(batch) as event:
                    found[rank] = dict(event.metrics)
            except rl.Error as error:
                found[rank] = error
        threads = [threading.Thread(target=run, args=(r,)) for r in range(len(found))]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - begin
        for each in found:
            expect(not isinstance(each, rl.Error), str(each))
        return found, seconds

    def close(self):
        for thing in (*self.trainers, *self.models, *reversed(self.runtimes)):
            thing.close()


def batch_of(samples, tokens, vocab):
    return rl.Batch.of(
        rl.Sample(ids=array("i", [3 + (37 * i + 11 * s) % (vocab - 3) for i in range(tokens)]),
                  num_prompt=1, ordinal=s, finish=rl.Finish.LENGTH) for s in range(samples))


# ---- bytes ----


def sent(model, name, samples=4, tokens=40, **options):
    """A counter of each rank in a step of a layout, and the rows that were trained on."""
    ranks = Ranks(model, engine__max_model_len=tokens, trainer__max_tokens_per_device=256,
                  model__dtype="fp32", **options)
    shape = Shape.of_config(model)
    batch = batch_of(samples, tokens, shape.vocab)
    metrics, _ = ranks.step(batch)
    batch.close()
    ranks.close()
    return sum(each[name] for each in metrics), metrics[0]["training/computed_rows"]


def compare(found, wanted, what, more=0):
    expect(wanted <= found <= wanted + more, f"{what}: {found:.0f} bytes, not {wanted:.0f}")
    print(f"{what}: {found:.0f} bytes")


def data_traffic(model, shape):
    for ranks in (2, 3):
        for zero in (0, 1, 2, 3):
            layout = {"parallel__data": ranks}
            if zero:
                layout["parallel__zero_stage"] = zero
            what = f"{shape.name}, {ranks} ranks of data, ZeRO {zero}"
            compare(sent(model, "comm/gradient_bytes", **layout)[0],
                    traffic.gradients(shape.parameters, ranks, zero), f"gradients of {what}",
                    more=traffic.norm_parts_most(ranks, zero))
            compare(sent(model, "comm/parameter_bytes", **layout)[0],
                    traffic.parameters_gathered(shape.parameters, ranks, zero,
                                                shape.layers * shape.layer_weights, item=4),
                    f"parameters of {what}")


def stage_traffic(model, shape):
    found, rows = sent(model, "comm/activation_bytes", parallel__pipeline=2)
    compare(found, traffic.stage_rows(shape, 2, rows), f"rows of two stages of {shape.name}")
    found, _ = sent(model, "comm/gradient_bytes", parallel__pipeline=2)
    compare(found, traffic.tied_embedding(shape, 2), f"gradients of two stages of {shape.name}")


def context_traffic(model, shape):
    """Of one sample, in one micro-batch."""
    for ranks in (2, 3):
        found, rows = sent(model, "comm/context_bytes", samples=1, tokens=100,
                           parallel__context=ranks, engine__block_size=BLOCK)
        block = BLOCK * 2 * shape.kv_heads * shape.head_dim * 4
        wanted = shape.layers * traffic.context_layer(shape, ranks, rows, -(-rows // BLOCK), block)
        compare(found, wanted, f"keys and values of {ranks} ranks of context of {shape.name}")


def tensor_traffic(model, shape):
    ranks, samples, tokens = 2, 4, 40
    found, rows = sent(model, "comm/tensor_bytes", samples, tokens, parallel__tensor=ranks,
                       parallel__reduction_parts=ranks)
    wanted = (shape.layers * traffic.tensor_layer(shape, ranks, rows)
              + traffic.tensor_embedding(shape, ranks, rows)
              + traffic.tensor_head(shape, ranks, samples * (tokens - 1))
              + traffic.tensor_norm(ranks))
    compare(found, wanted, f"sums and vocabulary of {ranks} ranks of tensor of {shape.name}")


def check_traffic(models):
    for name in ("llama", "smollm2"):  # their heads differ: one is the embedding
        model = pathlib.Path(models, name)
        shape = Shape.of_config(model)
        data_traffic(model, shape)
        stage_traffic(model, shape)
        context_traffic(model, shape)
        tensor_traffic(model, shape)
    return 0


# ---- seconds ----


def sum_rate(program):
    """Bytes/s that each of two ranks sends in a sum over 64 MiB: an all-reduce sends as many bytes
    as there are."""
    shown = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^ +2 +64\.000 +([0-9.]+)", shown, re.M)
    expect(found, f"no sum of 64 MB in {shown!r}")
    return (64 << 20) / (1e-3 * float(found[1]))


def work_of(samples):
    return Work(samples=samples, group=1, prompt=1, response=TOKENS - 1, optimizer_steps=1,
                max_tokens=TOKENS, rollout=False)


def alternated(rigs, rounds=5):
    """The median of the seconds of each rig's step, taken in turn."""
    taken = [[] for _ in rigs]
    for round_ in range(rounds + 1):
        for (ranks, batch), seconds in zip(rigs, taken):
            seconds.append(ranks.step(batch)[1])
    return [statistics.median(seconds[1:]) for seconds in taken]  # the first one touches memory


def calibrated(two, six, rate):
    """The machine, from a rank's steps on two and on six samples: what grows with samples is
    products, and what does not is the optimizer and the publication."""
    plain = Machine("here", 1.0, 1e18, 1e18, 1e18, 2, Link(0.0, rate), Link(0.0, rate))
    flop = [Step(SMOLLM2, Layout(), work_of(n), plain).seconds() for n in (2, 6)]
    flops = (flop[1] - flop[0]) / (six - two)
    fixed = two - flop[0] / flops
    expect(fixed > 0, f"{two:.3f} s of two samples and {six:.3f} s of six do not fit the model")
    moved = SMOLLM2.parameters * (UPDATE_BYTES + 8)
    return plain._replace(matmul_flops=flops, update_bytes_per_s=moved / fixed)


def check_times(program):
    model = os.environ.get("RL_SMOLLM2_GGUF")
    if not model:
        print("skipped: RL_SMOLLM2_GGUF is not set")
        return SKIPPED
    common = {"engine__max_model_len": TOKENS, "trainer__max_tokens_per_device": TOKENS}
    one = Ranks(model, **{**common, "runtime__threads": 2})
    both = Ranks(model, **common, parallel__data=2)
    batches = {n: batch_of(n, TOKENS, SMOLLM2.vocab) for n in (2, 4, 6)}
    two, six, four, shared = alternated([(one, batches[2]), (one, batches[6]), (one, batches[4]),
                                         (both, batches[4])])
    machine = calibrated(two, six, sum_rate(program))
    print(f"{machine.matmul_flops / 1e9:.0f} GFLOP/s, {machine.update_bytes_per_s / 1e9:.1f} GB/s "
          f"of the optimizer, {machine.node.bytes_per_s / 1e9:.1f} GB/s between ranks")
    good = True
    for ranks, measured in ((1, four), (2, shared)):
        step = Step(SMOLLM2, Layout(data=ranks), work_of(4), machine.divided(ranks))
        off = step.seconds() / measured - 1
        print(f"{ranks} ranks: predicted {step.seconds():.3f} s, measured {measured:.3f} s, "
              f"{off:+.1%}")
        good = good and abs(off) <= ALLOWED
    both.close()
    one.close()
    expect(good, f"a prediction is more than {ALLOWED:.0%} off")
    return 0


if __name__ == "__main__":
    kinds = {"traffic": check_traffic, "times": check_times}
    if len(sys.argv) != 3 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    sys.exit(kinds[sys.argv[1]](sys.argv[2]))
