#!/usr/bin/env python3
"""Counts test cases in the JUnit files that ctest writes and prints one closing line.

A ctest entry whose output has GoogleTest case lines counts once per case; any other entry counts
once. An entry that failed without a failed case (a crash, a sanitizer report, a timeout) counts as
one failure.

Failed cases are listed with the first line of what failed; of an entry without a failed case, the
last line that it printed.

Skipped cases are listed by reason, each reason with its kind (KINDS). A skip without a kind is a
test that a complete machine would run: for example, a tool of scripts/debian-packages.txt is
missing. If CI is "true" such a skip is a failure. Under a capped instruction set (entries *_avx2)
a skip for lack of hardware counts as one too: the case should not have been made.
Exit status 1 if anything failed or nothing ran at all.
"""
import collections
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

CASE = re.compile(r"^\[ +(OK|SKIPPED|FAILED) +\] (\S+?)(?:, where .*)? \(\d+ ms\)$", re.MULTILINE)
SKIP_REASON = re.compile(r": Skipped\n(.+)\n(?:.*\n)*?\[ +SKIPPED +\] (\S+)")
PRINTED_REASON = re.compile(r"^skipped: (.+)$", re.MULTILINE)
FAILED_CASE = re.compile(
    r"^\[ RUN +\] (\S+)\n((?:(?!\[ RUN ).*\n)*?)\[ +FAILED +\] \1", re.MULTILINE)
KINDS = {
    "hardware": r"this CPU has no |usable cores|there is no other worker|this kernel lacks |"
                r"^cuda: unavailable, because (this machine has no|the driver|device |there is no)",
    "long": r"RL_LONG is not set",
    "external": r"RL_SMOLLM2_GGUF|^external: ",
    "sanitizer": r"[Ss]anitizer|-fsanitize=",
    "disabled": r"^disabled$",
}


def kind_of(reason):
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, reason)), None)


def skips_on_purpose(entry):
    """True if the entry is disabled or returned its skip code; failing to start is a failure."""
    mark = entry.find("skipped")
    message = "" if mark is None else mark.get("message", "")
    return entry.get("status") == "disabled" or message.startswith("SKIP_")


def count_entry(entry):
    """Returns (passed, failed, skipped) of one ctest entry."""
    output = entry.findtext("system-out") or ""
    cases = [match.group(1) for match in CASE.finditer(output)]
    passed, failed, skipped = (cases.count(kind) for kind in ("OK", "FAILED", "SKIPPED"))
    status = entry.get("status")
    if status == "fail":
        failed = max(failed, 1)
    elif status != "run":
        skipped, failed = (1, 0) if skips_on_purpose(entry) else (0, 1)
    elif not cases:
        passed, skipped = 1, len(PRINTED_REASON.findall(output))  # skipped parts of a test that ran
    return passed, failed, skipped


def failures_of(entry):
    """Yields (name, first or last line) of everything that failed in an entry."""
    output = entry.findtext("system-out") or ""
    name = entry.get("name")
    runs = FAILED_CASE.findall(output)
    for case, printed in runs:
        lines = [line for line in printed.splitlines() if line.strip()]
        first = next((i for i, line in enumerate(lines) if line.endswith(": Failure")), 0)
        yield f"{name}: {case}", " ".join(lines[first:first + 2])
    if not runs and count_entry(entry)[1]:
        yield name, (output.strip().splitlines() or ["printed nothing"])[-1]


def skips_of(entry):
    """Yields (name, reason) of everything that an entry skipped."""
    output = entry.findtext("system-out") or ""
    name = entry.get("name")
    if entry.get("status") == "disabled":
        yield name, "disabled"
    elif entry.get("status") == "run" and not CASE.search(output):
        yield from ((name, reason.strip()) for reason in PRINTED_REASON.findall(output))
    elif entry.get("status") != "run" and skips_on_purpose(entry):
        reason = PRINTED_REASON.search(output)
        yield name, reason.group(1).strip() if reason else "without a reason"
    for reason, case in SKIP_REASON.findall(output):
        yield f"{name}: {case}", reason.strip()


def refused(entry_name, reason):
    """Why a skip is not acceptable, or None."""
    kind = kind_of(reason)
    if kind == "hardware" and entry_name.split(":")[0].endswith("_avx2"):
        return "a case that the cap of the instruction set forbids is not to be made"
    return None if kind else "a complete machine runs this"


def main(paths):
    totals = [0, 0, 0]
    failures = []
    by_reason = collections.defaultdict(list)
    for path in paths:
        for entry in ElementTree.parse(path).getroot().iter("testcase"):
            totals = [total + more for total, more in zip(totals, count_entry(entry))]
            failures += failures_of(entry)
            for name, reason in skips_of(entry):
                by_reason[reason].append(name)
    in_ci = os.environ.get("CI") == "true"
    for reason, names in sorted(by_reason.items()):
        print(f"skipped ({kind_of(reason) or 'no kind'}), {len(names)} times: {reason}: "
              + ", ".join(names[:3]) + (", ..." if len(names) > 3 else ""))
        wrong = [(name, refused(name, reason)) for name in names if refused(name, reason)]
        if in_ci and wrong:
            totals = [totals[0], totals[1] + len(wrong), totals[2] - len(wrong)]
            print(f"failed under CI, {len(wrong)} times: {wrong[0][0]}: {wrong[0][1]}")
    for name, what in failures:
        print(f"failed: {name}: {what}")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: test_summary.py JUNIT_FILE...")
    sys.exit(main(sys.argv[1:]))
