#!/usr/bin/env python3
"""What is known of the GPU's kernels: the tables of docs/gpu.md, and what they have to fulfil.

usage: check_kernels.py BUILD [--gpu RESULTS] [--write]
       check_kernels.py --self-test

BUILD/kernels has what ptxas says of each kernel, which nvcc's build leaves there. The ops that ran
on the emulation are in BUILD/tests/cuda/results.json, those that ran on a GPU in RESULTS, which the
same tests write there. --write puts the tables into docs/gpu.md.

A problem: an op without a twin, an op with a kernel that an architecture lacks, an op that did not
run on the emulation, a kernel for head sizes up to 128 that keeps registers in memory, and a row of
docs/gpu.md that is missing or has no op or kernel any more. Registers differ between versions of
nvcc and are not compared. Exit status: 0 fine, 1 problems, 77 no kernels were compiled here.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from kernels import roofline, sources  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/gpu.md"
MARKS = {"ops": ("<!-- ops: written by tools/check_kernels.py -->", "<!-- end of ops -->"),
         "kernels": ("<!-- kernels: written by tools/check_kernels.py -->",
                     "<!-- end of kernels -->")}
ENTRY = re.compile(
    r"Compiling entry function '(?P<symbol>\w+)' for '(?P<architecture>sm_\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers", re.S)
MAX_FREE_OF_SPILLS = 128  # head size


def demangled(symbols):
    done = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True,
                          check=True)
    return done.stdout.splitlines()


def short_name(signature):
    """"attend_mma<128>" of the demangled kernel."""
    name = re.sub(r"\(anonymous namespace\)::|rl::cuda::|rl::", "", signature)
    name = re.sub(r"^void ", "", name)
    name = re.match(r"(\w+?)_kernel(<[^()]*>)?", name)
    arguments = re.sub(r"\((?:\w|\s)+\)", "", name[2] or "")
    return name[1] + arguments


def compiled(folder):
    """Kernel -> architecture -> (registers, bytes kept in memory)."""
    entries = [match for path in sorted(folder.glob("*.ptxas"))
               for match in ENTRY.finditer(path.read_text(encoding="utf-8"))]
    names = demangled([entry["symbol"] for entry in entries]) if entries else []
    found = {}
    for entry, name in zip(entries, names):
        spilled = int(entry["stores"]) + int(entry["loads"])
        found.setdefault(short_name(name), {})[entry["architecture"]] = (
            int(entry["registers"]), spilled)
    return found


def ops_run(path):
    """The ops that a program's results name; none if it did not run or a test failed."""
    if path is None or not path.exists():
        return set()
    results = json.loads(path.read_text(encoding="utf-8"))
    return set() if results["failures"] else set(results.get("ops_run", "").split())


def base(kernel):
    return kernel.split("<")[0]


def op_table(kernels_of, known, architectures, emulated, gpu):
    lines = ["| op | kernels | " + " | ".join(architectures) +
             " | ran on the emulation | ran on a GPU | counted | bytes | operations "
             "| µs on an H200 |",
             "|" + "---|" * (8 + len(architectures))]
    for op, kernels in kernels_of.items():
        has = ["yes" if all(any(base(k) == kernel and a in known[k] for k in known)
                            for kernel in kernels or []) else "no" for a in architectures]
        ran = "not recorded" if emulated is None else "yes" if op in emulated else "no"
        cells = [f"`{op}`", ", ".join(kernels or []), *has, ran, "yes" if op in gpu else "never",
                 *roofline.row(op)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def kernel_table(known, architectures):
    lines = ["| kernel | " + " | ".join(f"{a}: registers, bytes spilled" for a in architectures) +
             " |", "|" + "---|" * (1 + len(architectures))]
    for kernel, by_architecture in sorted(known.items()):
        cells = [f"{by_architecture[a][0]}, {by_architecture[a][1]}" if a in by_architecture
                 else "no" for a in architectures]
        lines.append("| " + " | ".join([f"`{kernel}`", *cells]) + " |")
    return lines


def head_size(kernel):
    numbers = re.findall(r"\d+", kernel.partition("<")[2])
    return max(map(int, numbers), default=0)


def problems_of(kernels_of, known, architectures, emulated):
    for op, kernels in kernels_of.items():
        if kernels is None:
            yield f"{op}: no twin in src/ops/cuda"
        for kernel in kernels or []:
            lacking = [a for a in architectures
                       if not any(base(k) == kernel and a in known[k] for k in known)]
            if lacking:
                yield f"{op}: kernel {kernel} is not compiled for {', '.join(lacking)}"
        if emulated is not None and op not in emulated:
            yield f"{op}: did not run on the emulation"
    for kernel, by_architecture in known.items():
        for architecture, (_, spilled) in by_architecture.items():
            if spilled and head_size(kernel) <= MAX_FREE_OF_SPILLS:
                yield f"{kernel}: spills {spilled} bytes on {architecture}"


def rows(lines):
    return {line.split("`")[1] for line in lines if line.startswith("| `")}


def table_in(page, kind):
    begin, end = MARKS[kind]
    return page.split(begin)[1].split(end)[0].splitlines()


def with_table(page, kind, lines):
    begin, end = MARKS[kind]
    before, rest = page.split(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end)[1]


def check(build, gpu_results, write):
    known = compiled(build / "kernels")
    if not known:
        print("skipped: external: no nvcc 12.0 or later compiled the kernels")
        return 77
    architectures = sorted({a for by in known.values() for a in by},
                           key=lambda a: int(re.search(r"\d+", a)[0]))
    results = build / "tests/cuda/results.json"
    emulated = ops_run(results) if results.exists() else None
    kernels_of = sources.kernels_of_ops(ROOT)
    problems = list(problems_of(kernels_of, known, architectures, emulated))
    tables = {"ops": op_table(kernels_of, known, architectures, emulated, ops_run(gpu_results)),
              "kernels": kernel_table(known, architectures)}
    path = ROOT / PAGE
    page = path.read_text(encoding="utf-8")
    if write:
        for kind, lines in tables.items():
            page = with_table(page, kind, lines)
        path.write_text(page, encoding="utf-8")
    for kind, lines in tables.items():
        for name in sorted(rows(lines) ^ rows(table_in(page, kind))):
            problems.append(f"{PAGE}: the table of {kind} is stale at {name}; --write mends it")
    print("\n".join(problems) or f"{len(known)} kernels, {len(kernels_of)} ops")
    return 1 if problems else 0


def self_test():
    """Every kind of problem is found."""
    symbol = "_ZN2rl4cuda12_GLOBAL__N_18x_kernelILi64EEEvi"
    log = (f"ptxas info    : Compiling entry function '{symbol}' for 'sm_80'\n"
           "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
           "ptxas info    : Used 40 registers\n")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "x.ptxas").write_text(log, encoding="utf-8")
        known = compiled(pathlib.Path(folder))
    assert known == {"x<64>": {"sm_80": (40, 8)}}, known
    found = "\n".join(problems_of({"a": None, "b": ["x", "y"]}, known, ["sm_80"], {"a"}))
    for wanted in ("a: no twin", "b: kernel y is not compiled for sm_80",
                   "b: did not run on the emulation", "x<64>: spills 8 bytes on sm_80"):
        assert wanted in found, (wanted, found)
    assert not list(problems_of({"b": ["x"]}, {"x<256>": {"sm_80": (255, 8)}}, ["sm_80"], {"b"}))
    lacking = set(sources.ops(ROOT)) - set(roofline.COSTS)
    assert not lacking, f"tools/kernels/roofline.py has no {lacking}"
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--gpu", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    return check(arguments.build, arguments.gpu, arguments.write)


if __name__ == "__main__":
    sys.exit(main())
