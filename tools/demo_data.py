#!/usr/bin/env python3
"""Writes train.jsonl and heldout.jsonl of the demo into a directory: all sums A + B with A, B in
0..20.

The 88 of 441 questions with (A + 2 B) mod 5 = 3 are held out; each of their A, B and sums also
occurs in training. The tag of a row is the right answer: the library returns it unread and the
host compares.
"""
import json
import pathlib
import sys


def row(a, b):
    question = f"What is {a} + {b}? Answer with the number only."
    return {"messages": [{"role": "user", "content": question}], "tag": str(a + b)}


def main(directory):
    questions = [(a, b) for a in range(21) for b in range(21)]
    held_out = [q for q in questions if (q[0] + 2 * q[1]) % 5 == 3]
    training = [q for q in questions if q not in held_out]
    assert len(held_out) == 88 and len(questions) == 441
    for seen in (lambda q: q[0], lambda q: q[1], sum):
        assert {seen(q) for q in training} >= {seen(q) for q in held_out}
    for name, chosen in (("train.jsonl", training), ("heldout.jsonl", held_out)):
        lines = "".join(json.dumps(row(*q)) + "\n" for q in chosen)
        (pathlib.Path(directory) / name).write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: demo_data.py DIRECTORY")
    main(sys.argv[1])
