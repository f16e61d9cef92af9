#!/usr/bin/env python3
"""Combines the figures of the bench programs with the machine's limits and writes out/bench.json.

usage: bench_report.py OUT_JSON --probe FILE... --measured FILE... [--floors FILE]

Each metric becomes {"value", "unit", "limit", "fraction"}. A metric with work has repeats (value,
units, flop, bytes, serial_bytes); the limit of each is units / (serial_bytes / W + max(bytes / W,
flop / F)) with the W and F sampled during that repeat, and the result is the repeat with the median
fraction. Any other metric has a goal: at_most (fraction = value / goal) or at_least (fraction =
goal / value).
With --floors, a metric is reported as below the floor if its fraction is less than its
"least_fraction", or its value is not less than its "below" or not more than its "above". This is a
warning, since a loaded machine is slower.
Exit status 1 if a fraction is above 1: the machine beat its own limit, or a goal is missed.
"""
import argparse
import json
import pathlib
import sys


def limit_of(repeat):
    read_bytes, flops = repeat["read_bytes_per_s"], repeat["matmul_flops"]
    seconds = max(repeat["bytes"] / read_bytes, repeat["flop"] / flops)
    return repeat["units"] / (seconds + repeat["serial_bytes"] / read_bytes)


def result_of(metric):
    if "repeats" not in metric:
        value = metric["value"]
        if "at_least" in metric:
            return {"value": value, "unit": metric["unit"], "limit": metric["at_least"],
                    "fraction": metric["at_least"] / value}
        return {"value": value, "unit": metric["unit"], "limit": metric["at_most"],
                "fraction": value / metric["at_most"]}
    repeats = []
    for repeat in metric["repeats"]:
        limit = limit_of(repeat)
        repeats.append((repeat["value"] / limit, repeat["value"], limit))
    fraction, value, limit = sorted(repeats)[len(repeats) // 2]
    return {"value": value, "unit": metric["unit"], "limit": limit, "fraction": fraction}


def below_floor(result, floors):
    """Yields a message for each metric that misses its floor or was not measured."""
    for name in [name for name in floors if name in result]:
        entry, floor = result[name], floors[name]
        if entry["fraction"] < floor.get("least_fraction", 0):
            yield (f"{name}: fraction {entry['fraction']:.3f} is below the floor "
                   f"{floor['least_fraction']:g}")
        if "below" in floor and entry["value"] >= floor["below"]:
            value = f"{entry['value']:g} {entry['unit']}"
            yield f"{name}: {value} misses the floor, which requires less than {floor['below']:g}"
        if "above" in floor and entry["value"] <= floor["above"]:
            yield (f"{name}: {entry['value']:g} misses the floor, which requires more than "
                   f"{floor['above']:g}")
    missing = [name for name in floors if name not in result]
    if missing:
        yield f"not measured, so not compared with a floor: {', '.join(missing)}"


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
            result[name] = result_of(measured)
    pathlib.Path(args.out).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")

    print(f"probe matmul {flops / 1e9:.0f} GFLOP/s, probe read {read_bytes / 1e9:.1f} GB/s")
    print(f"{'metric':<20}{'value':>14}{'limit':>14}  {'unit':<10}{'fraction':>8}")
    for name, entry in result.items():
        print(f"{name:<20}{entry['value']:>14.5g}{entry['limit']:>14.5g}  "
              f"{entry['unit']:<10}{entry['fraction']:>8.3f}")
    if args.floors is not None:
        floors = json.loads(pathlib.Path(args.floors).read_text(encoding="utf-8"))
        for text in below_floor(result, floors):
            print(f"warning: {text}", file=sys.stderr)
    over = [name for name, entry in result.items() if entry["fraction"] > 1]
    for name in over:
        print(f"{name}: the fraction is above 1", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
