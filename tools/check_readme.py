#!/usr/bin/env python3
"""Checks that the code in README.md and docs/embedding.md matches the file named above it."""
import pathlib
import re
import sys

PAGES = ["README.md", "docs/embedding.md"]
LANGUAGES = "c|go|python|rust"


def problems_of(root, page):
    text = (root / page).read_text(encoding="utf-8")
    blocks = re.findall(rf"\[((?:examples|bindings)/[^\]]+)\](?:(?!\n\n|\[).)*\n\n"
                        rf"```(?:{LANGUAGES})\n(.*?)\n```", text, re.S)
    for name, code in blocks:
        if code not in (root / name).read_text(encoding="utf-8"):
            first = code.splitlines()[0]
            yield f"{page}: the code quoted from {name} is no longer in it: {first}"
    if not blocks:
        yield f"{page}: quotes no code"
    if len(blocks) != len(re.findall(rf"^```(?:{LANGUAGES})$", text, re.M)):
        yield f"{page}: a code block names no file"


def main(root):
    problems = [problem for page in PAGES for problem in problems_of(root, page)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(__file__).resolve().parent.parent))
