#!/usr/bin/env python3
"""Writes the Rust bindings from include/rl.h.

usage: gen_rust.py write          writes src/bindings.rs and tests/layout/table.rs of
                                  bindings/rust/rl-sys
       gen_rust.py check          fails if a committed file does not match rl.h
       gen_rust.py layout OUT.c   writes a C program that checks rl-sys: it redeclares every
                                  function from its Rust signature, and prints the size of every
                                  struct, offset and size of every field and the value of every
                                  constant, as tests/layout/main.rs does

Enums become integers; handles and structs that rl.h only declares become opaque types. A handle is
AnyThread if every function that takes it has the thread tag "any".
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/abi"))
import header  # noqa: E402  (the parser of rl.h)

CRATE = ROOT / "bindings/rust/rl-sys"
PLAIN = {"int8_t": "i8", "uint8_t": "u8", "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64",
         "uint64_t": "u64", "size_t": "usize", "float": "f32", "double": "f64", "char": "c_char",
         "void": "c_void"}
TO_C = {rust: c for c, rust in PLAIN.items()}
KEYWORDS = {"type", "use", "fn", "ref", "in", "move", "match", "where", "loop", "mod", "impl",
            "self", "trait"}


def rust_type(text):
    """The Rust type of a C type such as `const char* const*`."""
    stars = re.findall(r"\*( const)?", text)
    words = text.split("*")[0].split()
    base = " ".join(w for w in words if w != "const")
    rust = PLAIN.get(base, base.replace("struct ", ""))
    if base not in PLAIN and not re.fullmatch(r"rl_\w+", base) and rust not in foreign_structs():
        sys.exit(f"gen_rust.py: no Rust type for {text!r}")
    pointee_const = "const" in words
    for star in stars:
        rust = ("*const " if pointee_const else "*mut ") + rust
        pointee_const = bool(star)
    return rust


def c_type(rust):
    """The C type of a Rust type that rust_type made."""
    match = re.match(r"\*(const|mut) (.*)", rust)
    if not match:
        return f"struct {rust}" if rust in foreign_structs() else TO_C.get(rust, rust)
    inner = c_type(match.group(2))
    return inner + (" const*" if match.group(1) == "const" else "*")


def name_of(name):
    return name + "_" if name in KEYWORDS else name


def plain_header():
    return re.sub(r"/\*.*?\*/", " ", header.header_text(), flags=re.S)


def foreign_structs():
    """Structs of other interfaces, which rl.h declares but does not define."""
    return re.findall(r"^struct (\w+);", plain_header(), re.M)


def constants():
    """(name, Rust type, Rust value) of every constant, in the header's order."""
    text, found = plain_header(), []
    for body in re.findall(r"enum\s*\{(.*?)\}", text, re.S):
        found += [(n, "i32", v) for n, v in re.findall(r"(RL_\w+)\s*=\s*(\d+)", body)]
    for name, value in re.findall(r"^#define (RL_\w+) (\S.*)$", text, re.M):
        u64 = re.fullmatch(r"UINT64_C\((\d+)\)", value.strip())
        if u64:
            found.append((name, "u64", u64.group(1)))
        elif re.fullmatch(r"\d+", value.strip()):
            found.append((name, "u32", value.strip()))
        elif name == "RL_ABI_VERSION":
            found.append((name, "u32", "(RL_ABI_MAJOR << 16) | RL_ABI_MINOR"))
        elif name == "RL_NUL_TERMINATED":
            found.append((name, "usize", "usize::MAX"))
        elif name != "RL_API":
            sys.exit(f"gen_rust.py: no Rust value for {name} = {value}")
    missing = set(header.constants()) - {name for name, _, _ in found}
    return found if not missing else sys.exit(f"gen_rust.py: no value found for {sorted(missing)}")


def fields(body):
    """(name, Rust type) of every field of a struct body; `int64_t a, b;` are two."""
    found = []
    for line in re.sub(r"/\*.*?\*/", " ", body, flags=re.S).split(";"):
        match = re.fullmatch(r"\s*(.*?[\s*])(\w+(?:\s*,\s*\w+)*)\s*", line, re.S)
        if match:
            kind = re.sub(r"\s*\*", "*", " ".join(match.group(1).split()))
            found += [(name, rust_type(kind)) for name in re.split(r"\s*,\s*", match.group(2))]
        elif line.strip():
            sys.exit(f"gen_rust.py: cannot read the field {line.strip()!r}")
    return found


def callbacks():
    """(name, result, [(type, parameter)]) of every function pointer type."""
    found = []
    for result, name, args in re.findall(r"typedef (\w+) \(\*(rl_\w+)\)\((.*?)\);", plain_header(),
                                         re.S):
        found.append((name, result, [header.Function.parameter(a) for a in args.split(",")]))
    return found


def signature(parameters, result):
    args = ", ".join(f"{name_of(name)}: {rust_type(kind)}" for kind, name in parameters)
    return f"({args})" + ("" if result == "void" else f" -> {rust_type(result.replace(' *', '*'))}")


def any_thread():
    """Handles that every thread may use: all functions that take one have the tag "any"."""
    tagged = {h: [f.thread for f in header.functions()
                  if any(h in re.findall(r"\w+", k) for k, _ in f.parameters)]
              for h in header.handle_types()}
    return [h for h in sorted(tagged)
            if tagged[h] and all(t.split(";")[0] == "any" for t in tagged[h])]


def wrapped(items, indent, close):
    """A list over several lines, one entry each."""
    return "".join(f"{indent}{item},\n" for item in items) + close


def function_text(function):
    one = f"    pub fn {function.name}{signature(function.parameters, function.result)};\n"
    if len(one) <= 101:
        return one
    args = [f"{name_of(name)}: {rust_type(kind)}" for kind, name in function.parameters]
    result = signature([], function.result)[2:]
    return f"    pub fn {function.name}(\n" + wrapped(args, "        ", f"    ){result};\n")


def bindings():
    out = ["// What include/rl.h declares, which documents it. Written by tools/gen_rust.py; "
           "not edited by hand.\n",
           "use super::AnyThread;\nuse std::marker::{PhantomData, PhantomPinned};\n",
           "use std::os::raw::{c_char, c_void};\n\npub type rl_status = i32;\n\n"]
    out += [f"pub const {name}: {kind} = {value};\n" for name, kind, value in constants()]
    for handle in sorted(header.handle_types()) + foreign_structs():
        out.append(f"\n#[repr(C)]\npub struct {handle} {{\n    _data: [u8; 0],\n"
                   "    _marker: PhantomData<(*mut u8, PhantomPinned)>,\n}\n")
    out.append("\n// Every function of these handles has the thread tag \"any\".\n")
    out += [f"unsafe impl AnyThread for {handle} {{}}\n" for handle in any_thread()]
    for name, result, parameters in callbacks():
        args = [f"{name_of(n)}: {rust_type(k)}" for k, n in parameters]
        result = signature([], result)[2:]
        out.append(f"\npub type {name} = Option<\n    unsafe extern \"C\" fn(\n"
                   + wrapped(args, "        ", f"    ){result},\n>;\n"))
    for name, body in header.structs().items():
        out.append(f"\n#[repr(C)]\n#[derive(Clone, Copy, Debug)]\npub struct {name} {{\n")
        out += [f"    pub {name_of(field)}: {kind},\n" for field, kind in fields(body)] + ["}\n"]
    out.append("\nextern \"C\" {\n")
    out += [function_text(f) for f in header.functions()] + ["}\n"]
    return "".join(out)


def layout_table():
    out = ["// Structs, fields and constants of include/rl.h. Written by tools/gen_rust.py; "
           "not edited by hand.\n",
           "use rl_sys::*;\n\npub fn structs(out: &mut String) {\n"]
    for name, body in header.structs().items():
        names = ",\n".join(f"        {name_of(field)}" for field, _ in fields(body))
        out.append(f"    layout!(\n        out,\n        {name},\n{names}\n    );\n")
    out.append("}\n\npub const CONSTANTS: &[(&str, u64)] = &[\n")
    out += [f"    (\"{name}\", {name}{'' if kind == 'u64' else ' as u64'}),\n"
            for name, kind, _ in constants()]
    return "".join(out) + "];\n"


def layout_program():
    out = ["/* Layout and signatures of the Rust bindings, checked by a C compiler. "
           "By gen_rust.py. */\n",
           "#include <inttypes.h>\n#include <stdio.h>\n\n#include \"rl.h\"\n\n",
           "#define FIELD(type, field) printf(\"  %s %zu %zu\\n\", #field, offsetof(type, field), "
           "sizeof(((type*)0)->field))\n\n"]
    for f in header.functions():
        args = ", ".join(c_type(rust_type(kind)) for kind, _ in f.parameters) or "void"
        out.append(f"extern {c_type(rust_type(f.result))} {f.name}({args});\n")
    out.append("\nint main(void) {\n")
    for name, body in header.structs().items():
        out.append(f"  printf(\"{name} %zu\\n\", sizeof({name}));\n")
        out += [f"  FIELD({name}, {field});\n" for field, _ in fields(body)]
    out += [f"  printf(\"{name} %\" PRIu64 \"\\n\", (uint64_t){name});\n"
            for name, _, _ in constants()]
    return "".join(out) + "  return 0;\n}\n"


def generated():
    return {CRATE / "src/bindings.rs": bindings(), CRATE / "tests/layout/table.rs": layout_table()}


def main(command, *paths):
    if command == "layout" and len(paths) == 1:
        pathlib.Path(paths[0]).write_text(layout_program(), encoding="utf-8")
        return 0
    if command == "write" and not paths:
        for path, text in generated().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    if command != "check" or paths:
        sys.exit(__doc__)
    stale = [p for p, text in generated().items()
             if not p.exists() or p.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not what rl.h declares: run python3 tools/gen_rust.py "
              "write", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
