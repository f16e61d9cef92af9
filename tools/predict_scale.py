#!/usr/bin/env python3
"""Predicts the time of a step on 8 to 1,024 ranks, and what takes most of it: docs/scale.md has the
formulas and their sources.

usage: predict_scale.py [--machine FILE] [--measured BENCH_JSON] [--shape NAME]... [--ranks N]...
       predict_scale.py --check | --write       compares, or writes, the tables of docs/scale.md

For each shape and number of ranks it prints the fastest layout of each kind that fits the memory.
FILE has figures of a machine, as tools/scale/machines/h100.json; its "probe" may name a file that
rl_probe wrote. BENCH_JSON is out/bench.json, of which the fractions of limits are taken that librl
reaches; without it they are those that bench/floors.json asks for.
"""
import argparse
import pathlib
import re
import sys

from scale import machine as machines
from scale.shapes import SHAPES, Work, layouts
from scale.times import Step

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/scale.md"
H100 = machines.HERE / "machines/h100.json"
RANKS = [8, 64, 256, 1024]
HEAD = ("| ranks | kind | T x C x S x D | ZeRO | memory GB | step s | rollout s | tokens/s a rank "
        "| bottleneck |\n|---|---|---|---|---|---|---|---|---|\n")
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)", re.S)


def fastest(shape, ranks, work, machine):
    """The fastest step of each kind of layout that fits, fastest first."""
    best = {}
    for layout in layouts(ranks):
        if not layout.fits(shape):
            continue
        step = Step(shape, layout, work, machine)
        kind = layout.kind
        if step.fits(True) and (kind not in best or step.seconds() < best[kind].seconds()):
            best[kind] = step
    return sorted(best.values(), key=Step.seconds)


def row(step):
    terms, total = step.terms(), step.seconds()
    rollout = sum(s for name, s in terms.items() if name == "prefill" or name.startswith("decode"))
    name = step.bottleneck()
    recompute = ", recomputed" if step.recompute else ""
    return (f"| {step.layout.ranks:,} | {step.layout.kind} | {step.layout} | {step.layout.zero} "
            f"| {step.needed_bytes(step.recompute) / 1e9:.0f}{recompute} | {total:.1f} "
            f"| {rollout:.1f} | {step.tokens_per_s() / step.layout.ranks:,.0f} "
            f"| {name}, {terms[name] / total:.0%} |\n")


def table(shape, ranks, machine):
    rows = []
    for count in ranks:
        steps = fastest(shape, count, Work(), machine)
        rows += map(row, steps)
        if not steps:
            rows.append(f"| {count:,} | none fits in {machine.memory_bytes / 1e9:.0f} GB "
                        "| | | | | | | |\n")
    return HEAD + "".join(rows)


def assured_h100():
    return machines.Machine.of(machines.read_peaks(H100), machines.assured_fractions())


def with_tables(text):
    """The page with its tables as they are now."""
    by_name = {shape.name: shape for shape in SHAPES}
    found = [block[2] for block in BLOCK.finditer(text)]
    if found != list(by_name):
        raise ValueError(f"{PAGE.name} has the tables {found}, not {list(by_name)}")
    rows = {name: table(shape, RANKS, assured_h100()) for name, shape in by_name.items()}
    return BLOCK.sub(lambda block: f"{block[1]}\n{rows[block[2]]}\n{block[3]}", text)


def maintain(write):
    text = PAGE.read_text(encoding="utf-8")
    now = with_tables(text)
    if write:
        PAGE.write_text(now, encoding="utf-8")
    elif now != text:
        print(f"the tables of {PAGE.name} are old; tools/predict_scale.py --write", file=sys.stderr)
        return 1
    return 0


def parsed():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--machine", default=H100)
    parser.add_argument("--measured")
    parser.add_argument("--shape", action="append", choices=[shape.name for shape in SHAPES])
    parser.add_argument("--ranks", action="append", type=int)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--check", action="store_true")
    kind.add_argument("--write", action="store_true")
    a = parser.parse_args()
    for count in a.ranks or []:
        if not 1 <= count <= 1024:
            parser.error(f"--ranks is {count}, not 1 to 1024")
    return a


def main():
    a = parsed()
    if a.check or a.write:
        return maintain(a.write)
    fractions = (machines.measured_fractions(a.measured) if a.measured
                 else machines.assured_fractions())
    machine = machines.Machine.of(machines.read_peaks(a.machine), fractions)
    print(machine.name)
    for shape in SHAPES:
        if not a.shape or shape.name in a.shape:
            print(f"\n{shape.name}\n\n{table(shape, a.ranks or RANKS, machine)}", end="")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError) as error:
        sys.exit(f"predict_scale.py: {error}")
