#!/usr/bin/env python3
"""Writes the generated modules of the Python package from include/rl.h.

usage: gen_python.py [--check]

_raw.py has the layout of every struct, the types of every callback and the prototype of every
function; constants.py an enumeration for every enum and every group of flags of rl.h; records.py a
data class for every struct that librl fills in. A type, constant or struct that no rule below
covers is an error. --check writes nothing and fails if a file is out of date.
"""
import functools
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/abi"), str(ROOT / "tools")]
sys.dont_write_bytecode = True
import gen_go_constants as go  # noqa: E402  (the groups of constants and their names)
import gen_rust  # noqa: E402  (callbacks)
import header  # noqa: E402  (the parser of rl.h)

PACKAGE = ROOT / "bindings/python/rl"
PLAIN = {"int8_t": "c_int8", "uint8_t": "c_uint8", "int32_t": "c_int32", "uint32_t": "c_uint32",
         "int64_t": "c_int64", "uint64_t": "c_uint64", "size_t": "c_size_t", "float": "c_float",
         "double": "c_double", "rl_status": "c_int32"}
# Enums that the Go package keeps to itself.
ENUMS = go.ENUMS + [("RL_ERROR_", "ErrorField")]
# Structs whose classes are written by hand, and what the records of results are called.
BY_HAND = {"rl_request", "rl_algo_tokens", "rl_tensor_info", "rl_option_value", "rl_score",
           "rl_feed_row", "rl_log_record", "rl_span", "rl_files", "rl_allocator", "rl_host",
           "rl_store", "rl_exchange", "rl_transport", "rl_content", "rl_turn", "rl_step",
           "rl_forward", "rl_tensor_request", "rl_weight", "rl_algo_packing", "rl_batch_part",
           "rl_take", "rl_drop", "rl_checkpoint", "rl_reply"}
RECORDS = {"rl_sample_view": "SampleFields"}
# Truth values among the fields of type uint32_t.
TRUTHS = {"has_tokenizer", "tied_head", "generating", "scored", "has_model", "read_only"}
LENGTH = re.compile(r"\[((?:num_\w+|[A-Z])(?: \* (?:num_\w+|[A-Z]))*)\]")


def note(what):
    return (f'"""{what}\n\nWritten by tools/gen_python.py from include/rl.h; not edited by hand.'
            '\n"""\n')


def wrapped(text, indent, prefix=""):
    return textwrap.fill(text, 100, initial_indent=indent + prefix,
                         subsequent_indent=indent + prefix) + "\n"


# ---- raw ----


@functools.lru_cache(maxsize=None)
def structs():
    return header.structs()


def base_of(kind):
    return " ".join(word for word in kind.replace("*", " ").split() if word != "const")


def in_struct(kind):
    """The ctypes type of a field: every pointer is an address, also one to a function."""
    return "c_void_p" if "*" in kind or kind.endswith("_fn") else PLAIN[base_of(kind)]


def as_parameter(kind, text="c_char_p"):
    """The ctypes type of a parameter; texts that a function takes may be Python's bytes."""
    base, stars = base_of(kind), kind.count("*")
    if stars == 0:
        return base if base.endswith("_fn") else PLAIN[base]
    if stars == 1 and base in structs():
        return f"POINTER({base})"
    return text if stars == 1 and base == "char" else "c_void_p"


def result_of(kind):
    if kind == "void":
        return "None"
    return "c_void_p" if "*" in kind else PLAIN[base_of(kind)]


def fields(body):
    """(type, name, comment) of every field of a struct body."""
    found = []
    for words, comment in re.findall(r"([^;/]+);(?:[ \t]*/\*(.*?)\*/)?", body, re.S):
        kind, names = re.fullmatch(r"\s*(.*?[\s*])(\w+(?:\s*,\s*\w+)*)\s*", words, re.S).groups()
        kind = re.sub(r"\s*\*", "*", " ".join(kind.split()))
        comment = " ".join(comment.split())
        found += [(kind, name, comment) for name in re.split(r"\s*,\s*", names)]
    plain = gen_rust.fields(body)
    if [name for _, name, _ in found] != [name for name, _ in plain]:
        sys.exit(f"gen_python.py: cannot read the fields {plain}")
    return found


def structs_text():
    out = []
    for name, body in structs().items():
        rows = ", ".join(f'("{field}",_{in_struct(kind)})' for kind, field, _ in fields(body))
        out.append(f"\n\nclass {name}(Struct):\n")
        out.append(textwrap.fill(f"_fields_ = [{rows}]", 100, initial_indent=" " * 4,
                                 subsequent_indent=" " * 8).replace(",_", ", ") + "\n")
    return "".join(out)


def arrays_text():
    """Element type and length of every array that a struct points to. A length that the comment
    does not give in brackets is None."""
    out = ["\n\n# Arrays that structs point to: element type, and length as the comment has it.\n",
           "ARRAYS: dict[str, dict[str, tuple[Any, Any]]] = {\n"]
    for name, body in structs().items():
        rows = []
        for kind, field, comment in fields(body):
            if kind.count("*") == 1 and base_of(kind) in PLAIN:
                length = LENGTH.search(comment)
                shown = f'"{length.group(1)}"' if length else "None"
                rows.append(f'        "{field}": ({PLAIN[base_of(kind)]}, {shown}),\n')
        if rows:
            out += [f'    "{name}": {{\n', *rows, "    },\n"]
    return "".join(out) + "}\n"


def callbacks_text():
    out = ["\n\n# Types of functions that librl calls.\n"]
    for name, result, parameters in gen_rust.callbacks():
        kinds = [result_of(result), *(as_parameter(kind, "c_void_p") for kind, _ in parameters)]
        out.append(textwrap.fill(f"{name} = ctypes.CFUNCTYPE({', '.join(kinds)})", 100,
                                 subsequent_indent=" " * 4) + "\n")
    return "".join(out)


def functions_text():
    out = ["\n# Result and parameters of every function.\n",
           "FUNCTIONS: dict[str, tuple[Any, dict[str, Any]]] = {\n"]
    for f in header.functions():
        named = ", ".join(f'"{name}": {as_parameter(kind)}' for kind, name in f.parameters)
        row = f'"{f.name}": ({result_of(f.result)}, {{{named}}}),'
        out.append(textwrap.fill(row, 100, initial_indent=" " * 4,
                                 subsequent_indent=" " * 8) + "\n")
    return "".join(out) + "}\n"


def ends_text():
    out = ["\n# The function that ends a handle.\n", "ENDS = {\n"]
    out += [f'    "{handle}": "{header.ending(handle)}",\n'
            for handle in sorted(header.handle_types())]
    return "".join(out) + "}\n"


def raw_text():
    numbers = dict(re.findall(r"#define RL_ABI_(MAJOR|MINOR) (\d+)", header.header_text()))
    soname = re.search(r"RL_SOVERSION (\d+)", header.read("CMakeLists.txt")).group(1)
    used = sorted(set(PLAIN.values()) | {"c_char_p", "c_void_p"})
    return "".join([
        note("Structs, callbacks and prototypes of the C interface."),
        "import ctypes\n",
        textwrap.fill(f"from ctypes import (POINTER, {', '.join(used)})", 100,
                      subsequent_indent=" " * 20), "\nfrom typing import Any\n",
        f"\nABI_MAJOR, ABI_MINOR = {numbers['MAJOR']}, {numbers['MINOR']}\n",
        'ABI_VERSION = ABI_MAJOR << 16 | ABI_MINOR\n',
        f'SONAME = "librl.so.{soname}"\n',
        "\n\nclass Struct(ctypes.Structure):\n",
        '    """A struct of rl.h, with struct_size set and all else 0."""\n\n',
        "    def __init__(self) -> None:\n",
        "        super().__init__(struct_size=ctypes.sizeof(self))\n",
        structs_text(), arrays_text(), callbacks_text(), functions_text(), ends_text()])


# ---- constants ----


def member(name, prefix):
    return name[len(prefix):]


def enumeration(kind, base, doc, prefix, rows):
    out = [f"\n\nclass {kind}({base}):\n", wrapped(f'"""{doc}."""', "    ")]
    for name, value, comment in rows:
        if comment:
            out.append(wrapped(comment, "    ", "# "))
        out.append(f"    {member(name, prefix)} = {value}\n")
    return "".join(out)


@functools.lru_cache(maxsize=None)
def groups():
    """(class, prefix, is a flag, doc, rows) of every enumeration."""
    found = [("Code", "RL_", False, "Status codes of rl.h", go.statuses())]
    for doc, rows in go.enums():
        rule = next((r for r in ENUMS if rows[0][0].startswith(r[0])), None)
        if rule:
            found.append((rule[1], rule[0], False, doc, rows))
    for prefix, kind, doc in go.FLAGS:
        rows = [row for row in go.flags() if row[0].startswith(prefix)]
        found.append((kind, prefix, True, doc.rstrip("."), rows))
    return found


def constants_text():
    out = [note("Constants of the C interface."),
           "import enum\n\nfrom ._open import OpenEnum\n"]
    for kind, prefix, is_flag, doc, rows in groups():
        out.append(enumeration(kind, "enum.IntFlag" if is_flag else "OpenEnum", doc, prefix, rows))
    results = header.header_text().split("/* Results. */")[1].split("/* Failures. */")[0]
    names = [member(name, "RL_") for name in re.findall(r"(RL_\w+) =", results)]
    out.append("\n\n# Codes that are results, not failures.\n")
    out.append(textwrap.fill(f"RESULTS = frozenset({{{', '.join('Code.' + n for n in names)}}})",
                             100, subsequent_indent=" " * 4) + "\n")
    return "".join(out)


def without_a_place():
    """Constants of rl.h that no enumeration has."""
    placed = {name for _, _, _, _, rows in groups() for name, _, _ in rows}
    return [name for name in header.constants()
            if name not in placed and not name.startswith("RL_ABI_")]


# ---- records ----


def python_type(kind, name, comment):
    """The type of a field in a record; None if the record does not have it."""
    base = base_of(kind)
    if "*" in kind:
        return "str" if base == "char" else None
    if name in TRUTHS:
        return "bool"
    if base in ("int32_t", "uint64_t") and not name.endswith("_index"):
        places = {row[0]: group[0] for group in groups() for row in group[4]
                  if group[2] == (base == "uint64_t")}
        named = next((c for c in re.findall(r"RL_\w+", comment) if c in places), None)
        if named and (base == "int32_t" or name == "flags"):
            return places[named]
    return "float" if base in ("float", "double") else "int"


def record_name(struct):
    if struct in RECORDS:
        return RECORDS[struct]
    return "".join(word.capitalize() for word in struct.split("_")[1:])


def records_text():
    rows, used = [], set()
    for struct, body in structs().items():
        if struct in BY_HAND:
            continue
        rows.append(f"\n\n@dataclass(frozen=True)\nclass {record_name(struct)}(Record):\n"
                    f'    """The fields of {struct} that are numbers and texts."""\n\n')
        found = fields(body)
        texts = {name for kind, name, _ in found if kind == "const char*"}
        left_out = {"struct_size", "reserved", *(name + "_len" for name in texts)}
        for kind, name, comment in found:
            known = python_type(kind, name, comment)
            if known is None or name in left_out:
                continue
            comment = re.sub(r"[;,]? ?owner: .*", "", comment)
            if comment:
                rows.append(wrapped(comment, "    ", "# "))
            rows.append(f"    {name}: {known}\n")
            used |= {known} - {"int", "str", "bool", "float"}
    return "".join([
        note("What librl reports, as data classes."),
        "from dataclasses import dataclass\n\nfrom ._record import Record\n",
        textwrap.fill(f"from .constants import ({', '.join(sorted(used))})", 100,
                      subsequent_indent=" " * 24), "\n", *rows])


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    problems = [f"{name} of rl.h has no place in constants.py" for name in without_a_place()]
    wanted = {"_raw.py": raw_text(), "constants.py": constants_text(),
              "records.py": records_text()}
    for name, text in wanted.items():
        path = PACKAGE / name
        if not arguments and not problems:
            path.write_text(text, encoding="utf-8")
        elif arguments and (not path.exists() or path.read_text(encoding="utf-8") != text):
            problems.append(f"{path.relative_to(ROOT)} is stale: run tools/gen_python.py")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
