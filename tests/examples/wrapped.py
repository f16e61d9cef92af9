#!/usr/bin/env python3
"""Package rl for Go, crate rl for Rust and package rl for Python have every function of rl.h and
every number of its enums, but for those that are left out for a reason.

usage: wrapped.py
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/abi"))
sys.dont_write_bytecode = True
import header  # noqa: E402

COMMENTS = {".go": r"//.*", ".c": r"//.*", ".rs": r"//.*", ".py": r'#.*|(?s:""".*?""")'}
# The functions of _raw.py that Python calls by the kind of handle.
ENDS = re.compile(r"^ENDS = \{$.*?^\}$", re.M | re.S)
LANGUAGES = {
    "Go": (["bindings/go/rl/*.go", "bindings/go/rl/*.c"], {
        "rl_allocator_init": "memory of a host is C's",
        "rl_log_record_init": "librl fills in records of the log",
    }),
    "Rust": (["bindings/rust/rl/src/*.rs"], {
        "rl_log_record_init": "librl fills in records of the log",
    }),
    "Python": (["bindings/python/rl/*.py"], {
        "rl_event_kind": "Event.view has it",
        **{f"{name}_init": "the structs of _raw.py begin as it leaves them"
           for name in header.structs()},
    }),
}


def enum_names():
    text = re.sub(r"/\*.*?\*/", " ", header.header_text(), flags=re.S)
    return [name for body in re.findall(r"enum\s*\{(.*?)\}", text, re.S)
            for name in re.findall(r"\bRL_\w+", body)]


def used_by(patterns):
    """Every name of librl in the code of a language: what a comment says is not used."""
    paths = [p for pattern in patterns for p in ROOT.glob(pattern)
             if not p.name.endswith("_test.go")]
    return set(re.findall(r"\b(?:rl|RL)_\w+", "\n".join(map(code_of, paths))))


def code_of(path):
    text = path.read_text(encoding="utf-8")
    if path.name == "_raw.py":  # it declares every function
        return ENDS.search(text).group()
    return re.sub(COMMENTS[path.suffix], "", text)


def problems():
    functions = [f.name for f in header.functions()]
    for language, (patterns, left_out) in LANGUAGES.items():
        used = used_by(patterns)
        # The Go package's numbers come from the header; go_constants compares them.
        wanted = functions + (enum_names() if language == "Rust" else [])
        yield from (f"{language} has no {name}"
                    for name in wanted if name not in used and name not in left_out)
        yield from (f"{language} has {name}, which is on the list of what it lacks"
                    for name in left_out if name in used)
        yield from (f"rl.h has no {name}, which {language} need not have"
                    for name in left_out if name not in functions)


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    found = list(problems())
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
