#!/usr/bin/env python3
"""Compares the interface of rl.h with the last frozen one, abi/released/VERSION/librl.abi, by
libabigail.

What is compared is a library of empty functions, made from the header alone: rl.h decides every
type of the interface, since a definition in src/abi that differs does not compile, and abi_exported
compares the symbols of librl.so. So nothing private is in a description, and it depends neither on
flags of the compiler nor on where lines stand.

usage: baseline.py check LIBRARY    LIBRARY has this version's soname, and the interface is that of
                                    the frozen version, or that and additions if this version is a
                                    later one of the same soname; 77: no libabigail
       baseline.py breaks           interfaces that break programs, each made from rl.h by one
                                    change, do not pass, and one with additions does
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import facts
import header
import versions

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
        r"(rl_options_import\(rl_options\* options, int32_t format,) const", r"\1"),
    "a result's void is no longer const": (r"const void\* rl_bytes_data", "void* rl_bytes_data"),
    "a result's pointee is no longer const": (r"const char\* rl_version_string",
                                              "char* rl_version_string"),
    "a callback's pointee is no longer const": (r"(\(\*rl_advantage_fn\)\(void\* user_data,) const",
                                                r"\1"),
    "a field's pointee is no longer const": (r"const int64_t\* shape;", "int64_t* shape;"),
    "a field is renamed": (r"uint64_t num_elements;", "uint64_t num_items;"),
    "a field is wider": (r"uint32_t read_only;", "uint64_t read_only;"),
    "fields change places": (r"(int32_t dtype; .*\n)(.*int32_t device; .*\n)", r"\2\1"),
}


# A function and a field behind the others.
ADDITIONS = [
    (r"(RL_API uint32_t rl_abi_version\(void\);)", r"\1\nRL_API uint32_t rl_added(void);"),
    (r"(\} rl_tensor_info;)", r"  uint64_t added;\n\1"),
]


def concrete(text):
    """Pointers to void as pointers to a struct: abidiff says nothing when one to void gains or
    loses its const."""
    return re.sub(r"\bvoid(?=\s*\*)", "struct rl_any", text)


def stub_text(text, bodies=None):
    """Functions that do nothing, or what `bodies` has for their names."""
    lines = ['struct rl_any;\n#include "rl.h"']
    for f in header.functions(text):
        arguments = ", ".join(f"{kind} {name}" for kind, name in f.parameters) or "void"
        unused = "".join(f" (void){name};" for _, name in f.parameters)
        result = "" if f.result == "void" else " return 0;"
        body = (bodies or {}).get(f.name, f"{unused}{result}")
        lines.append(f"{f.result} {f.name}({arguments}) {{{body} }}")
    return concrete("\n".join(lines) + "\n")


def describe(out, text, script, soname):
    """Writes what abidw says of the interface of a header, a version script and a soname."""
    with tempfile.TemporaryDirectory() as directory:
        library = pathlib.Path(directory) / "librl.so"
        (pathlib.Path(directory) / "stub.c").write_text(stub_text(text))
        (pathlib.Path(directory) / "rl.h").write_text(concrete(text))
        (pathlib.Path(directory) / "librl.map").write_text(script)
        # In the directory itself, so that no path of the machine is told.
        subprocess.run(["cc", "-g", "-O0", "-std=c99", "-fPIC", "-shared", "-nostdlib",
                        "-Wl,--version-script=librl.map", f"-Wl,-soname,{soname}", "-o", library,
                        "stub.c"], cwd=directory, check=True)
        subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path",
                        "--type-id-style", "hash", "--out-file", out, library], check=True)
    lacking = lacks(out.read_text(), text)
    if lacking:
        sys.exit(f"the description of rl.h has no {', '.join(lacking)}")


def lacks(description, text):
    """Structs and functions of the header that a description lacks: one without types compares
    equal to anything."""
    names = [f"class-decl name='{name}' size-in-bits=" for name in header.structs(text)]
    names += [f"function-decl name='{f.name}' " for f in header.functions(text)]
    return [name for name in names if name not in description]


def trimmed(text, old):
    """A header without the fields that its structs have behind those of an older header."""
    sizes = {name: len(value) for name, (kind, value) in facts.of_header(old).items()
             if kind == "struct"}

    def cut(match):
        name, fields = match.group(1), facts.plain(match.group(2)).split(";")[:-1]
        return f"typedef struct {name} {{{';'.join(fields[:sizes.get(name)])};}} {name};"
    return re.sub(r"^typedef struct (rl_\w+) \{(.*?)^\} \1;", cut, text, flags=re.M | re.S)


def differences(frozen, text, old=None, script=None):
    """Between a description and a header with a version script, librl.map unless another is given.
    With the header of the description additions pass."""
    with tempfile.TemporaryDirectory() as directory:
        current = pathlib.Path(directory) / "current.abi"
        describe(current, trimmed(text, old) if old else text,
                 script or header.read("abi/librl.map"), versions.soname(header.ROOT))
        done = subprocess.run(["abidiff", "--harmless", *(["--no-added-syms"] if old else []),
                               frozen, current], capture_output=True, text=True)
    if done.returncode == 0:
        return []
    meaning = ", ".join(text for bit, text in MEANING.items() if done.returncode & bit)
    return [f"{done.stdout}{done.stderr}{meaning}; abi/POLICY.md says which version may do that"]


def check(library):
    """Compares with the last frozen version, if this one replaces it."""
    soname = versions.soname(header.ROOT)
    said = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                          text=True).stdout
    problems = [] if f"[{soname}]" in said else [f"{library} has another soname than {soname}"]
    series = versions.series(header.ROOT)
    if not series:
        print(f"no frozen version is {soname}: programs are built anew, nothing is compared")
        return problems
    last, text = series[-1], header.header_text()
    is_frozen = last.version == versions.present(header.ROOT)
    return problems + differences(last.folder / "librl.abi", text,
                                  None if is_frozen else last.text("rl.h"))


def changed(text, line, replacement):
    text, count = re.subn(line, replacement, text)
    if count != 1:
        sys.exit(f"{line} is {count} times in rl.h")
    return text


def breaks():
    """Breaks that the comparison does not see, and additions that it takes for one."""
    text = header.header_text()
    with tempfile.TemporaryDirectory() as directory:
        whole = pathlib.Path(directory) / "whole.abi"
        describe(whole, text, header.read("abi/librl.map"), versions.soname(header.ROOT))
        problems = differences(whole, text) + differences(whole, text, text)
        for what, (line, replacement) in BREAKS.items():
            broken = changed(text, line, replacement)
            for old in (None, text):
                if not any("the interface changed" in p for p in differences(whole, broken, old)):
                    problems.append(f"{what}, and nothing is said: {line} became {replacement!r}")
        more = text
        for line, replacement in ADDITIONS:
            more = changed(more, line, replacement)
        script = header.read("abi/librl.map").replace("rl_abi_version;", "rl_abi_version;rl_added;")
        problems += differences(whole, more, text, script)
        if not differences(whole, more, script=script):
            problems.append("additions to what is frozen pass")
    print(f"{len(BREAKS)} breaks, {len(ADDITIONS)} additions, {len(problems)} problems")
    return problems


if __name__ == "__main__":
    commands = {"check": check, "breaks": breaks}
    words = {"check": 3, "breaks": 2}
    if len(sys.argv) < 2 or len(sys.argv) != words.get(sys.argv[1]):
        sys.exit(__doc__)
    if not (shutil.which("abidw") and shutil.which("abidiff")):
        print("skipped: abidw and abidiff (abigail-tools) are not installed")
        sys.exit(SKIPPED)
    found = commands[sys.argv[1]](*sys.argv[2:])
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
