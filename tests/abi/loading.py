#!/usr/bin/env python3
"""Programs and libraries of versions that do not serve one another refuse to work together, as
abi/POLICY.md says: at load where they were linked, with both versions named where a program opened
the library itself. Frozen versions are here as libraries of empty functions, made from their
headers, and as their programs.

usage: loading.py LIBRARY        librl.so and every frozen version; 77: a build with a sanitizer
       loading.py --self-test    libraries that accept what they should refuse are found
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import baseline
import header
import versions

MISSING = "{}: cannot open shared object file"
OPENER = """#include <dlfcn.h>
#include <stdio.h>
#include "rl.h"

/* Opens a library by file and offers it this header. */
int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  rl_status (*create)(uint32_t, const rl_options*, rl_runtime**, rl_error**);
  const char* (*text)(const rl_error*, int32_t, size_t*);
  rl_runtime* runtime = NULL;
  rl_error* err = NULL;
  rl_status status;
  if (!library) return puts(dlerror()) < 0 ? 3 : 2;
  *(void**)&create = dlsym(library, "rl_runtime_create");
  *(void**)&text = dlsym(library, "rl_error_text");
  status = create(RL_ABI_VERSION, NULL, &runtime, &err);
  printf("status %d, %s\\n", (int)status, err ? text(err, RL_ERROR_MESSAGE, NULL) : "accepted");
  return status == RL_INCOMPATIBLE && !runtime ? 0 : 1;
}
"""


class Place:
    """A directory for libraries and programs."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)

    def folder(self, name):
        path = self.directory / name
        path.mkdir()
        return path

    def cc(self, *command):
        subprocess.run(["cc", "-std=c99", *map(str, command)], check=True, cwd=self.directory)

    def stub(self, name, text, script, soname, bodies=None):
        """A library of empty functions in a folder of its own."""
        folder = self.folder(name)
        (folder / "rl.h").write_text(baseline.concrete(text))
        (folder / "stub.c").write_text(baseline.stub_text(text, bodies))
        (folder / "librl.map").write_text(script)
        self.cc("-fPIC", "-shared", f"-I{folder}", f"-Wl,--version-script={folder}/librl.map",
                f"-Wl,-soname,{soname}", "-o", folder / soname, folder / "stub.c")
        return folder / soname

    def program(self, name, source, include, library):
        self.cc("-D_GNU_SOURCE", f"-I{include}", source, "-o", self.directory / name,
                *([library] if library else ["-ldl"]), "-Wl,--allow-shlib-undefined")
        return self.directory / name

    def under(self, name, library, soname):
        """A folder that has a library under a name, and nothing else."""
        folder = self.folder(name)
        (folder / soname).symlink_to(library)
        return folder


def refused(program, folder, text):
    """Problems unless the program does not start with the libraries of a folder, and says why."""
    done = subprocess.run([program], env={"LD_LIBRARY_PATH": str(folder)}, capture_output=True,
                          text=True)
    said = done.stderr.strip()
    if done.returncode in (1, 127) and text in said:
        print(f"{program.name} in {folder.name}: {said.split(': ', 1)[-1]}")
        return []
    return [f"{program.name} in {folder.name} is not refused with {text!r}: exit status "
            f"{done.returncode}, {said}"]


def own_soname(library):
    said = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                          text=True).stdout
    return re.search(r"Library soname: \[(.*)\]", said).group(1)


def old_library(place, release, name):
    return place.stub(name, release.text("rl.h"), versions.script(release.symbols), release.soname)


def apart(place, library, release):
    """This library does not serve the programs of a frozen version, nor that one its own."""
    old, new = versions.shown(release.version), versions.shown(versions.present(header.ROOT))
    soname = own_soname(library)
    stub = old_library(place, release, f"library_{old}")
    host = place.program(f"program_{old}", release.folder / "host.c", release.folder, stub)
    own = place.program(f"program_{new}_for_{old}", place.source, header.ROOT / "include", library)
    problems = refused(host, place.under(f"only_{new}_for_{old}", library, soname),
                       MISSING.format(release.soname))
    problems += refused(host, place.under(f"{new}_as_{old}", library, release.soname),
                        f"version `{versions.node(release.version)}' not found")
    problems += refused(own, stub.parent, MISSING.format(versions.soname(header.ROOT)))
    problems += refused(own, place.under(f"{old}_as_{new}", stub, versions.soname(header.ROOT)),
                        f"version `{versions.node(versions.present(header.ROOT))}' not found")
    opener = place.program(f"opener_{old}", place.opener, release.folder, None)
    done = subprocess.run([opener, library], capture_output=True, text=True)
    print(f"{opener.name}: {done.stdout.strip()}")
    if done.returncode != 0 or not all(re.search(rf"\b{re.escape(v)}\b", done.stdout)
                                       for v in (old, new)):
        problems.append(f"{opener.name} is not refused with {old} and {new}: exit status "
                        f"{done.returncode}, {done.stdout}{done.stderr}")
    return problems


def later(place, library, release):
    """A program of this version that uses what it added does not start with an older library."""
    old, node = versions.shown(release.version), versions.node(versions.present(header.ROOT))
    if node not in header.nodes().values():
        return []
    stub = old_library(place, release, f"library_{old}")
    header.references(place.directory / "references.c")
    own = place.program(f"program_for_{old}", place.directory / "references.c",
                        header.ROOT / "include", library)
    return refused(own, stub.parent, f"version `{node}' not found")


def check(library):
    library, problems = pathlib.Path(library).resolve(), []
    header.skip_if_sanitized(library)
    serves = [release.version for release in versions.series(header.ROOT)]
    with tempfile.TemporaryDirectory() as directory:
        place = Place(directory)
        place.opener, place.source = place.directory / "opener.c", place.directory / "version.c"
        place.opener.write_text(OPENER)
        place.source.write_text('#include "rl.h"\nint main(void) { return rl_abi_version() == 0; }')
        for release in versions.released(header.ROOT):
            if release.version not in serves:
                problems += apart(place, library, release)
            elif release.version != versions.present(header.ROOT):
                problems += later(place, library, release)
    return problems


def bodies_of(apart_from):
    """What librl.so does, for a library of empty functions: it refuses a header of another version,
    which the pointer to the error carries to its text."""
    mine = versions.shown(versions.present(header.ROOT))
    texts = "".join(f"if ((char*)error - (char*)0 == {v[0] << 16 | v[1]}) "
                    f'return "compiled for {versions.shown(v)}, the library offers {mine}"; '
                    for v in apart_from)
    return {"rl_runtime_create": "*out = 0; if (header_abi == RL_ABI_VERSION) return 0; "
                                 "*err = (rl_error*)((char*)0 + header_abi); "
                                 "return RL_INCOMPATIBLE;",
            "rl_error_text": texts + 'return "";'}


def self_test():
    """Stubs of this version: one as it should be, and one for each refusal that may be missing."""
    text, script = header.header_text(), header.read("abi/librl.map")
    soname = versions.soname(header.ROOT)
    apart_from = [r for r in versions.released(header.ROOT) if r.soname != soname]
    if not apart_from:
        print("no frozen version has another soname")
        return []
    old = apart_from[-1]
    bodies = bodies_of([release.version for release in apart_from])
    no_names = {**bodies, "rl_error_text": 'return "another version";'}
    node, old_node = versions.node(versions.present(header.ROOT)), versions.node(old.version)
    cases = {"right": (script, soname, bodies, None),
             "old_soname": (script, old.soname, bodies, f"only_{node[3:]}_for_{old_node[3:]}"),
             "old_node": (script.replace(node, old_node), soname, bodies,
                          f"{node[3:]}_as_{old_node[3:]}"),
             "accepts": (script, soname, {}, f"opener_{old_node[3:]}"),
             "names_nothing": (script, soname, no_names, f"opener_{old_node[3:]}")}
    problems = []
    for name, (script, soname, bodies, wanted) in cases.items():
        with tempfile.TemporaryDirectory() as directory:
            found = check(Place(directory).stub(name, text, script, soname, bodies))
        if not wanted:
            problems += found
        elif not any(wanted in problem for problem in found):
            problems.append(f"a library with {name} passes: {found}")
    print(f"{len(cases)} libraries, {len(problems)} problems")
    return problems


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if shutil.which("cc") is None:
        print("skipped: there is no cc")
        sys.exit(header.SKIPPED)
    found = self_test() if sys.argv[1] == "--self-test" else check(sys.argv[1])
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
