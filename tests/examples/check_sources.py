#!/usr/bin/env python3
"""The examples have the sections in one order, stay short, and use rl.h and the system alone.

usage: check_sources.py DIRECTORY
"""
import pathlib
import re
import sys

LIMITS = {"1_hello.c": 150, "2_generate.c": 150, "3_train_step.c": 150, "4_grpo.c": 300}
SECTIONS = ["errors", "pieces", "events", "summary", "main"]
PARTS = ["Options and objects", "Work", "Check", "End"]


def problems_of(path):
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines >= LIMITS[path.name]:
        yield f"{path.name} has {lines} lines; fewer than {LIMITS[path.name]} are allowed"
    sections = re.findall(r"^/\* ---- (.*) ---- \*/$", text, re.M)
    if sections != [s for s in SECTIONS if s in sections] or not {"errors", "pieces", "main"} <= set(sections):
        yield f"{path.name}: sections {sections} are not in the order {SECTIONS}"
    parts = re.findall(r"^  /\* (.*?)[.:].*\*/$", text.split("/* ---- main ---- */")[1], re.M)
    if parts != [p for p in PARTS if p in parts] or not {"Work", "Check", "End"} <= set(parts):
        yield f"{path.name}: parts of main {parts} are not in the order {PARTS}"
    quoted = re.findall(r'^#include "(.*)"', text, re.M)
    if quoted != ["rl.h"]:
        yield f"{path.name} includes {quoted}"


def main(directory):
    paths = sorted(pathlib.Path(directory).glob("*.c"))
    found = [p for path in paths for p in problems_of(path)]
    if [p.name for p in paths] != sorted(LIMITS):
        found.append(f"the examples are {[p.name for p in paths]}")
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
