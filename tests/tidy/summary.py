#!/usr/bin/env python3
"""tools/test_summary.py counts what ctest writes, names every failure and every skip by kind, and
refuses under CI what a complete machine would run.

usage: summary.py SOURCE_DIRECTORY
"""
import os
import pathlib
import subprocess
import sys
import tempfile

GTEST = """[ RUN      ] A.Runs
[       OK ] A.Runs (1 ms)
[ RUN      ] A.Skips
a_test.cc:3: Skipped
{reason}

[  SKIPPED ] A.Skips (0 ms)"""
FAILED = """[ RUN      ] A.Runs
[       OK ] A.Runs (1 ms)
[ RUN      ] A.Fails
something printed
a_test.cc:3: Failure
Expected equality of these values:
[  FAILED  ] A.Fails (0 ms)
[ RUN      ] A.RunsToo
[       OK ] A.RunsToo (1 ms)
[  FAILED  ] A.Fails"""
# Per case: an entry and the line that names its failure.
FAILURES = {
    "a case of a program": (("ops", "fail", FAILED), "failed: ops: A.Fails: a_test.cc:3: Failure "
                            "Expected equality of these values:"),
    "a program without cases": (("go", "fail", "one line\nthe last line\n"),
                                "failed: go: the last line"),
    "a silent program": (("go", "fail", ""), "failed: go: printed nothing"),
}
# Per case: entries of (name, status, output), then (passed, failed, skipped) without and with CI.
CASES = {
    "hardware is a reason": (
        [("ops", "run", GTEST.format(reason="this CPU has no bf16 dot product"))], (1, 0, 1),
        (1, 0, 1)),
    "but not of a capped run": (
        [("ops_avx2", "run", GTEST.format(reason="this CPU has no bf16 dot product"))], (1, 0, 1),
        (1, 1, 0)),
    "there is no GPU": (
        [("cuda_gpu", "notrun",
          "skipped: cuda: unavailable, because this machine has no NVIDIA driver")], (0, 0, 1),
        (0, 0, 1)),
    "a GPU without cublasLt is not complete": (
        [("cuda_gpu", "notrun",
          "skipped: cuda: unavailable, because cublasLt could not be opened: gone")], (0, 0, 1),
        (0, 1, 0)),
    "the model is external": (
        [("smollm2", "run", GTEST.format(reason="RL_SMOLLM2_GGUF is not set"))], (1, 0, 1),
        (1, 0, 1)),
    "a case has no kind": ([("ops", "run", GTEST.format(reason="too dull"))], (1, 0, 1), (1, 1, 0)),
    "a tool is missing": ([("go", "notrun", "skipped: there is no go")], (0, 0, 1), (0, 1, 0)),
    "a part of a test is left out": ([("abi_dialects", "run", "skipped: the dialects with clang")],
                                     (1, 0, 1), (1, 1, 0)),
    "a skip says nothing": ([("go", "notrun", "")], (0, 0, 1), (0, 1, 0)),
    "a program is not there": ([("go", "missing", "")], (0, 1, 0), (0, 1, 0)),
    "a program fails without a case": ([("ops", "fail", "crashed")], (0, 1, 0), (0, 1, 0)),
}


def junit(entries):
    lines = ["<testsuite>"]
    for name, status, output in entries:
        mark = '<skipped message="SKIP_RETURN_CODE=77"/>' if status == "notrun" else ""
        lines.append(
            f'<testcase name="{name}" status="{"notrun" if status == "missing" else status}">{mark}'
                     f"<system-out>{output}</system-out></testcase>")
    return "\n".join([*lines, "</testsuite>"])


def summary_of(tool, path, ci):
    return subprocess.run([sys.executable, tool, path], capture_output=True, text=True,
                          env={**os.environ, "CI": ci})


def counts(tool, path, ci):
    done = summary_of(tool, path, ci)
    words = done.stdout.splitlines()[-1].replace(",", "").split()
    result = tuple(int(word) for word in words[::2])
    if done.returncode != (1 if result[1] or not result[0] else 0):
        sys.exit(f"exit status {done.returncode} after {done.stdout}{done.stderr}")
    return result


def main(source):
    tool = pathlib.Path(source) / "tools/test_summary.py"
    wrong = []
    with tempfile.TemporaryDirectory() as out:
        path = pathlib.Path(out) / "tests.xml"
        for name, (entries, plain, under_ci) in CASES.items():
            path.write_text(junit(entries))
            for ci, want in (("", plain), ("true", under_ci)):
                seen = counts(tool, path, ci)
                if seen != want:
                    wrong.append(f"{name}, CI={ci!r}: {seen}, not {want}")
        for name, (entry, want) in FAILURES.items():
            path.write_text(junit([entry]))
            lines = summary_of(tool, path, "").stdout.splitlines()[:-1]
            if lines != [want]:
                wrong.append(f"{name}: {lines}, not {want!r}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
