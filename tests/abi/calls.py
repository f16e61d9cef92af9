#!/usr/bin/env python3
"""Writes the tables from which the tests call every function of rl.h, so that none can be left out.

usage: calls.py calls|statuses|names OUT.inc
  calls     a row for each function: thread tag, parameters and a call; from rl.h,
            abi/functions.yml, abi/layout.c
  statuses  a row for each status code; from abi/errors.yml
  names     RL_FUNCTION(name) for each function; from rl.h
"""
import pathlib
import re
import sys

import header


def tags():
    """Thread tag and nullable parameters of each function, from abi/functions.yml."""
    found = {}
    for entry in header.read("abi/functions.yml").split("- name: ")[1:]:
        null = re.search(r"may_be_null: \[(.*)\]", entry)
        found[entry.split("\n")[0]] = (re.search(r"thread: (.*)", entry).group(1),
                                       null.group(1).split(", ") if null else [])
    return found


def first_sizes():
    return dict(re.findall(r"RL_AT_LEAST\((\w+), (\d+)\);", header.read("abi/layout.c")))


def kind_of(kind, name):
    """What a parameter is: an enumerator of Is in calls.h."""
    match = re.match(r"^(const )?(rl_\w+)(\*+)$", kind)
    base, stars = (match.group(2), len(match.group(3))) if match else ("", 0)
    if name == "err":
        return "kError"
    if base in header.handle_types():
        return "kHandle" if stars == 1 else "kOutHandle"
    if base in header.structs():
        return "kStructIn" if match.group(1) else "kStructOut"
    if kind.endswith("_fn"):
        return "kFunction"
    if kind == "void*" and name == "user_data":
        return "kUserData"
    if name.endswith("_stream") or kind == "struct DLManagedTensorVersioned*":
        return "kIn"
    if kind.endswith("*"):
        to_one = kind.startswith("const") and not re.match(r"^const \w+\*\*$", kind)
        return "kIn" if to_one else "kOut"
    return "kReal" if kind in ("float", "double") else "kInteger"


def type_of(kind):
    """The handle type or struct behind a parameter, else nothing."""
    match = re.match(r"^(?:const )?(rl_\w+)\*+$", kind)
    return match.group(1) if match else ""


def parameter_row(kind, name, null):
    what, base = kind_of(kind, name), type_of(kind)
    free = name in null or what in ("kError", "kUserData") or kind == "rl_destroy_fn"
    size, first = "0", "0"
    if what in ("kStructIn", "kStructOut"):
        size, first = f"sizeof({base})", first_sizes().get(base)
        if first is None:
            sys.exit(f"abi/layout.c has no line RL_AT_LEAST({base}, ...), the size that it was "
                     "released with")
    elif what == "kOut":
        size = f"sizeof(*static_cast<{kind}>(nullptr))"
    optional = "true" if free else "false"
    return f'{{"{name}", "{kind}", Is::{what}, "{base}", {optional}, {size}, {first}}}'


def argument(kind, index):
    if kind in ("float", "double"):
        return f"static_cast<{kind}>(a[{index}].real)"
    if kind.endswith("_fn"):
        return f"reinterpret_cast<{kind}>(a[{index}].function)"
    if kind.endswith("*"):
        return f"static_cast<{kind}>(a[{index}].pointer)"
    return f"static_cast<{kind}>(a[{index}].integer)"


def call(function):
    arguments = ", ".join(argument(k, i) for i, (k, _) in enumerate(function.parameters))
    text = f"{function.name}({arguments})"
    if function.result == "void":
        return f"{text}; return uint64_t{{0}};"
    if function.result.endswith("*"):
        return f"return static_cast<uint64_t>(reinterpret_cast<uintptr_t>({text}));"
    return f"return static_cast<uint64_t>({text});"


def calls():
    rows, known = [], tags()
    for f in header.functions():
        if f.name not in known:
            sys.exit(f"abi/functions.yml does not name {f.name}: run tests/abi/header.py write")
        thread, null = known[f.name]
        safe = "true" if "callback-safe" in thread else "false"
        status = "true" if f.parameters and f.parameters[-1][1] == "err" else "false"
        parameters = ",\n   ".join(parameter_row(k, n, null) for k, n in f.parameters)
        unused = "" if f.parameters else "(void)a; "
        rows.append(f'{{"{f.name}", "{f.result}", {safe}, {status},\n  {{{parameters}}},\n'
                    f'  [](const Word* a) -> uint64_t {{ {unused}{call(f)} }}}},\n')
    return "".join(rows)


def statuses():
    rows = re.findall(r"- name: (\w+)\n  value: (\d+)", header.read("abi/errors.yml"))
    return "".join(f'{{"{name}", {value}}},\n' for name, value in rows)


def names():
    return "".join(f"RL_FUNCTION({f.name})\n" for f in header.functions())


TABLES = {"calls": calls, "statuses": statuses, "names": names}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in TABLES:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[2]).write_text(TABLES[sys.argv[1]](), encoding="utf-8")
