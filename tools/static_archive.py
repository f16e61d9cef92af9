#!/usr/bin/env python3
"""Makes librl.a: all of librl as one object, of which only the functions of rl.h can be linked to. A version script
means nothing to an archive, so the other names are made local here: a host may have its own copies of what librl is
made of, other versions too, and neither sees the other's.

usage: static_archive.py COMPILER OBJCOPY AR OUT FILE...    FILE: objects, which are roots, and archives
"""
import pathlib
import struct
import subprocess
import sys

UNIQUE, GLOBAL, SYMTAB = 10, 1, 2  # STB_GNU_UNIQUE, STB_GLOBAL, SHT_SYMTAB


def plain_bindings(path):
    """Makes symbols that are unique in a process plain global ones, which alone objcopy can make local. GCC gives that
    binding to inline variables and to static ones of inline functions."""
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
    # Without groups: a local symbol of a group that the host's linker drops for the host's own would be lost.
    run(compiler, "-r", "-nostdlib", "-Wl,--force-group-allocation", "-o", whole,
        *(f for f in files if f.endswith(".o")), "-Wl,--start-group", *(f for f in files if f.endswith(".a")),
        "-Wl,--end-group")
    plain_bindings(whole)
    run(objcopy, "--wildcard", "--keep-global-symbol=rl_*", whole)
    out.unlink(missing_ok=True)
    run(ar, "qcsD", out, whole)
    whole.unlink()


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
