#!/usr/bin/env python3
"""Package rl for Go, crate rl for Rust and package rl for Python have every function of rl.h, every
field of its structs and every number of its enums, but for those that are left out for a reason.

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
# How a language names a field; Python's records and loops have it as a word.
FIELDS = {"Go": r"[.>]_?{}\b", "Rust": r"\.{}_?\b|\b{}: ", "Python": r"\b{}\b"}
NO_MEMORY = {name: "memory of a host is C's"
             for name in ("allocator", "allocate", "release", "decommit")}
NO_TRANSPORT = {name: "a transport of a host is C's or Python's"
                for name in ("transport", "exchange", "abandon", "channel", "num_out", "out_ranks",
                             "out_data", "out_sizes", "num_in", "in_ranks", "in_data", "in_sizes",
                             "received", "timeout_ns", "lost_rank")}
FIELDS_LEFT_OUT = {
    "Go": {"num_eos_ids": "Model.EosIDs is a slice", **NO_MEMORY, **NO_TRANSPORT},
    "Rust": {"num_eos_ids": "Model::eos_ids is a vector", **NO_TRANSPORT},
    "Python": {"prompt_text_len": "records read a text with its length", **NO_MEMORY},
}
# The functions of _raw.py that Python calls by the kind of handle.
ENDS = re.compile(r"^ENDS = \{$.*?^\}$", re.M | re.S)
LANGUAGES = {
    "Go": (["bindings/go/rl/*.go", "bindings/go/rl/*.c"], {
        "rl_allocator_init": "memory of a host is C's",
        "rl_exchange_init": "librl fills in exchanges",
        "rl_transport_init": "a transport of a host is C's or Python's",
        "rl_log_record_init": "librl fills in records of the log",
    }),
    "Rust": (["bindings/rust/rl/src/*.rs"], {
        "rl_exchange_init": "librl fills in exchanges",
        "rl_transport_init": "a transport of a host is C's or Python's",
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


def fields():
    """The fields of all structs, but for those that every struct has."""
    bodies = (re.sub(r"/\*.*?\*/", " ", body, flags=re.S) for body in header.structs().values())
    names = {name for body in bodies for declared in body.split(";")
             for name in re.findall(r"(\w+)\s*(?:,|$)", declared.strip())}
    return names - {"struct_size", "reserved", "reserved2"}


def field_problems(language, patterns):
    text = "\n".join(re.sub(COMMENTS[path.suffix], "", path.read_text(encoding="utf-8"))
                     for pattern in patterns for path in ROOT.glob(pattern)
                     if path.name != "_raw.py" and not path.name.endswith("_test.go"))
    left_out = FIELDS_LEFT_OUT[language]
    for name in sorted(fields()):
        found = re.search(FIELDS[language].replace("{}", name), text)
        if not found and name not in left_out:
            yield f"{language} has no field {name}"
        if found and name in left_out:
            yield f"{language} has the field {name}, which is on the list of what it lacks"
    yield from (f"rl.h has no field {name}, which {language} need not have"
                for name in left_out if name not in fields())


def problems():
    for language, (patterns, _) in LANGUAGES.items():
        yield from field_problems(language, patterns)
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
