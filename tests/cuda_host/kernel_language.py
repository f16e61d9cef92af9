#!/usr/bin/env python3
"""Holds kernels to the language of src/device/cuda/lang, so that what nvcc compiles also runs on
the emulated GPU.

usage: kernel_language.py                one line for each problem
       kernel_language.py --self-test    plants a violation of every rule; each must be found

Kernel sources are the .cu files of src/ and the headers of folders named kernels below a folder
named cuda. Exit status: 0 fine, 1 problems.
"""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LANGUAGE = "src/device/cuda/lang"
EMULATED = "tests/cuda_host/include/device/cuda/lang"
STANDARD = {"algorithm", "array", "bit", "cmath", "cstddef", "cstdint", "limits", "type_traits",
            "utility", "cuda_runtime_api.h"}
# Headers of src/ whose constants and constexpr functions kernels share with the host.
SHARED = {"core/dtype.h", "core/rng.h", "device/cuda/cuda_calls.h"}
SHARED_FOLDERS = ("ops/cuda/kernels/", "device/cuda/lang/", "algo/", "ops/")
RULES = [
    ("chevrons", r"<<<|>>>\s*\(", "starts a kernel with chevrons; launch() does that"),
    ("reserved", r"\b__(?!restrict__\b)\w+", "uses {}, a name of the compiler or the toolkit"),
    ("indices", r"\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize)\b",
     "uses {}; kernel.h has functions for it"),
    ("assembly", r"\basm\b", "contains PTX, which only ptx.h may"),
    ("libraries", r"\b(?:cub|thrust|cutlass|cute|cooperative_groups|nvcuda|wmma)\s*::",
     "uses {} a library that the emulation lacks"),
    ("atomics", r"\batomic\w*", "uses {}; sums have a written order"),
    ("contraction", r"(?<![\w.])(?:std\s*::\s*)?fmaf?\s*\(", "calls {}); fma_rn() does that"),
    ("block memory", r"(?<![\w.])(?:std\s*::\s*)?mem(?:cpy|set|move)\s*\(",
     "calls {}), whose accesses no check sees"),
    ("host functions", r"(?<![\w.])(?:std\s*::\s*)?(?:printf|malloc|free|assert|abort)\s*\(",
     "calls {}), a function of the host"),
    ("static data", r"^\s*(?:static|thread_local)\s+(?!constexpr\b|_assert\b)[^(]*[;={]",
     "has data that outlives a launch"),
    ("bits", r"\bstd\s*::\s*(?:count[lr]_(?:zero|one)|popcount|bit_(?:ceil|floor|width)|"
     r"has_single_bit|rot[lr])\b",
     "calls {}, of which nvcc compiles some wrongly; kernel.h has functions for bits"),
    ("runtime calls", r"\bcuda[A-Z]\w+\s*\(", "calls the runtime itself: {})"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
WRAPPER = re.compile(r"RL_DEVICE\s+[\w:<>*& ]*?(\w+)\s*\(")


def without_comments(text, keep_strings=False):
    """The text with comments, and strings, replaced by blanks; lines keep their numbers."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)

    def blank(match):
        found = match.group(0)
        if found.startswith('"') and keep_strings:
            return found
        quotes = '""' if found.startswith('"') else ""
        return quotes + re.sub(r"[^\n]", " ", found)[len(quotes):]

    return pattern.sub(blank, text)


def kernel_sources(root):
    src = root / "src"
    headers = [path for path in src.rglob("*.h")
               if "/cuda/kernels/" in path.relative_to(src).as_posix()]
    return sorted([*src.rglob("*.cu"), *headers])


def check_include(name):
    if name in STANDARD or name in SHARED:
        return None
    if name.startswith(SHARED_FOLDERS) and name.endswith(".h"):
        return None
    return f"includes {name}, which kernels may not"


def check_source(path, name):
    text = path.read_text()
    code = without_comments(text)
    for number, line in enumerate(code.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        for _, pattern, what in RULES:
            if match := re.search(pattern, line):
                yield f"{name}:{number}: {what.format(match.group(0).strip().rstrip('('))}"
    for match in INCLUDE.finditer(without_comments(text, keep_strings=True)):
        if problem := check_include(match.group(1)):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {problem}"
    if path.suffix == ".cu":
        yield from check_kernels(code, name)


def check_kernels(code, name):
    """A kernel has one parameter, which launch() can copy."""
    for match in re.finditer(r"RL_KERNEL\b[^;{]*?\b(\w+)\s*\(([^()]*)\)\s*\{", code):
        parameters = [part for part in match.group(2).split(",") if part.strip()]
        if len(parameters) != 1 or "*" in match.group(2) or "&" in match.group(2):
            yield f"{name}: kernel {match.group(1)} does not have one parameter, a plain struct"


def check_wrappers(root):
    """Assembly is in ptx.h alone, one instruction in each wrapper."""
    for path in sorted((root / LANGUAGE).glob("*.h")):
        text = without_comments(path.read_text(), keep_strings=True)
        for match in re.finditer(r"\basm\b[^;]*?\((.*?)\);", text, re.DOTALL):
            if path.name != "ptx.h":
                yield f"{LANGUAGE}/{path.name}: contains PTX, which only ptx.h may"
            instructions = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', match.group(1).split(":")[0]))
            joined = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', match.group(1)))
            if instructions.count(";") > 1 or joined.count(";") != 1:
                yield f"{LANGUAGE}/{path.name}: a wrapper has not exactly one instruction: {joined}"


def functions_of(header):
    lines = without_comments(header.read_text()).splitlines()
    return set(WRAPPER.findall("\n".join(line for line in lines if not line.startswith("#"))))


def check_twins(root):
    """The emulation has every function of the language, and no other."""
    for name in ("kernel.h", "ptx.h"):
        real, emulated = (functions_of(root / folder / name) for folder in (LANGUAGE, EMULATED))
        for function in sorted(real - emulated):
            yield f"{EMULATED}/{name}: lacks {function}(), which the language has"
        for function in sorted(emulated - real):
            yield f"{LANGUAGE}/{name}: lacks {function}(), which the emulation has"


def problems(root):
    for path in kernel_sources(root):
        yield from check_source(path, path.relative_to(root).as_posix())
    yield from check_wrappers(root)
    yield from check_twins(root)


GOOD = """// A comment may say <<<this>>>, __shared__ and asm.
#include "device/cuda/lang/kernel.h"
#include <cstdint>
RL_KERNEL void RL_BOUNDS(256, 1) good_kernel(Params p) {
  static constexpr int kLanes = 32;
  p.to[thread_index()] = fma_rn(p.a, p.b, kLanes);
}
"""
PLANTED = {
    "chevrons": "void f() { good_kernel<<<1, 32>>>(p); }",
    "reserved": "__shared__ float x[4];",
    "indices": "int f() { return threadIdx.x; }",
    "assembly": 'void f() { asm("bar.sync 0;"); }',
    "libraries": "void f() { cub::BlockReduce<float, 32> r; }",
    "atomics": "void f(float* x) { atomicAdd(x, 1.0f); }",
    "contraction": "float f(float a) { return std::fma(a, a, a); }",
    "block memory": "void f(char* a, char* b) { std::memcpy(a, b, 64); }",
    "host functions": 'void f() { printf("x"); }',
    "static data": "static float table[4];",
    "bits": "int f(unsigned a) { return std::countr_zero(a); }",
    "runtime calls": "void f() { cudaDeviceSynchronize(); }",
    "include": "#include <cooperative_groups.h>",
    "parameters": "RL_KERNEL void two_kernel(int a, int b) {}",
    "pointer": "RL_KERNEL void one_kernel(float* a) {}",
}
WRAPPERS = {
    "exactly one instruction":
        'RL_DEVICE int lane() { asm volatile("a.b %0; c.d %0;" : "=r"(x)); }',
    "lacks only_here()": "RL_DEVICE int only_here() { return 0; }",
}


def self_test():
    """Each planted violation is found, and clean sources have none."""
    def found(kernel, language=""):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path in (LANGUAGE, EMULATED, "src/ops/cuda/kernels"):
                (root / path).mkdir(parents=True)
            for path in (LANGUAGE, EMULATED):
                for name in ("kernel.h", "ptx.h"):
                    own = language if path == LANGUAGE and name == "ptx.h" else ""
                    (root / path / name).write_text("RL_DEVICE int lane() { return 0; }\n" + own)
            (root / "src/ops/cuda/kernels/a.cu").write_text(kernel)
            return list(problems(root))

    what = {rule: text.split("{}")[0] for rule, _, text in RULES}
    what |= {"include": "includes", "parameters": "one parameter", "pointer": "one parameter"}
    failed = [] if not found(GOOD) else ["clean sources"]
    failed += [rule for rule, text in PLANTED.items()
               if not any(what[rule] in problem for problem in found(GOOD + text + "\n"))]
    failed += [rule for rule, text in WRAPPERS.items()
               if not any(rule in problem for problem in found(GOOD, text + "\n"))]
    failed += [rule for rule, _, _ in RULES if rule not in PLANTED]
    print("\n".join(f"not found: {rule}" for rule in failed) or
          f"{len(PLANTED) + len(WRAPPERS)} planted violations were found")
    return 1 if failed else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    found = list(problems(ROOT))
    print("\n".join(found) or f"{len(kernel_sources(ROOT))} kernel sources keep to the language")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
