#!/usr/bin/env python3
"""Makes librl.a: all of librl as one object that exports only the functions of rl.h. Archives have
no version scripts, so all other symbols are made local here: a host may link its own copies of
librl's dependencies, even other versions, without conflicts.

usage: static_archive.py COMPILER OBJCOPY AR OUT FILE...    FILE: objects (roots) and archives
"""
import pathlib
import struct
import subprocess
import sys

UNIQUE, GLOBAL, SYMTAB = 10, 1, 2  # STB_GNU_UNIQUE, STB_GLOBAL, SHT_SYMTAB


def plain_bindings(path):
    """Turns STB_GNU_UNIQUE symbols into plain global ones, since objcopy can only make those local.
    GCC gives unique binding to inline variables and to static variables of inline functions."""
    image = bytearray(path.read_bytes())
    if image[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"{path} is no 64-bit little-endian ELF file")
    sections, = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    for header in range(sections, sections + size * count, size):
        kind, = struct.unpack_from("<I", image, header + 4)
        offset, length = struct.unpack_from("<QQ", image, header + 24)
        for symbol in range(offset, offset + length, 24) if kind == SYMTAB else ():
            if image[symbol + 4] >> 4 == UNIQUE:
                image[symbol + 4] = GLOBAL << 4 | image[symbol + 4] & 15
    path.write_bytes(image)


def main(compiler, objcopy, ar, out, *files):
    def run(*command):
        subprocess.run([str(word) for word in command], check=True)
    out = pathlib.Path(out)
    whole = out.with_suffix(".o")
    # Without section groups: the host's linker could drop a group, and a local symbol with it.
    run(compiler, "-r", "-nostdlib", "-Wl,--force-group-allocation", "-o", whole,
        *(f for f in files if f.endswith(".o")), "-Wl,--start-group",
        *(f for f in files if f.endswith(".a")), "-Wl,--end-group")
    plain_bindings(whole)
    run(objcopy, "--wildcard", "--keep-global-symbol=rl_*", whole)
    out.unlink(missing_ok=True)
    run(ar, "qcsD", out, whole)
    whole.unlink()


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
