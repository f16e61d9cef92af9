#!/usr/bin/env python3
"""cargo packages rl-sys and rl, each of which builds from what is packed, with nothing but a
directory as its registry; a program that depends on them by version finds an installed librl by
pkg-config and runs.

usage: package.py CARGO BUILD_DIRECTORY OUT_DIRECTORY
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

PROGRAM = """fn main() -> rl::Result<()> {
    let mut options = rl::Options::new()?;
    options.set("engine.block_size", "64")?;
    assert_eq!(options.get_u64("engine.block_size")?, 64);
    println!("librl {}", rl::version());
    Ok(())
}
"""
CONFIG = """[source.crates-io]
replace-with = "local"
[source.local]
directory = "{registry}"
[net]
offline = true
"""


class Packages:
    def __init__(self, cargo, build, out):
        self.cargo, self.out = cargo, out
        run(["cmake", "--install", build, "--prefix", out / "prefix"])
        self.pkgconfig = next((out / "prefix").rglob("rl.pc")).parent
        self.rust = out / "rust"  # outside of any repository, whose state cargo would look at
        shutil.copytree(next((out / "prefix").rglob("bindings/rust/Cargo.toml")).parent, self.rust)
        self.registry = out / "registry"
        for directory in (self.registry, out / "home", out / "host/src"):
            directory.mkdir(parents=True)
        (out / "home/config.toml").write_text(CONFIG.format(registry=self.registry))
        self.env = {name: value for name, value in os.environ.items()
                    if name not in ("RL_LIB_DIR", "CARGO_TARGET_DIR", "LD_LIBRARY_PATH")}
        self.env.update(CARGO_HOME=str(out / "home"), PKG_CONFIG_PATH=str(self.pkgconfig))

    def run(self, *arguments):
        return run([self.cargo, *arguments, "--offline", "--target-dir", self.out / "target"],
                   env=self.env)

    def add(self, name):
        """Packages a crate, which builds it from the package, and adds that to the registry."""
        self.run("package", "--package", name, "--manifest-path", self.rust / "Cargo.toml")
        packed, = (self.out / "target/package").glob(f"{name}-[0-9]*.crate")
        with tarfile.open(packed) as tar:
            checked = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(self.registry, **checked)
        folder = self.registry / packed.stem
        files = {str(path.relative_to(folder)): digest(path)
                 for path in folder.rglob("*") if path.is_file()}
        (folder / ".cargo-checksum.json").write_text(
            json.dumps({"files": files, "package": digest(packed)}))
        return files

    def host(self):
        """What a program prints that depends on rl by its version."""
        manifest = (self.rust / "rl/Cargo.toml").read_text()
        version = re.search(r'^version = "(.*)"$', manifest, re.M).group(1)
        (self.out / "host/Cargo.toml").write_text(
            '[workspace]\n[package]\nname = "host"\nversion = "1.0.0"\nedition = "2021"\n'
            f'[dependencies]\nrl = "{version}"\n')
        (self.out / "host/src/main.rs").write_text(PROGRAM)
        self.run("build", "--manifest-path", self.out / "host/Cargo.toml")
        env = {**self.env, "LD_LIBRARY_PATH": str(self.pkgconfig.parent)}
        return run([self.out / "target/debug/host"], env=env), version


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def main(cargo, build, out):
    out = pathlib.Path(out).resolve()
    shutil.rmtree(out, ignore_errors=True)
    packages = Packages(cargo, build, out)
    for name in ("rl-sys", "rl"):
        files = packages.add(name)
        if not {"build.rs", "src/lib.rs"} <= set(files):
            sys.exit(f"{name} is packed without its build script: {sorted(files)}")
    said, version = packages.host()
    if said.strip() != f"librl {version}":
        sys.exit(f"the program says {said!r}, and the packages are {version}")
    print(f"{said.strip()} by {packages.pkgconfig}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
