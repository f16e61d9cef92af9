#!/usr/bin/env python3
"""At least 95% of the lines of every kernel run on the emulated GPU.

usage: kernel_coverage.py OBJECTS COUNTS [--gcov PROGRAM]
       kernel_coverage.py --self-test [--gcov PROGRAM] [--compiler PROGRAM]

OBJECTS has what the compiler notes of each kernel file (.gcno), COUNTS what a run of the tests has
counted (.gcda). Lines are those of which the compiler made code. A template's line has run if it
has in one instantiation; a header's, if it has in one file that includes it. Whatever lies below
95% is named with its lines. Exit status: 0 fine, 1 problems.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Kernels, their headers, and the one header of their language that the emulation does not replace.
FILES = ["src/ops/cuda/kernels/*/*.cu", "src/ops/cuda/kernels/*/*.h",
         "src/device/cuda/lang/arithmetic.h"]
LEAST = 0.95


def lines_of(report, files, counts):
    """Adds to counts, file -> line -> times it ran, what a report of gcov has of the files."""
    for entry in report["files"]:
        name = next((f for f in files if ("/" + entry["file"]).endswith("/" + f)), None)
        for line in entry["lines"] if name else []:
            of_file = counts.setdefault(name, {})
            number = line["line_number"]
            of_file[number] = of_file.get(number, 0) + line["count"]


def counted(objects, folder, files, gcov):
    """File -> line -> times it ran, of all notes."""
    counts = {}
    for notes in sorted(objects.rglob("*.gcno")):
        with tempfile.TemporaryDirectory() as work:
            shutil.copy(notes, work)
            data = folder / notes.with_suffix(".gcda").name
            if data.exists():
                shutil.copy(data, work)
            done = subprocess.run([gcov, "--json-format", "--stdout", notes.name], cwd=work,
                                  capture_output=True, text=True, check=True)
            lines_of(json.loads(done.stdout), files, counts)
    return counts


def runs(numbers):
    """"3, 7-9" of 3, 7, 8 and 9."""
    spans = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def problems_of(files, counts):
    for name in files:
        lines = counts.get(name, {})
        missed = sorted(number for number, times in lines.items() if times == 0)
        if not lines and name.endswith(".cu"):
            yield f"{name}: the compiler has no notes of it"
        elif len(lines) - len(missed) < LEAST * len(lines):
            share = 100 * (1 - len(missed) / len(lines))
            yield f"{name}: {share:.0f}% of {len(lines)} lines ran, not {runs(missed)}"


def check(objects, folder, gcov):
    files = sorted(str(path.relative_to(ROOT)) for kind in FILES for path in ROOT.glob(kind))
    counts = counted(objects, folder, files, gcov)
    problems = list(problems_of(files, counts))
    all_lines = [times for lines in counts.values() for times in lines.values()]
    ran = sum(times > 0 for times in all_lines)
    print("\n".join(problems) or f"{ran} of {len(all_lines)} lines in {len(counts)} files ran")
    return 1 if problems else 0


PROGRAM = """\
template <bool a>
int f(int x) {
  if (x > 2)
    return a ? 7 : x;
  return 3;
}
int never(int x) {
  return x + 1;
}
int main(int argc, char**) {
  return f<true>(argc) + f<false>(argc + 2) == 6 ? 0 : argc > 5 ? never(argc) : 1;
}
"""


def self_test(gcov, compiler):
    """Lines that did not run are found in a program, and files below the limit are named."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "a.cu").write_text(PROGRAM, encoding="utf-8")
        subprocess.run([compiler, "--coverage", "-xc++", "a.cu", "-o", "a.cu.o", "-c"], cwd=folder,
                       check=True)
        subprocess.run([compiler, "--coverage", "a.cu.o", "-o", "a"], cwd=folder, check=True)
        idle = counted(folder, folder, ["a.cu"], gcov)
        assert not any(idle["a.cu"].values()), idle
        subprocess.run(["./a"], cwd=folder, check=True)
        counts = counted(folder, folder, ["a.cu"], gcov)
    missed = [number for number, times in counts["a.cu"].items() if times == 0]
    assert missed == [7, 8], counts
    found = list(problems_of(["a.cu", "b.cu", "c.h"], counts))
    assert found == ["a.cu: 75% of 8 lines ran, not 7-8",
                     "b.cu: the compiler has no notes of it"], found
    assert not list(problems_of(["d.h"], {"d.h": {n: int(n > 1) for n in range(1, 21)}}))
    assert list(problems_of(["d.h"], {"d.h": {n: int(n > 2) for n in range(1, 21)}}))
    assert runs([3, 7, 8, 9]) == "3, 7-9"
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("objects", type=pathlib.Path, nargs="?")
    parser.add_argument("counts", type=pathlib.Path, nargs="?")
    parser.add_argument("--gcov", default="gcov")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test(arguments.gcov, arguments.compiler)
    if arguments.counts is None:
        parser.error("OBJECTS and COUNTS are missing")
    return check(arguments.objects, arguments.counts, arguments.gcov)


if __name__ == "__main__":
    sys.exit(main())
