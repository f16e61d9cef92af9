#!/usr/bin/env python3
"""The structs and the version of bindings/python/rl.py are those of rl.h: a C program with an
assertion for every field and its size is compiled. The dynamic linker must find librl, which rl.py
loads.

usage: check_python.py COMPILER SOURCE_DIRECTORY
"""
import pathlib
import subprocess
import sys


def assertions(struct):
    for name, *_ in struct._fields_:
        field, where = getattr(struct, name), f"{struct.c_name}.{name}"
        offset = f"offsetof({struct.c_name}, {name})"
        size = f"sizeof((({struct.c_name}*)0)->{name})"
        yield f'_Static_assert({offset} == {field.offset}, "offset of {where}");'
        yield f'_Static_assert({size} == {field.size}, "size of {where}");'


def main(compiler, source):
    sys.path.insert(0, str(pathlib.Path(source) / "bindings/python"))
    import rl
    structs = rl.Struct.__subclasses__()
    lines = ["#include <stddef.h>", '#include "rl.h"',
             f'_Static_assert(RL_ABI_VERSION == {rl.HEADER_ABI}, "RL_ABI_VERSION");',
             *(line for struct in structs for line in assertions(struct))]
    command = [compiler, "-std=c11", "-fsyntax-only", "-I", f"{source}/include", "-x", "c", "-"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", text=True)
    print(f"{len(structs)} structs, {len(lines) - 2} assertions")
    return done.returncode or not structs


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
