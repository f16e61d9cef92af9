#!/usr/bin/env python3
"""The Rust packages use nothing newer than the rust-version of their manifests: clippy knows what is. Where rustc is of
that version, building is the check.

usage: oldest.py COMMAND...        the command runs clippy on the packages
"""
import subprocess
import sys

SKIPPED = 77  # SKIP_RETURN_CODE of ctest


def main(command):
    if subprocess.run([*command[:command.index("clippy")], "clippy", "--version"], capture_output=True).returncode:
        print("skipped: there is no clippy")
        return SKIPPED
    rules = ["--", "-A", "clippy::all", "-D", "clippy::incompatible_msrv"]
    done = subprocess.run([*command, "--all-targets", *rules], capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="")
    if "unknown lint" in done.stderr:
        print("skipped: this clippy does not compare with rust-version")
        return SKIPPED
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if "clippy" in sys.argv else __doc__)
