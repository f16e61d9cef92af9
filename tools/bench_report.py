#!/usr/bin/env python3
"""Joins the figures of the bench programs with the machine's limits and writes out/bench.json.

usage: bench_report.py OUT_JSON --probe FILE... --measured FILE... [--floors FILE]

Each metric becomes {"value", "unit", "limit", "fraction"}. A metric with work (units, flop, bytes,
serial_bytes) has the limit units / (serial_bytes / W + max(bytes / W, flop / F)), where W and F are the probes that its own process took around it, or else the best
of all probe files; a metric with a goal keeps it.
With --floors, a metric whose fraction is less than its "least_fraction", or whose value is not less than its "below",
is named as below the floor; that is a warning, since a loaded machine is slower.
Exit status 1 when a fraction is above 1: then the machine beats its own limit, or a goal is missed.
"""
import argparse
import json
import pathlib
import sys


def limit_of(measured, flops, read_bytes):
    if "limit" in measured:
        return measured["limit"]
    flops = measured.get("matmul_flops", flops)
    read_bytes = measured.get("read_bytes_per_s", read_bytes)
    seconds = max(measured["bytes"] / read_bytes, measured["flop"] / flops)
    return measured["units"] / (seconds + measured["serial_bytes"] / read_bytes)


def below_floor(result, floors):
    """What to tell about the metrics that miss their floor, and about those that were not measured."""
    for name in [name for name in floors if name in result]:
        entry, floor = result[name], floors[name]
        if entry["fraction"] < floor.get("least_fraction", 0):
            yield f"{name}: fraction {entry['fraction']:.3f} is below the floor {floor['least_fraction']:g}"
        if "below" in floor and entry["value"] >= floor["below"]:
            value = f"{entry['value']:g} {entry['unit']}"
            yield f"{name}: {value} is below the floor, which asks for less than {floor['below']:g}"
    missing = [name for name in floors if name not in result]
    if missing:
        yield f"not measured, so not held against a floor: {', '.join(missing)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--probe", nargs="+", required=True)
    parser.add_argument("--measured", nargs="+", required=True)
    parser.add_argument("--floors")
    args = parser.parse_args()
    probes = [json.loads(pathlib.Path(p).read_text(encoding="utf-8")) for p in args.probe]
    flops = max(probe["matmul_flops"] for probe in probes)
    read_bytes = max(probe["read_bytes_per_s"] for probe in probes)
    result = {}
    for path in args.measured:
        for name, measured in json.loads(pathlib.Path(path).read_text(encoding="utf-8")).items():
            limit = limit_of(measured, flops, read_bytes)
            result[name] = {"value": measured["value"], "unit": measured["unit"], "limit": limit,
                            "fraction": measured["value"] / limit}
    pathlib.Path(args.out).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")

    print(f"probe matmul {flops / 1e9:.0f} GFLOP/s, probe read {read_bytes / 1e9:.1f} GB/s")
    print(f"{'metric':<20}{'value':>14}{'limit':>14}  {'unit':<10}{'fraction':>8}")
    for name, entry in result.items():
        print(f"{name:<20}{entry['value']:>14.5g}{entry['limit']:>14.5g}  {entry['unit']:<10}{entry['fraction']:>8.3f}")
    if args.floors is not None:
        for text in below_floor(result, json.loads(pathlib.Path(args.floors).read_text(encoding="utf-8"))):
            print(f"warning: {text}", file=sys.stderr)
    over = [name for name, entry in result.items() if entry["fraction"] > 1]
    for name in over:
        print(f"{name}: the fraction is above 1", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
