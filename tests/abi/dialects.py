#!/usr/bin/env python3
"""Compiles rl.h in every dialect of C and C++, with every compiler that is there, warnings as
errors: alone, twice in one unit, and in two units that are linked.

usage: dialects.py INCLUDE_DIRECTORY
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

COMPILERS = ["gcc", "clang"]
DIALECTS = [("c", std) for std in ("c99", "c11", "c17", "c2x")] + \
           [("c++", std) for std in ("c++11", "c++14", "c++17", "c++20")]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion", "-Wundef",
            "-Wcast-qual"]
OF_LANGUAGE = {"c": ["-Wstrict-prototypes", "-Wc++-compat", "-Wold-style-definition"],
               "c++": ["-Wextra-semi", "-Wzero-as-null-pointer-constant"]}
ALONE = '#include "rl.h"\n'
UNITS = {
    "alone": ALONE + "typedef rl_loss_fn rl_test_fn;\n",
    "twice": ALONE + ALONE + "typedef rl_log_fn rl_test_fn;\n",
    "main": ALONE + "rl_status other(const rl_event_view* view);\n"
                    "int main(void) { rl_event_view v; v.kind = RL_EVENT_STEP; "
                    "return (int)other(&v) * 0; }\n",
    "other": ALONE + "rl_status other(const rl_event_view* view);\n"
                     "rl_status other(const rl_event_view* view) { return view->kind; }\n",
}


def compile_units(compiler, language, std, include, out):
    """The compiler's complaints about each unit and about linking the last two; empty when there
    are none."""
    base = [compiler, f"-std={std}", *WARNINGS, *OF_LANGUAGE[language], "-I", include]
    for name, text in UNITS.items():
        done = subprocess.run([*base, "-x", language, "-c", "-o", out / f"{name}.o", "-"],
                              input=text, capture_output=True, text=True)
        if done.returncode != 0:
            return f"{name}:\n{done.stderr}"
    linked = subprocess.run([compiler, out / "main.o", out / "other.o", "-o", out / "linked"],
                            capture_output=True, text=True)
    if linked.returncode != 0:
        return f"two units linked:\n{linked.stderr}"
    return "" if subprocess.run([out / "linked"]).returncode == 0 else "the linked program fails"


def main(include):
    found = [name for name in COMPILERS if shutil.which(name)]
    for name in COMPILERS:
        if name not in found:
            print(f"skipped: the dialects with {name}, which is not installed")
    failures = 0
    with tempfile.TemporaryDirectory() as out:
        for compiler in found:
            for language, std in DIALECTS:
                complaint = compile_units(compiler, language, std, include, pathlib.Path(out))
                if complaint:
                    failures += 1
                    print(f"{compiler} {std}, {complaint}", file=sys.stderr)
    print(f"{len(found) * len(DIALECTS)} dialects with {', '.join(found)}, {failures} failures")
    return 1 if failures or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
