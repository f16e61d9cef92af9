#!/usr/bin/env python3
"""Compares the interface of rl.h with the one written down in abi/baseline, by libabigail.

What is compared is a library of empty functions, made from the header alone: rl.h decides every
type of the interface, since a definition in src/abi that differs does not compile, and abi_exported
compares the symbols of librl.so. So nothing private is in the baseline, and it depends neither on
flags of the compiler nor on where lines stand.

usage: baseline.py check LIBRARY    the interface and LIBRARY's soname are those of the baseline;
                                    77: no libabigail
       baseline.py breaks           interfaces that break programs, each made from rl.h by one
                                    change, do not pass
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
MEANING = {1: "abidiff failed", 2: "abidiff was called wrongly", 4: "the interface changed",
           8: "programs would break"}

# What breaks programs or their builds: a place of rl.h and what becomes of it.
BREAKS = {
    "a function is gone": (r"RL_API uint32_t rl_abi_version\(void\);", ""),
    "a parameter is added": (r"rl_event_kind\(const rl_event\* event",
                             "rl_event_kind(const rl_event* event, int32_t a"),
    "a parameter's pointee is no longer const": (r"rl_event_kind\(const rl_event\*",
                                                 "rl_event_kind(rl_event*"),
    "a parameter's void is no longer const": (
        r"(rl_options_import_flatbuffer\(rl_options\* options,) const", r"\1"),
    "a result's void is no longer const": (r"const void\* rl_bytes_data", "void* rl_bytes_data"),
    "a result's pointee is no longer const": (r"const char\* rl_version_string",
                                              "char* rl_version_string"),
    "a callback's pointee is no longer const": (r"(\(\*rl_event_fn\)\(void\* user_data,) const",
                                                r"\1"),
    "a field's pointee is no longer const": (r"const int64_t\* shape;", "int64_t* shape;"),
    "a field is renamed": (r"uint64_t num_elements;", "uint64_t num_items;"),
    "a field is wider": (r"uint32_t read_only;", "uint64_t read_only;"),
    "fields change places": (r"(int32_t dtype; .*\n)(.*int32_t device; .*\n)", r"\2\1"),
}


def cmake_value(pattern):
    return re.search(pattern, header.read("CMakeLists.txt")).group(1)


def baseline_path():
    return header.ROOT / f"abi/baseline/librl-{cmake_value(r'project.rl VERSION ([0-9.]+)')}.abi"


def soname():
    return "librl.so." + cmake_value(r"set.RL_SOVERSION ([0-9]+)")


def concrete(text):
    """Pointers to void as pointers to a struct: abidiff says nothing when one to void gains or
    loses its const."""
    return re.sub(r"\bvoid(?=\s*\*)", "struct rl_any", text)


def stub_text():
    lines = ['struct rl_any;\n#include "rl.h"']
    for f in header.functions():
        arguments = ", ".join(f"{kind} {name}" for kind, name in f.parameters) or "void"
        unused = "".join(f" (void){name};" for _, name in f.parameters)
        result = "" if f.result == "void" else " return 0;"
        lines.append(f"{f.result} {f.name}({arguments}) {{{unused}{result} }}")
    return concrete("\n".join(lines) + "\n")


def describe(out):
    """Writes what abidw says of the header's interface."""
    with tempfile.TemporaryDirectory() as directory:
        library = pathlib.Path(directory) / "librl.so"
        (pathlib.Path(directory) / "stub.c").write_text(stub_text())
        (pathlib.Path(directory) / "rl.h").write_text(concrete(header.header_text()))
        # In the directory itself, so that no path of the machine is told.
        subprocess.run(["cc", "-g", "-O0", "-std=c99", "-fPIC", "-shared", "-nostdlib",
                        f"-Wl,--version-script={header.ROOT / 'abi/librl.map'}",
                        f"-Wl,-soname,{soname()}", "-o", library, "stub.c"],
                       cwd=directory, check=True)
        subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path",
                        "--type-id-style", "hash", "--out-file", out, library], check=True)


def lacking(path):
    """Structs and functions of the header that a description lacks: one without types compares
    equal to anything."""
    text = path.read_text()
    names = [f"class-decl name='{name}' size-in-bits=" for name in header.structs()]
    names += [f"function-decl name='{f.name}' " for f in header.functions()]
    return [name for name in names if name not in text]


def differences(baseline):
    """Between a description and the header."""
    with tempfile.TemporaryDirectory() as directory:
        current = pathlib.Path(directory) / "current.abi"
        describe(current)
        done = subprocess.run(["abidiff", "--harmless", baseline, current], capture_output=True,
                              text=True)
        problems = [f"the description of rl.h has no {name}" for name in lacking(current)]
    if done.returncode != 0:
        meaning = ", ".join(text for bit, text in MEANING.items() if done.returncode & bit)
        problems.append(
            f"{done.stdout}{done.stderr}{meaning}. Additions are accepted by scripts/regenerate.sh "
                        "--baseline; anything else is a break (abi/POLICY.md)")
    return problems


def check(library):
    path = baseline_path()
    if not path.exists():
        return [f"{path.relative_to(header.ROOT)} is missing: the version changed; "
                "run tests/abi/baseline.py write"]
    said = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                          text=True).stdout
    right = f"[{soname()}]" in said
    return differences(path) + ([] if right else [f"{library} has another soname than {soname()}"])


def breaks():
    """Breaks that the comparison does not see."""
    text = header.header_text()
    with tempfile.TemporaryDirectory() as directory:
        whole = pathlib.Path(directory) / "whole.abi"
        describe(whole)
        problems = differences(whole)
        header.HEADER = pathlib.Path(directory) / "rl.h"
        for what, (line, replacement) in BREAKS.items():
            broken, count = re.subn(line, replacement, text)
            header.HEADER.write_text(broken)
            if count != 1:
                problems.append(f"{line} is {count} times in rl.h")
            elif not any("the interface changed" in found for found in differences(whole)):
                problems.append(f"{what}, and nothing is said: {line} became {replacement!r}")
    print(f"{len(BREAKS)} breaks, {len(problems)} problems")
    return problems


def write():
    baseline_path().parent.mkdir(exist_ok=True)
    describe(baseline_path())
    return [f"the description of rl.h has no {name}" for name in lacking(baseline_path())]


if __name__ == "__main__":
    commands = {"check": check, "breaks": breaks, "write": write}
    words = {"check": 3, "breaks": 2, "write": 2}
    if len(sys.argv) < 2 or len(sys.argv) != words.get(sys.argv[1]):
        sys.exit(__doc__)
    if not (shutil.which("abidw") and shutil.which("abidiff")):
        print("skipped: abidw and abidiff (abigail-tools) are not installed")
        sys.exit(SKIPPED)
    found = commands[sys.argv[1]](*sys.argv[2:])
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
