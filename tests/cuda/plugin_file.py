#!/usr/bin/env python3
"""librl_cuda.so as nvcc built it: it needs no library of a toolkit or driver, exports one function,
has code for every architecture, and names no folder of the machine that built it.

usage: plugin_file.py PLUGIN SOURCE_DIRECTORY ARCHITECTURE...
"""
import pathlib
import re
import subprocess
import sys

MAY_NEED = {"libstdc++", "libgcc_s", "libc", "libm", "ld-linux-x86-64", "libdl", "librt",
            "libpthread"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(plugin, source, *architectures):
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\.so", output("readelf", "-d", plugin)))
    exported = [line.split()[-1] for line in
                output("nm", "-D", "--defined-only", plugin).splitlines()]
    content = pathlib.Path(plugin).read_bytes()
    problems = [f"it needs {name}" for name in sorted(needed - MAY_NEED)]
    if exported != ["rl_cuda_plugin"]:
        problems.append(f"it exports {exported}")
    problems += [f"it has no code for sm_{a}" for a in architectures
                 if f"-arch sm_{a} ".encode() not in content]
    if source.encode() in content:
        problems.append(f"it names {source}")
    print("\n".join(problems) or f"{len(content)} bytes")
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
