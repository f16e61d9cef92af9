#!/usr/bin/env python3
"""Compares the schemas of documents with those of every frozen version,
abi/released/VERSION/schemas/NAME.bfbs: what an older library wrote stays readable, and what a newer
one writes can be read by an older. Documents outlive sonames, so this holds across them. flatc
--conform sees moved and retyped fields; the reader below sees what it lets pass: names, members of
enumerations, identifiers, and fields made required.

usage: schemas.py FLATC     the schemas only add to the frozen ones
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

import versions

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "abi/schemas"


class Table:
    """A table of a FlatBuffers document, with fields by number."""

    def __init__(self, data, place):
        self.data, self.place = data, place
        self.fields = place - struct.unpack_from("<i", data, place)[0]

    def at(self, number):
        """Where field `number` lies; None when it is absent."""
        size, = struct.unpack_from("<H", self.data, self.fields)
        if 4 + 2 * number >= size:
            return None
        offset, = struct.unpack_from("<H", self.data, self.fields + 4 + 2 * number)
        return self.place + offset if offset else None

    def number(self, number, form="<B"):
        place = self.at(number)
        return struct.unpack_from(form, self.data, place)[0] if place else 0

    def follow(self, place):
        return place + struct.unpack_from("<I", self.data, place)[0]

    def text(self, number):
        place = self.at(number)
        if place is None:
            return ""
        place = self.follow(place)
        size, = struct.unpack_from("<I", self.data, place)
        return self.data[place + 4:place + 4 + size].decode()

    def table(self, number):
        place = self.at(number)
        return Table(self.data, self.follow(place)) if place else None

    def tables(self, number):
        place = self.at(number)
        if place is None:
            return []
        place = self.follow(place)
        count, = struct.unpack_from("<I", self.data, place)
        return [Table(self.data, self.follow(place + 4 + 4 * i)) for i in range(count)]


def facts_of(path):
    """What a compiled schema promises, as names and values. Field numbers are those of FlatBuffers'
    reflection.fbs."""
    data = path.read_bytes()
    if data[4:8] != b"BFBS":
        sys.exit(f"{path} is no compiled schema")
    schema, facts = Table(data, struct.unpack_from("<I", data)[0]), {}
    facts["file identifier"] = schema.text(2)
    facts["root type"] = schema.table(4).text(0)
    for table in schema.tables(0):
        name = table.text(0)
        facts[f"{name} is a struct"] = table.number(2)
        for field in table.tables(1):
            kind, key = field.table(1), f"{name}.{field.text(0)}"
            facts[key] = (kind.number(0), kind.number(1), field.number(2, "<H"),
                          field.number(4, "<q"), field.number(5, "<d"))
            facts[f"{key} is required"] = field.number(7)
    for enumeration in schema.tables(1):
        for value in enumeration.tables(1):
            facts[f"{enumeration.text(0)}.{value.text(0)}"] = value.number(1, "<q")
    return facts


def problems_of(flatc, old, schema, compiled):
    """What a schema does not keep of a frozen one."""
    done = subprocess.run([flatc, "--conform", old, schema], capture_output=True, text=True)
    found = [done.stdout + done.stderr] if done.returncode else []
    before, now = facts_of(old), facts_of(compiled)
    found += [f"{schema.name}: {fact} was {value} and is {now.get(fact, 'gone')}"
              for fact, value in before.items() if now.get(fact) != value]
    # A new table may require what it likes.
    found += [f"{schema.name}: {fact}, which older documents lack" for fact, value in now.items()
              if fact.endswith(" is required") and value and fact not in before and
              f"{fact.rsplit('.', 1)[0]} is a struct" in before]
    return found


def compile_all(flatc, schemas, directory):
    """NAME.bfbs of each schema."""
    subprocess.run([flatc, "--binary", "--schema", "-o", directory, *schemas], check=True)
    return {s.stem: pathlib.Path(directory) / (s.stem + ".bfbs") for s in schemas}


def main(flatc, root=ROOT):
    schemas, found, count = sorted((root / "abi/schemas").glob("*.fbs")), [], 0
    with tempfile.TemporaryDirectory() as directory:
        compiled = compile_all(flatc, schemas, directory)
        for release in versions.released(root):
            for old in sorted((release.folder / "schemas").glob("*.bfbs")):
                schema = root / "abi/schemas" / (old.stem + ".fbs")
                count += 1
                found += [f"{versions.shown(release.version)}: {problem}" for problem in
                          (problems_of(flatc, old, schema, compiled[old.stem])
                           if old.stem in compiled else [f"{old.name} has no schema any more"])]
    print(f"{len(schemas)} schemas, {count} frozen ones, {len(found)} problems")
    return found if schemas else ["there are no schemas"]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems = main(sys.argv[1])
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)
