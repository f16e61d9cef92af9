#!/usr/bin/env python3
"""Packs a build as rl-VERSION-SYSTEM-MACHINE.tar.gz and writes its SHA-256 next to it. The same
build and time give the same bytes: entries are sorted, owners and times are fixed, modes are 644
and 755. SHA256SUMS inside lists every file.

usage: release_tarball.py BUILD_DIRECTORY OUT_DIRECTORY EPOCH_SECONDS
"""
import gzip
import hashlib
import io
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import tempfile


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def version_of(build):
    return re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$", (build / "CMakeCache.txt").read_text(),
                     re.M).group(1)


def install(build, tree):
    """Installs the files without debug information."""
    run("cmake", "--install", build, "--prefix", tree, "--strip")
    for archive in tree.rglob("*.a"):
        run("strip", "--strip-unneeded", "--enable-deterministic-archives", archive)


def add_checksums(tree):
    files = sorted(p for p in tree.rglob("*") if p.is_file() and not p.is_symlink())
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(tree)}\n"
             for p in files]
    (tree / "SHA256SUMS").write_text("".join(lines))


def add(tar, path, name, epoch):
    entry = tar.gettarinfo(path, name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = epoch
    opens = path.is_dir() or path.is_symlink() or path.stat().st_mode & 0o100
    entry.mode = 0o755 if opens else 0o644
    tar.addfile(entry, io.BytesIO(path.read_bytes()) if entry.isreg() else None)


def main(build, out, epoch):
    build, out = pathlib.Path(build), pathlib.Path(out)
    name = f"rl-{version_of(build)}-{platform.system().lower()}-{platform.machine()}"
    out.mkdir(parents=True, exist_ok=True)
    target = out / (name + ".tar.gz")
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch).resolve() / name
        install(build.resolve(), tree)
        add_checksums(tree)
        # No name and no time in gzip's header.
        with open(target, "wb") as file, gzip.GzipFile("", "wb", 6, file, 0) as packed, \
                tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for path in [tree, *sorted(tree.rglob("*"))]:
                add(tar, path, path.relative_to(tree.parent).as_posix(), int(epoch))
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    (out / (target.name + ".sha256")).write_text(f"{digest}  {target.name}\n")
    print(target)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
