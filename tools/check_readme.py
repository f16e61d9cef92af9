#!/usr/bin/env python3
"""Checks that the C code of README.md stands, to the letter, in the example that the README names above it."""
import pathlib
import re
import sys


def main(root):
    readme = (root / "README.md").read_text()
    blocks = re.findall(r"From \[(examples/[^\]]+)\][^\n]*\n\n```c\n(.*?)\n```", readme, re.S)
    stale = [name for name, code in blocks if code not in (root / name).read_text()]
    for name in stale:
        print(f"README.md: the code quoted from {name} is not in it any more")
    if len(blocks) != readme.count("```c\n"):
        print("README.md: a block of C code names no example")
        return 1
    if not blocks:
        print("README.md: no code is quoted")
        return 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(__file__).resolve().parent.parent))
