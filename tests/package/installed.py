#!/usr/bin/env python3
"""What cmake --install makes: the files of each component, rl.pc, the archive's symbols, and the
release's tarball.

usage: installed.py components|pkgconfig|accepted|archive|tarball
                    BUILD_DIRECTORY SOURCE_DIRECTORY OUT_DIRECTORY
"""
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "abi"))

import versions  # noqa: E402

COMPONENTS = {
    "runtime": {"SONAME", "librl.so.VERSION"},
    "development": {"librl.so", "librl.a", "rl.h", "rl.pc", "rlConfig.cmake",
                    "rlConfigVersion.cmake", "buffer.fbs", "options.fbs", "samples.fbs"},
    "documentation": {"LICENSE", "NOTICE", "CHANGELOG.md", "4_grpo.c", "Makefile", "4_grpo.py",
                      "3_train_step.py", "_raw.py", "py.typed", "rl.go", "bindings.rs"},
}


class Package:
    def __init__(self, build, source, out):
        self.build, self.source, self.out = (pathlib.Path(p).resolve()
                                             for p in (build, source, out))
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        cache = (self.build / "CMakeCache.txt").read_text()
        self.version = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.+)$", cache, re.M).group(1)
        self.soname = versions.soname(self.source)

    def install(self, name, *more):
        prefix = self.out / name
        run("cmake", "--install", self.build, "--prefix", prefix, *more)
        return prefix


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          text=True, **more).stdout


def expect(condition, text):
    if not condition:
        sys.exit(text)


def files(prefix):
    return {p.relative_to(prefix) for p in prefix.rglob("*") if not p.is_dir()}


def components_of(package):
    """A plugin is a component where the build has it."""
    out = dict(COMPONENTS)
    for name in ("cuda", "gloo"):
        plugin = f"librl_{name}.so." + package.soname.rsplit(".", 1)[1]
        if (package.build / name / plugin).exists():
            out[name] = {plugin, f"librl_{name}.so.VERSION"}
    return out


def components(package):
    whole, parts = files(package.install("whole")), set()
    for name, wanted in components_of(package).items():
        wanted = {file.replace("VERSION", package.version).replace("SONAME", package.soname)
                  for file in wanted}
        found = files(package.install(name, "--component", name))
        missing = wanted - {path.name for path in found}
        expect(not missing, f"component {name} lacks {sorted(missing)}")
        expect(not parts & found, f"{sorted(parts & found)} is in two components")
        parts |= found
    expect(parts == whole, f"{sorted(parts ^ whole)} belongs to no component")
    expect(len(files(package.out / "runtime")) == 2,
           "component runtime has more than the library and its soname")
    expect(not any({"target", "__pycache__"} & set(p.parts) or p.suffix in (".o", ".pyc")
                   for p in whole),
           "something that was built is installed as a source")
    for path in files(package.out / "whole"):
        image = (package.out / "whole" / path).read_bytes()
        places = (package.source, package.build, package.out)
        expect(not any(str(place).encode() in image for place in places),
               f"{path} names a directory of this machine")
    library = next((package.out / "whole").rglob(package.soname))
    expect("PATH)" not in run("readelf", "-d", library),
           f"{library} says where libraries are searched")


def pkgconfig(package):
    """Only what cgo takes: -I, -L and -l; and the prefix is where the file is."""
    prefix = package.install("first").rename(package.out / "second")
    directory = next(prefix.rglob("rl.pc")).parent
    env = {"PKG_CONFIG_LIBDIR": str(directory), "PATH": "/usr/bin:/bin"}
    flags = run("pkg-config", "--cflags", "--libs", "--static", "rl", env=env).split()
    expect(flags and all(re.match(r"-[ILl]\S+$", flag) for flag in flags), f"flags {flags}")
    places = [pathlib.Path(flag[2:]).resolve() for flag in flags if flag[:2] in ("-I", "-L")]
    expect((prefix / "include").resolve() in places
           and all(prefix in place.parents for place in places), f"{places} are not in {prefix}")
    schemas = run("pkg-config", "--variable=schemadir", "rl", env=env).strip()
    expect((pathlib.Path(schemas) / "options.fbs").is_file(), f"no options.fbs in {schemas}")
    numbers = dict(re.findall(r"#define RL_ABI_(M\w+) (\d+)$",
                              (package.source / "include/rl.h").read_text(), re.M))
    said = run("pkg-config", "--variable=abi_version", "rl", env=env).strip()
    expect(said == f"{numbers['MAJOR']}.{numbers['MINOR']}",
           f"rl.pc says interface {said}, rl.h {numbers}")
    # What librl.so needs, a program with librl.a needs too, but what every compiler links.
    needed = re.findall(r"\(NEEDED\).*\[lib(.*?)\.so",
                        run("readelf", "-d", next(prefix.rglob("librl.so"))))
    lacking = {name for name in needed if f"-l{name}" not in flags} - {"c", "gcc_s"}
    expect("dnnl" in needed and not lacking,
           f"{sorted(lacking)} is not among the private libraries of rl.pc")


def accepted(package):
    """find_package takes this interface alone: before 1.0 that of the minor version, then that of
    the major version from the one asked for on."""
    file = next(package.install("prefix").rglob("rlConfigVersion.cmake"))
    major, minor = versions.present(package.source)
    asked = {f"{major}.{minor}": True, f"{major}.{minor + 1}": False, f"{major + 1}.0": False}
    if minor > 0:
        asked[f"{major}.{minor - 1}"] = major > 0
    for version, good in asked.items():
        script = package.out / "ask.cmake"
        first, second = version.split(".")
        script.write_text(f"""set(PACKAGE_FIND_VERSION {version})
set(PACKAGE_FIND_VERSION_MAJOR {first})
set(PACKAGE_FIND_VERSION_MINOR {second})
set(CMAKE_SIZEOF_VOID_P 8)
include({file})
if(PACKAGE_VERSION_COMPATIBLE)
  file(WRITE {package.out}/taken yes)
endif()
""", encoding="utf-8")
        (package.out / "taken").unlink(missing_ok=True)
        run("cmake", "-P", script)
        expect((package.out / "taken").exists() == good,
               f"find_package(rl {version}) {'fails' if good else 'succeeds'} with {major}.{minor}")


def archive(package):
    """Every function of rl.h can be linked to, and nothing else."""
    listing = run("nm", "--extern-only", "--defined-only",
                  next(package.install("prefix").rglob("librl.a")))
    found = {line.split()[-1] for line in listing.splitlines() if len(line.split()) == 3}
    wanted = {line.split("@")[0]
              for line in (package.source / "abi/symbols.txt").read_text().split()}
    expect(found == wanted, f"librl.a and abi/symbols.txt differ in {sorted(found ^ wanted)[:10]}")


def tarball(package):
    tool = package.source / "tools/release_tarball.py"
    paths = []
    for name, mask in (("one", 0o022), ("two", 0o077)):
        out = run(sys.executable, tool, package.build, package.out / name, 1700000000, umask=mask)
        paths.append(pathlib.Path(out.strip()))
    first, second = (path.read_bytes() for path in paths)
    expect(first == second, "two tarballs of one build differ")
    digest, name = pathlib.Path(str(paths[0]) + ".sha256").read_text().split()
    expect((digest, name) == (hashlib.sha256(first).hexdigest(), paths[0].name),
           "the digest is not of the tarball")
    with tarfile.open(paths[0]) as tar:
        entries = tar.getmembers()
        checked = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(package.out / "unpacked", **checked)
    expect([e.name.split("/") for e in entries] == sorted(e.name.split("/") for e in entries),
           "entries are not sorted")
    expect({(e.uid, e.gid, e.mtime) for e in entries} == {(0, 0, 1700000000)},
           "an entry has an owner or a time")
    expect({e.mode for e in entries} == {0o755, 0o644},
           "an entry has another mode than 755 and 644")
    tree, = (package.out / "unpacked").iterdir()
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=tree)
    listed = {line.split("  ")[1] for line in (tree / "SHA256SUMS").read_text().splitlines()}
    expect(listed | {"SHA256SUMS"} == {str(p) for p in files(tree) if not (tree / p).is_symlink()},
           "a file has no sum")


PARTS = ("components", "pkgconfig", "accepted", "archive", "tarball")

if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[1] not in PARTS:
        sys.exit(__doc__)
    globals()[sys.argv[1]](Package(*sys.argv[2:]))
