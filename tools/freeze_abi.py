#!/usr/bin/env python3
"""Freezes the interface of this tree as abi/released/MAJOR.MINOR, with which later ones are
compared (abi/POLICY.md). It refuses a version that is frozen already, and a tree that breaks a rule
of tests/abi/released.py. Commit the folder with nothing else in the commit; no file of it changes
again.

usage: freeze_abi.py [ROOT]     needs abigail-tools, flatc and python3-yaml
"""
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/abi"))

import baseline  # noqa: E402
import facts  # noqa: E402
import released  # noqa: E402
import schemas  # noqa: E402
import versions  # noqa: E402


def write(root, folder):
    """Everything but SHA256SUMS."""
    for name in ("include/rl.h", "abi/host.c", "abi/symbols.txt"):
        shutil.copyfile(root / name, folder / pathlib.Path(name).name)
    (folder / "soname").write_text(versions.soname(root) + "\n", encoding="utf-8")
    interface = facts.of_tree(root)
    for part in ("options", "metrics"):
        (folder / f"{part}.txt").write_text(facts.lines(interface[part]), encoding="utf-8")
    baseline.describe(folder / "librl.abi", versions.text(root, "include/rl.h"),
                      versions.text(root, "abi/librl.map"), versions.soname(root))
    (folder / "schemas").mkdir()
    schemas.compile_all("flatc", sorted((root / "abi/schemas").glob("*.fbs")), folder / "schemas")


def main(root=ROOT):
    root = pathlib.Path(root).resolve()
    missing = [tool for tool in ("abidw", "flatc", "cc") if shutil.which(tool) is None]
    if missing:
        return [f"{', '.join(missing)} not installed"]
    folder = root / "abi/released" / versions.shown(versions.present(root))
    if folder.exists():
        return [f"{folder.relative_to(root)} is frozen: raise the minor version of rl.h"]
    problems = released.check(root)
    if problems:
        return problems
    folder.mkdir(parents=True)
    try:
        write(root, folder)
        (folder / "SHA256SUMS").write_text(released.sums(folder), encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder)
        raise
    print(f"{folder.relative_to(root)}: {len(list(folder.rglob('*')))} files")
    return []


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    try:
        found = main(*sys.argv[1:])
    except facts.Skipped as reason:
        found = [str(reason)]
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
