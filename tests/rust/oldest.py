#!/usr/bin/env python3
"""The Rust packages use nothing newer than the rust-version of their manifests. Where rustc is of
that version, building is the check; of a newer one clippy knows, which Debian has for its own rustc
alone.

usage: oldest.py MANIFEST COMMAND...        the command runs clippy on the packages
"""
import pathlib
import re
import subprocess
import sys

SKIPPED = 77  # SKIP_RETURN_CODE of ctest


def main(manifest, command):
    oldest = re.search(r'^rust-version = "([0-9.]+)"$', pathlib.Path(manifest).read_text(),
                       re.M).group(1)
    said = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout
    rustc = re.search(r"[0-9]+\.[0-9]+", said).group()
    if rustc == oldest:
        print(f"rustc is {rustc}, the oldest that the packages allow: building them is the check")
        return 0
    if subprocess.run([*command[:command.index("clippy")], "clippy", "--version"],
                      capture_output=True).returncode:
        print(f"skipped: external: rustc is {rustc} and there is no clippy")
        return SKIPPED
    rules = ["--", "-A", "clippy::all", "-D", "clippy::incompatible_msrv"]
    done = subprocess.run([*command, "--all-targets", *rules], capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="")
    if "unknown lint" in done.stderr:
        print("skipped: external: this clippy does not compare with rust-version")
        return SKIPPED
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]) if "clippy" in sys.argv else __doc__)
