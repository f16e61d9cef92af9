#!/usr/bin/env python3
"""Packs a build by the recipe of packaging/debian, looks at the packages, and links a program with
them unpacked.

usage: debian.py BUILD_DIRECTORY SOURCE_DIRECTORY OUT_DIRECTORY
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77
TOOLS = ["dpkg-buildpackage", "dpkg-deb", "dpkg-gensymbols", "pkg-config"]
FILES = {
    "librlN": ["librl.so.N", "doc/librlN/copyright", "doc/librlN/changelog.gz"],
    "librlN-cuda": ["librl_cuda.so.N", "doc/librlN-cuda/copyright"],
    "librlN-gloo": ["librl_gloo.so.N", "doc/librlN-gloo/copyright"],
    "librl-dev": ["include/rl.h", "librl.so", "librl.a", "pkgconfig/rl.pc",
                  "cmake/rl/rlConfig.cmake", "share/rl/schemas/options.fbs",
                  "doc/librl-dev/copyright", "doc/librl-dev/examples/c/4_grpo.c",
                  "doc/librl-dev/bindings/rust/rl/src/lib.rs"],
}


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        sys.exit(f"{words}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def expect(condition, text):
    if not condition:
        sys.exit(text)


def build(build_directory, source, out):
    """The packages by name, made twice: the same bytes."""
    images = []
    for _ in range(2):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(source / "packaging/debian", out / "rl/debian")
        run("dpkg-buildpackage", "-b", "-us", "-uc", "-d", cwd=out / "rl",
            env={**os.environ, "RL_BUILD_DIR": str(build_directory), "DEB_BUILD_OPTIONS": "",
                 "DPKG_DEB_COMPRESSOR_TYPE": "none"})
        images.append({path.name.split("_")[0]: path.read_bytes() for path in out.glob("*.deb")})
    expect(images[0] == images[1], "two packings of one build differ")
    return {path.name.split("_")[0]: path for path in out.glob("*.deb")}


def check(packages, source, plugins):
    soversion = re.search(r"set\(RL_SOVERSION (\d+)\)",
                          (source / "CMakeLists.txt").read_text()).group(1)
    runtime = "librl" + soversion
    expect(set(packages) == {runtime, "librl-dev", *(f"{runtime}-{name}" for name in plugins)},
           f"the packages are {sorted(packages)}")
    for name, wanted in FILES.items():
        name = name.replace("librlN", runtime)
        if name not in packages:
            continue
        listing = run("dpkg-deb", "--contents", packages[name])
        wanted = [re.sub(r"(?<=librl)N|(?<=so\.)N", soversion, file) for file in wanted]
        lacking = [file for file in wanted
                   if not re.search(rf"/{re.escape(file)}( -> .*)?$", listing, re.M)]
        expect(not lacking, f"{name} lacks {lacking}:\n{listing}")
        expect(not re.search(r"^\S+ (?!root/root)", listing, re.M),
               f"{name} has files that are not root's")
    expect("rl.h" not in run("dpkg-deb", "--contents", packages[runtime]),
           "the runtime package has the header")

    def field(package, key):
        return run("dpkg-deb", "--field", packages[package], key).strip()
    version = re.search(r"project\(rl VERSION (\S+)",
                        (source / "CMakeLists.txt").read_text()).group(1)
    expect(field(runtime, "Version") == field("librl-dev", "Version") == version,
           "a package has another version")
    expect(field("librl-dev", "Depends") == f"{runtime} (= {version})",
           field("librl-dev", "Depends"))
    expect(re.search(r"libc6 .*libdnnl2 .*libstdc\+\+6", field(runtime, "Depends")),
           field(runtime, "Depends"))
    symbols = run("dpkg-deb", "--info", packages[runtime], "symbols")
    # One line for the soname, one for each function and one for the version node.
    functions = len((source / "abi/symbols.txt").read_text().split())
    expect(symbols.startswith(f"librl.so.{soversion} {runtime} ")
           and symbols.count("@RL_") == functions + 1, f"symbols of {runtime}: {symbols[:200]}")
    for name in plugins:
        needs = field(f"{runtime}-{name}", "Depends")
        expect(f"{runtime} (= {version})" in needs and not re.search("nvidia|cuda", needs), needs)
        expect(("libgloo0" in needs) == (name == "gloo"), needs)
    expect("libgloo" not in field(runtime, "Depends"), "the library itself needs gloo")
    expect("ldconfig" in run("dpkg-deb", "--info", packages[runtime], "triggers"),
           "no ldconfig after installation")


def use(packages, root):
    """A program built from the unpacked packages runs with their library."""
    for path in packages.values():
        run("dpkg-deb", "--extract", path, root)
    library = next(root.rglob("librl.so")).parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig"),
           "LD_LIBRARY_PATH": str(library)}
    flags = run("pkg-config", "--cflags", "--libs", "rl", env=env).split()
    source = next(root.rglob("1_hello.c"))
    run("cc", "-std=c99", source, "-o", root / "hello", *flags)
    expect("librl " in run(root / "hello", env=env), "1_hello did not speak")


def main(build_directory, source, out):
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed")
        return SKIPPED
    build_directory, source, out = (pathlib.Path(p).resolve()
                                    for p in (build_directory, source, out))
    packages = build(build_directory, source, out)
    check(packages, source, [name for name in ("cuda", "gloo")
                             if any(build_directory.glob(f"{name}/librl_{name}.so.*"))])
    use(packages, out / "root")
    print(", ".join(f"{path.name} {path.stat().st_size} bytes" for path in packages.values()))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
