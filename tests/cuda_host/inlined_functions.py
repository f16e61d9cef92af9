#!/usr/bin/env python3
"""What kernels share with the host is inlined into them on the emulated GPU.

usage: inlined_functions.py OBJECTS      one line for each function that is not
       inlined_functions.py --self-test

The compiler's calls before each access leave one access out: that of `*to = f(x)`, if f returns a
structure and is a call. No check would see what a kernel writes by to_bf16(), for example. So no
object may have a copy of a shared function; the kernels' own are always inlined.
"""
import pathlib
import re
import subprocess
import sys

# Functions of the host: they start a kernel or call it.
STARTS = re.compile(r"rl::(?:cuda::launch\w*[<(]|emulated::invoke_kernel<)|_kernel[<(]")


def shared_copies(listing):
    """The weak functions in what nm prints; weak is what several sources may define."""
    names = [match[1] for match in re.finditer(r"^\w* +W (.+)$", listing, re.MULTILINE)]
    return sorted({name for name in names if not STARTS.search(name)})


def main(objects):
    files = sorted(pathlib.Path(objects).rglob("*.o"))
    problems = [] if files else [f"{objects} has no objects"]
    for file in files:
        listing = subprocess.run(["nm", "-C", "--defined-only", file], capture_output=True,
                                 text=True, check=True).stdout
        problems += [f"{file.stem}: {name} is not inlined" for name in shared_copies(listing)]
    print("\n".join(problems) or f"{len(files)} objects")
    return 1 if problems else 0


def self_test():
    listing = """\
0000000000000000 W rl::to_bf16(float)
0000000000000000 W void rl::cuda::launch<rl::cuda::AttendParams>(char const*)
0000000000000000 W void rl::emulated::invoke_kernel<rl::cuda::RowParams>(void const*, void const*)
0000000000000010 t rl::cuda::(anonymous namespace)::norm_rows_kernel(rl::cuda::NormRowsParams)
0000000000000000 T rl::cuda::norm_rows(CUstream_st*, rl::cuda::NormRowsParams const&)
0000000000000000 W rl::Philox::draw() const
"""
    found = shared_copies(listing)
    assert found == ["rl::Philox::draw() const", "rl::to_bf16(float)"], found
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(self_test() if sys.argv[1] == "--self-test" else main(sys.argv[1]))
