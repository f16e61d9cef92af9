#!/usr/bin/env python3
"""Checks the tree against the house rules of docs/style.md that a program can judge.

usage: check_house.py [RULE...]     the named rules, or all; one line for each problem
       check_house.py --list        what each rule asks
       check_house.py --self-test   plants violations of every rule; each must be found

Known violations are in tools/house/exceptions.txt. Exit status: 0 fine, 1 problems, 77 a rule was
skipped because no clang-format 14 is here.
"""
import pathlib
import sys

from house import code_rules, format_rule, layout_rules, self_test

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = {
    "columns": layout_rules.columns,
    "format": format_rule.formatting,
    "functions": code_rules.functions,
    "stems": layout_rules.stems,
    "folders": layout_rules.folders,
    "members": code_rules.members,
    "options": code_rules.options,
    "compute": code_rules.compute,
}


def check(name):
    """The exit status of one rule."""
    try:
        problems = RULES[name](ROOT)
    except format_rule.Skipped as reason:
        print(f"skipped: {reason}")
        return 77
    for problem in problems:
        print(f"{name}: {problem}")
    return 1 if problems else 0


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test.run(RULES)
    if arguments == ["--list"]:
        print("\n".join(f"{name}: {rule.__doc__.splitlines()[0]}" for name, rule in RULES.items()))
        return 0
    if unknown := [name for name in arguments if name not in RULES]:
        print(f"no rule {', '.join(unknown)}; the rules are {', '.join(RULES)}", file=sys.stderr)
        return 2
    statuses = [check(name) for name in arguments or RULES]
    return 1 if 1 in statuses else max(statuses)


if __name__ == "__main__":
    sys.exit(main())
