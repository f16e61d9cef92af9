#!/usr/bin/env python3
"""The examples of each language have the sections in one order, stay short, and use librl and the
system alone.

usage: check_sources.py DIRECTORY    with the languages' folders
"""
import pathlib
import re
import sys

PROGRAMS = ["1_hello", "2_generate", "3_train_step", "4_grpo", "5_tools"]
SHARED, SHARED_LIMIT = "launcher", 110  # a file that programs include, and its lines
SECTIONS = ["errors", "pieces", "events", "summary", "main"]
PARTS = ["Options and objects", "Work", "Check", "End"]


class Language:
    """Where the programs are, what their lines of structure look like, and how many lines are too
    many."""

    def __init__(self, path, section, part, foreign, limits):
        self.path, self.section, self.part, self.foreign = path, section, part, foreign
        self.limits = dict(zip(PROGRAMS, limits))
        self.shared = path.replace("cmd/{}/main", "launcher/{}").format(SHARED)


LANGUAGES = {
    "C": Language("c/{}.c", r"^/\* ---- (.*) ---- \*/$", r"^  /\* (.*?)[.:].*\*/$",
                  r'^#include "(?!(?:rl|launcher)\.h")(.*)"', (150, 160, 170, 450, 200)),
    "Rust": Language("rust/{}.rs", r"^// ---- (.*) ----$",
                     r"^    // (?!SAFETY)(.*?)[.:].*$",
                     r"^(?:use|extern crate) (?!std::|rl::|launcher::)(.*);$",
                     (150, 150, 150, 510, 200)),
    "Go": Language("go/cmd/{}/main.go", r"^// ---- (.*) ----$", r"^\t// (.*?)[.:].*$",
                   r'^\t"([^" ]*\.[^" ]*)"$', (150, 150, 150, 540, 200)),
    "Python": Language("python/{}.py", r"^# ---- (.*) ----$", r"^    # (.*?)[.:].*$",
                       r"^(?:import|from) "
                       rf"(?!(?:rl|launcher|{'|'.join(sys.stdlib_module_names)})\b)(.*)$",
                       (150, 150, 150, 320, 150)),
}


def common_problems(path, language, limit):
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines >= limit:
        yield f"{path} has {lines} lines; fewer than {limit} are allowed"
    foreign = re.findall(language.foreign, text, re.M)
    if foreign:
        yield f"{path} uses {foreign}"


def problems_of(path, language, limit):
    yield from common_problems(path, language, limit)
    text = path.read_text(encoding="utf-8")
    sections = re.findall(language.section, text, re.M)
    in_order = sections == [s for s in SECTIONS if s in sections]
    if not in_order or not {"errors", "pieces", "main"} <= set(sections):
        yield f"{path}: sections {sections} are not in the order {SECTIONS}"
    parts = re.findall(language.part, re.split(language.section, text, flags=re.M)[-1], re.M)
    if parts != [p for p in PARTS if p in parts] or not {"Work", "Check", "End"} <= set(parts):
        yield f"{path}: parts of main {parts} are not in the order {PARTS}"


def main(directory):
    found = []
    for name, language in LANGUAGES.items():
        paths = {program: pathlib.Path(directory, language.path.format(program))
                 for program in PROGRAMS}
        found += [p for program, path in paths.items()
                  for p in problems_of(path, language, language.limits[program])]
        shared = pathlib.Path(directory, language.shared)
        found += common_problems(shared, language, SHARED_LIMIT)
        there = set(pathlib.Path(directory).glob(language.path.format("*"))) - {shared}
        if there != set(paths.values()):
            found.append(f"the programs in {name} are {sorted(map(str, there))}")
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
