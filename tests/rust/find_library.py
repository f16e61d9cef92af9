#!/usr/bin/env python3
"""The build script of rl-sys takes librl from RL_LIB_DIR or from pkg-config, and says what to do
when it cannot.

usage: find_library.py CARGO RUST_DIRECTORY LIBRARY_DIRECTORY RL_PC DIRECTORY
"""
import copy
import os
import pathlib
import re
import shutil
import subprocess
import sys

ADVICE = "set PKG_CONFIG_PATH to PREFIX/lib/pkgconfig of an installed librl, or RL_LIB_DIR"


class Builds:
    def __init__(self, cargo, rust, directory):
        self.command = [cargo, "build", "--offline", "--locked", "-p", "rl-sys", "--manifest-path",
                        f"{rust}/Cargo.toml", "--target-dir", f"{directory}/target"]

    def with_feature(self, name):
        other = copy.copy(self)
        other.command = [*self.command, "--features", name]
        return other

    def run(self, **settings):
        names = ("RL_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR")
        env = {k: v for k, v in os.environ.items() if k not in names}
        return subprocess.run(self.command, env={**env, **settings}, capture_output=True, text=True,
                              timeout=300)

    def succeeds(self, **settings):
        done = self.run(**settings)
        expect(done.returncode == 0, f"{settings}: {done.stderr}")

    def fails(self, *texts, **settings):
        done = self.run(**settings)
        expect(done.returncode != 0, f"{settings} is accepted")
        for text in texts:
            expect(text in done.stderr, f"{settings}: {text!r} is not in {done.stderr!r}")


def expect(condition, text):
    if not condition:
        sys.exit(text)


def describe(rl_pc, library, directory, version):
    """A directory for PKG_CONFIG_PATH with a description of the library as of this version."""
    text = pathlib.Path(rl_pc).read_text(encoding="utf-8")
    text = re.sub(r"^Version:.*$", f"Version: {version}", text, flags=re.M)
    text = re.sub(r"^libdir=.*$", f"libdir={library}", text, flags=re.M)
    expect(f"Version: {version}\n" in text and f"libdir={library}\n" in text,
           f"{rl_pc} is not as expected")
    directory.mkdir(parents=True)
    (directory / "rl.pc").write_text(text, encoding="utf-8")
    return str(directory)


def versions_of(rust):
    """What rl-sys asks for, and versions with whether it takes them: those of its own interface,
    which before 1.0 ends with the minor version (abi/POLICY.md)."""
    text = (pathlib.Path(rust) / "rl-sys/Cargo.toml").read_text(encoding="utf-8")
    major, minor = map(int, re.search(r'^version = "(\d+)\.(\d+)\.', text, re.M).groups())
    below = f"0.{minor + 1}" if major == 0 else str(major + 1)
    return f"rl >= {major}.{minor} rl < {below}", [
        (f"{major}.{minor}.0", True), (f"{major}.{minor}.7", True),
        (f"{major}.{minor + 1}.0", major > 0), (f"{major}.{minor - 1}.9", False),
        (f"{major + 1}.0.0", False)]


def main(cargo, rust, library, rl_pc, directory):
    directory = pathlib.Path(directory)
    shutil.rmtree(directory, ignore_errors=True)
    empty = directory / "empty"
    empty.mkdir(parents=True)
    builds = Builds(cargo, rust, directory)
    builds.succeeds(RL_LIB_DIR=library)
    builds.fails(f"RL_LIB_DIR is \"{empty}\", which has no librl.so", RL_LIB_DIR=str(empty))
    wanted, versions = versions_of(rust)
    for version, good in versions:
        named = directory / f"named_{version}"
        named.mkdir()
        (named / f"librl.so.{version}").touch()
        (named / "librl.so").symlink_to(f"librl.so.{version}")
        if good:
            builds.succeeds(RL_LIB_DIR=str(named))
        else:
            builds.fails(f"which has librl {version}; this package needs {wanted}",
                         RL_LIB_DIR=str(named))
    builds.fails("no-pkg-config cannot be run", ADVICE, PKG_CONFIG="no-pkg-config")
    if shutil.which("pkg-config") is None:
        print("there is no pkg-config: what follows from its answers is not tried")
        return
    builds.fails(f"has no \"{wanted}\"", ADVICE, PKG_CONFIG_LIBDIR=str(empty),
                 PKG_CONFIG_PATH=str(empty))
    for version, good in versions:
        path = describe(rl_pc, library, directory / version, version)
        if good:
            builds.succeeds(PKG_CONFIG_PATH=path)
        else:
            builds.fails(f"has no \"{wanted}\"", ADVICE, PKG_CONFIG_PATH=path)
    static = builds.with_feature("static")
    static.succeeds(PKG_CONFIG_PATH=describe(rl_pc, library, directory / "archive", versions[0][0]))
    static.fails("no directory of pkg-config has librl.a",
                 PKG_CONFIG_PATH=describe(rl_pc, empty, directory / "no_archive",
                                          versions[0][0]))
    static.fails("feature static needs pkg-config", "unset it", RL_LIB_DIR=library)


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
