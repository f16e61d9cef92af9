#!/usr/bin/env python3
"""Compares the interface of rl.h with the one written down in abi/baseline, by libabigail.

What is compared is a library of empty functions, made from the header alone: rl.h decides every type of the interface,
since a definition in src/abi that differs does not compile, and abi_exported compares the symbols of librl.so. So
nothing private is in the baseline, and it depends neither on flags of the compiler nor on where lines stand.

usage: baseline.py check LIBRARY    the interface and LIBRARY's soname are those of the baseline; 77: no libabigail
       baseline.py write            writes the baseline
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import header

SKIPPED = 77
# Bits of abidiff's exit status.
MEANING = {1: "abidiff failed", 2: "abidiff was called wrongly", 4: "the interface changed", 8: "programs would break"}


def cmake_value(pattern):
    return re.search(pattern, header.read("CMakeLists.txt")).group(1)


def baseline_path():
    return header.ROOT / f"abi/baseline/librl-{cmake_value(r'project.rl VERSION ([0-9.]+)')}.abi"


def soname():
    return "librl.so." + cmake_value(r"set.RL_SOVERSION ([0-9]+)")


def stub_text():
    lines = ['#include "rl.h"']
    for f in header.functions():
        arguments = ", ".join(f"{kind} {name}" for kind, name in f.parameters) or "void"
        unused = "".join(f" (void){name};" for _, name in f.parameters)
        result = "" if f.result == "void" else " return 0;"
        lines.append(f"{f.result} {f.name}({arguments}) {{{unused}{result} }}")
    return "\n".join(lines) + "\n"


def describe(out):
    """Writes what abidw says of the header's interface."""
    with tempfile.TemporaryDirectory() as directory:
        library = pathlib.Path(directory) / "librl.so"
        (pathlib.Path(directory) / "stub.c").write_text(stub_text())
        include = header.ROOT / "include"
        subprocess.run(["cc", "-g", "-O0", "-std=c99", "-fPIC", "-shared", "-nostdlib", "-I", include,
                        f"-Wl,--version-script={header.ROOT / 'abi/librl.map'}", f"-Wl,-soname,{soname()}", "-o", library,
                        "stub.c"], cwd=directory, check=True)  # relative: no path of the machine is written down
        subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--type-id-style", "hash",
                        "--out-file", out, library], check=True)


def lacking(path):
    """Structs and functions of the header that a description lacks: one without types compares equal to anything."""
    text = path.read_text()
    names = [f"class-decl name='{name}' size-in-bits=" for name in header.structs()]
    names += [f"function-decl name='{f.name}' " for f in header.functions()]
    return [name for name in names if name not in text]


def check(library):
    baseline = baseline_path()
    if not baseline.exists():
        return [f"{baseline.relative_to(header.ROOT)} is missing: the version changed; run tests/abi/baseline.py write"]
    said = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory() as directory:
        current = pathlib.Path(directory) / "current.abi"
        describe(current)
        done = subprocess.run(["abidiff", "--harmless", baseline, current], capture_output=True, text=True)
        problems = [f"the description of rl.h has no {name}" for name in lacking(current)]
    if f"[{soname()}]" not in said:
        problems.append(f"{library} has another soname than {soname()}")
    if done.returncode != 0:
        meaning = ", ".join(text for bit, text in MEANING.items() if done.returncode & bit)
        problems.append(f"{done.stdout}{done.stderr}{meaning}. Additions are accepted by scripts/regenerate.sh "
                        "--baseline; anything else is a break (abi/POLICY.md)")
    return problems


def write():
    baseline_path().parent.mkdir(exist_ok=True)
    describe(baseline_path())
    return [f"the description of rl.h has no {name}" for name in lacking(baseline_path())]


if __name__ == "__main__":
    if sys.argv[1:2] not in (["check"], ["write"]) or len(sys.argv) != (3 if sys.argv[1] == "check" else 2):
        sys.exit(__doc__)
    if not (shutil.which("abidw") and shutil.which("abidiff")):
        print("skipped: abidw and abidiff (abigail-tools) are not installed")
        sys.exit(SKIPPED)
    found = check(sys.argv[2]) if sys.argv[1] == "check" else write()
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
