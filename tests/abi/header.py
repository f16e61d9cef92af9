#!/usr/bin/env python3
"""Reads include/rl.h and compares the other descriptions of the ABI with it.

usage: header.py COMMAND [ARGUMENT]
  check             abi/symbols.txt, abi/functions.yml and abi/errors.yml say what rl.h declares
  write             writes abi/symbols.txt, abi/functions.yml and abi/errors.yml
  references OUT.c  writes a C program that refers to every function and checks every constant
  misuse OUT.inc    writes a table of calls of every function, for misuse_test.cc
  exported LIBRARY  the library defines the symbols of abi/symbols.txt, with their version, and no other
  needed LIBRARY    the library needs the libraries of the list below and no other
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/rl.h"
NODE = "RL_0.1"
SINCE = "0.1.0"
# What librl.so may be linked with: the C and C++ run time, and the libraries of cmake/RlDependencies.cmake.
NEEDED = re.compile(r"^(libc|libm|libgcc_s|libstdc\+\+|libpthread|ld-linux-x86-64|libdnnl|libgomp|libtbb|libhwy|"
                    r"libzstd|libpcre2-8|libutf8proc|lib[atlu]+san)\.so(\.[0-9.]+)?$")


def header_text():
    return HEADER.read_text(encoding="utf-8")


class Function:
    """A declaration: result type, name, parameters as (type, name), and its comment's thread tag."""

    def __init__(self, result, name, parameters, comment):
        self.result, self.name, self.comment = result.strip(), name, comment
        self.parameters = [self.parameter(p) for p in parameters.split(",") if p.strip() != "void"]
        tag = re.findall(r"Thread:\s+([^.]*)\.", comment)
        self.thread = " ".join(tag[-1].split()) if tag else ""

    @staticmethod
    def parameter(text):
        match = re.match(r"^(.*?)(\w+)$", " ".join(text.split()))
        return match.group(1).replace(" *", "*").strip(), match.group(2)

    def handle(self):
        """The type behind the first parameter when that is a handle, else None."""
        if not self.parameters:
            return None
        match = re.match(r"^(?:const )?(rl_\w+)\*$", self.parameters[0][0])
        return match.group(1) if match and match.group(1) in handle_types() else None

    def outs(self):
        """Names of the result parameters."""
        return [n for t, n in self.parameters
                if n != "err" and t.endswith("*") and (not t.startswith("const") or t.endswith("**")) and
                not re.match(r"^(const )?(rl_\w+)\*$", t) and t != "void*" and "* const*" not in t and
                "*const*" not in t] + [n for t, n in self.parameters
                                       if re.match(r"^rl_\w+\*$", t) and t[:-1] not in handle_types()]


def handle_types():
    return set(re.findall(r"^typedef struct (rl_\w+) \1;", header_text(), re.M))


def functions():
    """Every function. One comment may stand before several declarations; it holds for all of them."""
    found, comment = [], ""
    pattern = re.compile(r"/\*(?P<comment>.*?)\*/|RL_API (?P<result>[^;(]*?)(?P<name>rl_\w+)\((?P<args>[^;]*)\);", re.S)
    for match in pattern.finditer(header_text()):
        if match.group("comment") is not None:
            text = re.sub(r"\n \*", "\n", match.group("comment"))
            comment = text if "Thread:" in text else comment
        else:
            found.append(Function(match.group("result"), match.group("name"), match.group("args"), comment))
    return found


def constants():
    text = re.sub(r"/\*.*?\*/", "", header_text(), flags=re.S)
    names = [n for body in re.findall(r"enum\s*\{(.*?)\}", text, re.S) for n in re.findall(r"(RL_\w+)\s*=", body)]
    macros = re.findall(r"^#define (RL_\w+) ", text, re.M)
    return names + [n for n in macros if n not in ("RL_API", "RL_NUL_TERMINATED")]


def symbols_text():
    return "".join(f"{f.name}@@{NODE}\n" for f in sorted(functions(), key=lambda f: f.name))


def ownership(function):
    """Who ends what the function hands out or takes."""
    notes = []
    for kind, name in function.parameters:
        match = re.match(r"^(rl_\w+)\*\*$", kind)
        if match and name != "err":
            notes.append(f"{name} is the caller's: {ending(match.group(1))}")
    if function.name.endswith(("_destroy", "_release")):
        notes.append("ends the handle")
    if "destroy" in [name for _, name in function.parameters]:
        notes.append("consumes user_data on every path")
    if function.result == "rl_error*":
        notes.append("the result is the caller's: rl_error_release")
    return "; ".join(notes) or "nothing changes hands"


def ending(handle):
    names = [f.name for f in functions()]
    return next(n for n in (handle + "_destroy", handle + "_release") if n in names)


def functions_text():
    lines = ["# Every function of rl.h, in its order: who may call it, since when, and what changes hands.\n",
             "# Written by tests/abi/header.py from the comments of rl.h, and compared with them.\n"]
    since = dict(re.findall(r"- name: (\w+)\n  since: (\S+)", read("abi/functions.yml")))
    for f in functions():
        lines.append(f"- name: {f.name}\n  since: {since.get(f.name, SINCE)}\n  thread: {f.thread}\n"
                     f"  ownership: \"{ownership(f)}\"\n")
    return "".join(lines)


def errors_text():
    body = header_text().split("typedef int32_t rl_status;")[1].split("};")[0]
    lines = ["# Status codes. Numbers are never reused. Written by tests/abi/header.py from rl.h.\n"]
    for name, value, doc in re.findall(r"(RL_\w+) = (\d+),?\s*/\* (.*?) \*/", body, re.S):
        lines.append(f"- name: {name}\n  value: {value}\n  doc: \"{' '.join(doc.split())}\"\n")
    return "".join(lines)


def read(path):
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.exists() else ""


def described():
    return {"abi/symbols.txt": symbols_text(), "abi/functions.yml": functions_text(), "abi/errors.yml": errors_text()}


def check():
    problems = [f"{path} is not what rl.h declares" for path, text in described().items() if read(path) != text]
    names = [f.name for f in functions()]
    problems += [f"{n} is declared twice" for n in sorted(set(names)) if names.count(n) > 1]
    problems += [f"{f.name}: unknown thread tag \"{f.thread}\"" for f in functions()
                 if f.thread not in ("any", "any; callback-safe")]
    numbers = re.findall(r"value: (\d+)", errors_text())
    problems += [f"status {n} has two names" for n in sorted(set(numbers)) if numbers.count(n) > 1]
    return problems


def write():
    for path, text in described().items():
        (ROOT / path).write_text(text, encoding="utf-8")
    return []


def references(path):
    names = [f.name for f in functions()]
    calls = ",\n".join(f"    (rl_any_fn){n}" for n in names)
    rows = ",\n".join(f'    {{"{n}", (int64_t){n}}}' for n in constants())
    pathlib.Path(path).write_text(f"""/* Written by header.py: every function of rl.h is linked, every constant is known by name. */
#include "rl.h"

typedef void (*rl_any_fn)(void);
static const rl_any_fn functions[] = {{
{calls}}};
static const struct {{
  const char *name;
  int64_t value;
}} constants[] = {{
{rows}}};

int main(void) {{
  size_t i;
  for (i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {{
    if (functions[i] == 0) return 1;
  }}
  for (i = 0; i < sizeof(constants) / sizeof(constants[0]); ++i) {{
    int64_t value = -1;
    if (rl_constant(constants[i].name, RL_NUL_TERMINATED, &value, 0) != RL_OK) return 2;
    if (value != constants[i].value) return 3;
  }}
  return 0;
}}
""", encoding="utf-8")
    return []


def argument(kind, name, position, function):
    if position == 0 and function.handle():
        return f"static_cast<{kind}>(handle)"
    if name == "err":
        return "err"
    return "nullptr" if kind.endswith("*") or kind.endswith("_fn") else "0"


def misuse(path):
    rows = []
    for f in functions():
        arguments = ", ".join(argument(k, n, i, f) for i, (k, n) in enumerate(f.parameters))
        call = f"{f.name}({arguments})"
        body = f"return {call};" if f.result == "rl_status" else f"(void){call}; (void)err; return RL_OK;"
        if f.result == "void":
            body = f"{call}; (void)err; return RL_OK;"
        unused = "" if f.handle() else "(void)handle; "
        first = f.parameters[0][1] if f.handle() else ""
        flag = "true" if f.result == "rl_status" and ("rl_error**", "err") in f.parameters else "false"
        outs = "true" if f.outs() else "false"
        rows.append(f'{{"{f.name}", "{f.handle() or ""}", "{first}", {flag}, {outs},\n'
                    f' [](void* handle, rl_error** err) -> rl_status {{ {unused}(void)err; {body} }}}},\n')
    pathlib.Path(path).write_text("".join(rows), encoding="utf-8")
    return []


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    seen = {line.split()[-1] for line in out.splitlines() if line.split()[-1] != NODE}
    seen.discard(f"{NODE}@@{NODE}")
    wanted = set(read("abi/symbols.txt").split())
    return [f"{n} is exported but not in abi/symbols.txt" for n in sorted(seen - wanted)] + \
           [f"{n} is in abi/symbols.txt but not exported" for n in sorted(wanted - seen)]


def needed(library):
    out = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", out)
    problems = [f"{library} needs {n}, which is not on the list" for n in names if not NEEDED.match(n)]
    if not re.search(r"\(SONAME\).*\[librl\.so\.0\]", out):
        problems.append("the soname is not librl.so.0")
    if "NODELETE" not in out:
        problems.append("the library is not linked with -z nodelete")
    return problems if names else problems + ["readelf names no needed library at all"]


COMMANDS = {"check": check, "write": write, "references": references, "misuse": misuse, "exported": exported,
            "needed": needed}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    found = COMMANDS[sys.argv[1]](*sys.argv[2:])
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
