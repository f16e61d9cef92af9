#!/usr/bin/env python3
"""A program of another language prints what its model in C prints, times and rates apart. One of
the two may lie beside the plugins: why there is no GPU may differ, and whether there is gloo.

usage: same_output.py PROGRAM REFERENCE [ARGUMENT...]
"""
import re
import subprocess
import sys

BY_PLACE = re.compile(rb"(feature cuda +cuda: unavailable, because |feature gloo +).+")


def lines(*command):
    done = subprocess.run(command, capture_output=True, timeout=120)
    if done.returncode != 0 or not done.stdout:
        text = done.stderr.decode(errors="replace")
        sys.exit(f"{command[0]} ended with {done.returncode}: {text}")
    return [BY_PLACE.sub(rb"\1", line) for line in done.stdout.split(b"\n")
            if not line.startswith((b"  timing_s/", b"  perf/"))]


def main(program, reference, *arguments):
    printed, wanted = lines(program, *arguments), lines(reference, *arguments)
    for number, (line, right) in enumerate(zip(printed, wanted), 1):
        if line != right:
            return f"line {number} is {line!r}, not {right!r}"
    return 0 if len(printed) == len(wanted) else f"{len(printed)} lines, not {len(wanted)}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 2 else __doc__)
