#!/usr/bin/env python3
"""Compiles rl.h alone, twice in one unit, in every dialect of C and C++ that it promises, warnings as errors.

usage: dialects.py INCLUDE_DIRECTORY
"""
import shutil
import subprocess
import sys

UNIT = '#include "rl.h"\n#include "rl.h"\nextern uint32_t rl_used;\nuint32_t rl_used = RL_ABI_VERSION;\n'
DIALECTS = [("c", std) for std in ("c99", "c11", "c17")] + [("c++", std) for std in ("c++11", "c++17", "c++20")]
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


def main(include):
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)]
    failures = 0
    for compiler in compilers:
        for language, std in DIALECTS:
            extra = ["-Wstrict-prototypes"] if language == "c" else ["-Wno-variadic-macros"]
            command = [compiler, "-x", language, f"-std={std}", *WARNINGS, *extra, "-I", include, "-fsyntax-only", "-"]
            done = subprocess.run(command, input=UNIT, capture_output=True, text=True)
            if done.returncode != 0:
                failures += 1
                print(f"{compiler} {std}:\n{done.stderr}", file=sys.stderr)
    print(f"{len(compilers) * len(DIALECTS)} dialects with {', '.join(compilers)}, {failures} failures")
    if "clang" not in compilers:
        print("clang is not installed: only gcc was tried")
    return 1 if failures or not compilers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
