#!/usr/bin/env python3
"""The arithmetic of tools/scale, with values worked out by hand.

usage: model_checks.py
"""
import json
import math
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from scale import machine as machines  # noqa: E402
from scale import traffic  # noqa: E402
from scale.shapes import SHAPES, Layout, Shape, Work, layouts  # noqa: E402
from scale.times import Group, Step, exchange_s  # noqa: E402

# Numbers that make each term easy to see.
TINY = Shape("tiny", 2, 8, 16, 4, 2, 2, 32)
PLAIN = machines.Machine("plain", matmul_flops=1e6, read_bytes_per_s=1e6, update_bytes_per_s=1e6,
                         memory_bytes=1e9, ranks_per_node=2, node=machines.Link(1.0, 100.0),
                         network=machines.Link(5.0, 10.0))
WORK = Work(samples=8, group=4, prompt=4, response=12, optimizer_steps=2, max_tokens=16)


def expect(found, wanted, what):
    if not math.isclose(found, wanted, rel_tol=1e-12):
        sys.exit(f"{what} is {found}, not {wanted}")


def refuses(call, text):
    try:
        call()
    except ValueError as error:
        if text in str(error):
            return
        sys.exit(f"{error} does not say {text!r}")
    sys.exit(f"nothing says {text!r}")


def shapes():
    # The published numbers of parameters.
    for shape, billions in zip(SHAPES, (1.543714304, 7.615616512, 70.553706496)):
        expect(shape.parameters, billions * 1e9, f"parameters of {shape.name}")
    expect(TINY.layer_weights, 2 * 8 * (8 + 4) + 3 * 8 * 16, "weights of a layer")
    expect(TINY.parameters, 2 * (576 + 16) + 8 + 2 * 256, "parameters")
    fixture = Shape.of_config(ROOT / "tests/fixtures/models/llama")
    expect(fixture.layer_weights, 2 * 64 * (64 + 32) + 3 * 64 * 96, "weights of the fixture")
    every = list(layouts(8, zeros=(0,)))
    expect(len(every), 20, "layouts of 8 ranks: 3 factors of 2 on 4 axes")
    expect(len({*every}), 20, "different layouts")
    if not all(layout.ranks == 8 for layout in every) or Layout(tensor=4).fits(TINY):
        sys.exit("a layout has another number of ranks, or more parts than KV heads")


def links():
    near, far, mixed = Group(2, 1, 2), Group(2, 2, 2), Group(4, 1, 2)
    expect(exchange_s(PLAIN, near, 200.0), 1 + 2, "on a node")
    expect(exchange_s(PLAIN, far, 200.0), 5 + 20, "between nodes")
    expect(exchange_s(PLAIN, mixed, 300.0, 2), 10 + 20, "two thirds leave the node")
    expect(exchange_s(PLAIN, Group(1, 1, 2), 200.0), 0, "of one rank")


def bytes_of_groups():
    expect(traffic.gradients(10, 4, 0), 4 * 2 * 3 / 4 * 40, "an all-reduce of four ranks")
    expect(traffic.gradients(10, 4, 2), 4 * 3 / 4 * 40, "a reduce-scatter")
    expect(traffic.parameters_gathered(10, 4, 0), 0, "parameters without ZeRO")
    expect(traffic.parameters_gathered(10, 4, 2), 3 * 40, "parameters with ZeRO 2")
    expect(traffic.parameters_gathered(10, 4, 3, 8, 2), 3 * (2 * 4 + 8 * 2), "with ZeRO 3")
    expect(traffic.stage_rows(TINY, 3, 5), 4 * 4 * 8 * 5, "two borders, both ways")
    expect(traffic.tensor_layer(TINY, 2, 5), 2 * 4 * 4 * 8 * 5, "four all-reduces of two ranks")
    expect(traffic.tensor_embedding(TINY, 2, 5), 2 * 4 * 8 * 5, "an all-reduce of rows")
    expect(traffic.tensor_head(TINY, 2, 5), 5 * 2 * 12 + 2 * 4 * 5 + 2 * 4 * 8 * 5, "a head")
    expect(traffic.tensor_sampling(TINY, 2, 4), 4 * 2 * 12 + 4 * 32 * 4 / 2 + 2 * 4 * 176,
           "tokens that are sampled")
    expect(traffic.tile_statistics(SHAPES[0], 2, 3), 3 * 297 * 12, "statistics of whole tiles")
    expect(traffic.tensor_norm(3), 6 * 8, "a number to each of two others")
    expect(traffic.context_layer(TINY, 3, 5, 1, 64), 2 * (64 + 5 * 2 * 4 * 4), "one layer")


def terms():
    one = Step(TINY, Layout(), WORK, PLAIN)
    found = one.terms()
    rows = 8 * 16  # of both optimizer steps
    forward = 2 * (2 * 576 + 4 * 8 * 8) * rows
    expect(found["layers"], 3 * forward / 1e6, "layers")
    expect(found["head"], 6 * 256 * 8 * 12 / 1e6, "head")
    expect(found["update"], 2 * 28 * TINY.parameters / 1e6, "update")
    expect(found["prefill"], 2 * 4 * 2 * 2 * 576 / 1e6, "prompts of two groups")
    for name in ("bubble", "tensor sums", "vocabulary", "context", "stages", "gradients",
                 "parameters", "decode: exchanges"):
        expect(found[name], 0, f"{name} of one rank")
    expect(one.seconds(), sum(found.values()), "the sum")
    two = Step(TINY, Layout(data=2, zero=2), WORK, PLAIN).terms()
    expect(two["layers"], found["layers"] / 2, "layers of two ranks")
    expect(two["update"], found["update"] / 2, "update of two ranks with ZeRO")
    sent = 4 * TINY.parameters / 2
    expect(two["gradients"], 2 * (1 + sent / 100), "gradients of two ranks")
    expect(two["parameters"], two["gradients"], "parameters of two ranks")
    third = Step(TINY, Layout(data=2, zero=3), WORK, PLAIN)
    expect(third.share(1152), 576 + 256, "half the weights of two layers, and a matrix")
    sent = (4 * (TINY.parameters - 1152) + 2 * 1152) / 2
    expect(third.terms()["parameters"], 2 * (1 + sent / 100), "parameters with ZeRO 3")
    expect(third.terms()["publish"], (8 * TINY.parameters + 6 * 832 + 4 * 1152) / 1e6,
           "publication with ZeRO 3")
    halves = Step(TINY, Layout(tensor=2), WORK, PLAIN)
    divided = halves.terms()
    expect(divided["head"], found["head"] / 2, "the head of two ranks")
    sent = traffic.tensor_embedding(TINY, 2, 64) + traffic.tensor_head(TINY, 2, 48)
    expect(divided["vocabulary"], 2 * (7 * 4 + sent / 2 / 100), "vocabulary of two ranks")
    computed, _, exchanged = halves.decode_terms()
    expect(computed, 2 * (2 * 576 + 256) * 8 / 2 / 1e6, "weights of a round of eight sequences")
    sent = 2 * 4 * 4 * 8 * 8 + traffic.tensor_embedding(TINY, 2, 8)
    sent += traffic.tensor_sampling(TINY, 2, 8)
    expect(exchanged, 4 * 2 + 6 + sent / 2 / 100, "exchanges of a round")
    staged = Step(TINY, Layout(stages=2), WORK, PLAIN)
    layers, head = staged.stage_s()
    expect(layers + head, (found["layers"] / 2 + found["head"]) / 2, "a stage")
    expect(staged.terms()["bubble"], 2 * (layers + head) / 4, "one turn more than four")
    busy = Step(TINY, Layout(data=2), WORK, PLAIN._replace(node=machines.Link(1e6, 1.0)))
    if busy.bottleneck() != "gradients" or one.bottleneck() == "gradients":
        sys.exit(f"the bottlenecks are {busy.bottleneck()} and {one.bottleneck()}")


def memory():
    small = Step(TINY, Layout(), WORK, PLAIN)
    kept = small.needed_bytes(False)
    expect(kept, TINY.parameters * 18 + 16 * 2 * (64 + 2 * 12 * 2 + 4 * 16), "of one rank")
    divided = Step(TINY, Layout(data=4, zero=3), WORK, PLAIN)
    own = TINY.parameters / 4 + 256
    masters = TINY.parameters - 1152 + 1152 / 4 + 256
    expect(divided.kept_bytes(), 6 * TINY.parameters + 4 * masters + 8 * own + 4 * 256,
           "of one rank of four with ZeRO 3")
    if small.recompute or not Step(TINY, Layout(), WORK,
                                   PLAIN._replace(memory_bytes=kept - 1)).recompute:
        sys.exit("activations are computed again where they fit, or not where they do not")


def files():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "figures.json")
        path.write_text(json.dumps({"train_8x512": {"fraction": 0.5}}), encoding="utf-8")
        refuses(lambda: machines.measured_fractions(path), "has no decode_b64.fraction")
        path.write_text(json.dumps({"train_8x512": {"fraction": 2}}), encoding="utf-8")
        refuses(lambda: machines.measured_fractions(path), "train_8x512.fraction is 2, not in")
        peaks = machines.read_peaks(machines.HERE / "machines/h100.json")
        path.write_text(json.dumps({**peaks, "memory_bytes": 0}), encoding="utf-8")
        refuses(lambda: machines.read_peaks(path), "memory_bytes is 0, not above 0")
        probe = {"matmul_flops": 3.0, "read_bytes_per_s": 4.0}
        path.with_name("probe.json").write_text(json.dumps(probe), encoding="utf-8")
        del peaks["matmul_flops"], peaks["read_bytes_per_s"]
        path.write_text(json.dumps({**peaks, "probe": "probe.json"}), encoding="utf-8")
        fractions = dict.fromkeys((machines.TRAIN, machines.DECODE, machines.UPDATE), 0.5)
        measured = machines.Machine.of(machines.read_peaks(path), fractions)
        expect(measured.matmul_flops, 1.5, "half of the probe's FLOP/s")
        expect(measured.divided(2).update_bytes_per_s, 1, "of each of two ranks")
        path.write_text(json.dumps(peaks), encoding="utf-8")
        refuses(lambda: machines.read_peaks(path), "has no matmul_flops, read_bytes_per_s")


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    for check in (shapes, links, bytes_of_groups, terms, memory, files):
        check()
