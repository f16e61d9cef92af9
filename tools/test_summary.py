#!/usr/bin/env python3
"""Counts test cases in the JUnit files that ctest writes and prints one closing line.

A ctest entry whose output has GoogleTest case lines counts once per case; any other entry counts once. An entry that
failed without a failed case (a crash, a sanitizer report, a timeout) counts as one failure. Skipped cases are listed
with the reason they printed. Exit status 1 when anything failed or nothing ran at all.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

CASE = re.compile(r"^\[ +(OK|SKIPPED|FAILED) +\] (\S+?)(?:, where .*)? \(\d+ ms\)$", re.MULTILINE)
SKIP_REASON = re.compile(r": Skipped\n(.+)\n(?:.*\n)*?\[ +SKIPPED +\] (\S+)")


def skips_on_purpose(entry):
    """True for an entry that is disabled or returned its skip code; a program that could not be started is a failure."""
    mark = entry.find("skipped")
    return entry.get("status") == "disabled" or mark is not None and mark.get("message", "").startswith("SKIP_")


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
        passed = 1
    return passed, failed, skipped


def main(paths):
    totals = [0, 0, 0]
    for path in paths:
        for entry in ElementTree.parse(path).getroot().iter("testcase"):
            totals = [total + more for total, more in zip(totals, count_entry(entry))]
            for reason, case in SKIP_REASON.findall(entry.findtext("system-out") or ""):
                print(f"skipped {case}: {reason.strip()}")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: test_summary.py JUNIT_FILE...")
    sys.exit(main(sys.argv[1:]))
