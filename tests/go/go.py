#!/usr/bin/env python3
"""Builds, checks and tests bindings/go and examples/go against an installed librl, without a
network.

usage: go.py build|check|test|race|gpu PKGCONFIG DIRECTORY

PKGCONFIG is the directory of the installed rl.pc; everything that go writes is in DIRECTORY. build
makes the programs in DIRECTORY/bin, check is go vet and gofmt, test runs the tests of the package,
race runs them with Go's race detector, gpu runs those of a GPU, which LD_LIBRARY_PATH has to offer.
"""
import hashlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE, PROGRAMS = ROOT / "bindings/go", ROOT / "examples/go"


def output(*command, env=None):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env=env).stdout.strip()


def environment(pkgconfig, directory):
    """go's caches know the sources of a program and its flags, but not what a header outside holds:
    a flag tells."""
    settings = dict(os.environ, PKG_CONFIG_PATH=pkgconfig, GOCACHE=f"{directory}/cache",
                    GOPATH=f"{directory}/path", GOENV="off", GOFLAGS="-mod=mod", GOPROXY="off",
                    GOTOOLCHAIN="local")
    include, lib = (output("pkg-config", f"--variable={name}", "rl", env=settings)
                    for name in ("includedir", "libdir"))
    digest = hashlib.sha256(pathlib.Path(include, "rl.h").read_bytes()).hexdigest()
    settings["CGO_CPPFLAGS"] = f"-DRL_HEADER_IS_{digest[:16]}"
    settings["CGO_LDFLAGS"] = f"-Wl,-rpath,{os.path.realpath(lib)}"
    version = re.search(r"go1\.(\d+)", output("go", "version"))
    if version and int(version.group(1)) <= 20:  # later ones have this as a build experiment only
        settings["GODEBUG"] = "cgocheck=2"
    return settings


def main(kind, pkgconfig, directory):
    command, modules = {
        "build": (["go", "build", "-o", f"{directory}/bin/", "./cmd/..."], [PROGRAMS]),
        "check": (["go", "vet", "-tags=gpu", "./..."], [PACKAGE, PROGRAMS]),
        "test": (["go", "test", "-count=1", "-timeout=120s", "./..."], [PACKAGE]),
        "race": (["go", "test", "-race", "-count=1", "-timeout=500s", "./..."], [PACKAGE]),
        "gpu": (["go", "test", "-tags=gpu", "-run=Device", "-count=1", "-timeout=300s", "./..."],
                [PACKAGE])}[kind]
    os.environ.update(environment(pkgconfig, directory))
    failed = any([subprocess.run(command, cwd=module, check=False).returncode
                  for module in modules])
    unformatted = output("gofmt", "-l", *map(str, modules)) if kind == "check" else ""
    if unformatted:
        print(f"gofmt would change {unformatted}", file=sys.stderr)
    return 1 if unformatted or failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("build", "check", "test", "race",
                                                     "gpu"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
