#!/usr/bin/env python3
"""Reads include/rl.h and compares the other descriptions of the ABI with it.

usage: header.py COMMAND [ARGUMENT]
  check             symbols.txt, librl.map, constants.txt, functions.yml and errors.yml of abi/ say
                    what rl.h declares; src/abi/constants_api.cc and docs/reference/ have every
                    constant
  write             writes them
  references OUT.c [HEADER]
                    writes a C program that refers to every function and checks every constant
  exported LIBRARY  the library defines the symbols of abi/symbols.txt, with their version, and no
                    other
  needed LIBRARY    the library needs the libraries of the list below and no other
  imports LIBRARY   the library imports nothing that prints, ends the process or changes what
                    belongs to the host
  floor LIBRARY     the library asks for no newer version of the C and C++ run time than the list
                    below says
"""
import pathlib
import re
import subprocess
import sys

import versions

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/rl.h"
# What librl.so may be linked with: the C and C++ run time, and the libraries of
# cmake/RlDependencies.cmake.
NEEDED = re.compile(r"^(libc|libm|libgcc_s|libstdc\+\+|libpthread|ld-linux-x86-64|libdnnl|libgomp|"
                    r"libtbb|libhwy|libzstd|libpcre2-8|libutf8proc)\.so(\.[0-9.]+)?$")
# What librl.so may not call, by what it would break. The standard streams of C++ print too. It may
# call fesetenv, for core/float_mode.h, which gives the host's mode back; abi_process compares that.
FORBIDDEN = {
    "prints": "printf vprintf fprintf vfprintf dprintf vdprintf puts fputs fputc putc putchar "
              "fwrite perror psignal stdout stderr __printf_chk __fprintf_chk __vfprintf_chk "
              "_ZSt4cout _ZSt4cerr _ZSt4clog syslog",
    "ends the process": "abort exit _exit _Exit quick_exit __assert_fail raise kill pthread_kill",
    "reads or changes the environment": "getenv secure_getenv setenv unsetenv putenv clearenv "
                                        "environ __environ",
    "changes what belongs to the host": "signal sigaction sigaltstack setlocale uselocale umask "
                                        "chdir fchdir setrlimit setrlimit64 prctl personality "
                                        "fesetround atexit on_exit alarm setitimer nice "
                                        "setpriority sched_setaffinity",
    "starts a process": "fork vfork execve execv execvp posix_spawn posix_spawnp system popen",
    "opens a connection": "socket connect bind listen accept getaddrinfo",
}
# The newest versions of the run time that librl.so may ask for. It starts on every system that has
# them, which Debian 12 and Ubuntu 22.04 are; a newer function of the run time moves the floor for
# every host.
FLOOR = {"GLIBC": "2.34", "GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "3.4"}
MAP_HEAD = """/* Symbols of librl.so; everything that is not named here stays inside. Written by
 * tests/abi/header.py from rl.h and abi/released. */
"""
# Codes that any call may return, which functions.yml does not list.
COMMON = ["RL_INVALID_ARGUMENT", "RL_STALE_HANDLE", "RL_WRONG_HANDLE", "RL_WRONG_THREAD",
          "RL_FORKED", "RL_OUT_OF_MEMORY", "RL_INTERNAL"]
# What rl.h may include: no header of a driver or another library, which a host may not have.
INCLUDES = ("stddef.h", "stdint.h")
SKIPPED = 77  # of a test that does not apply; SKIP_RETURN_CODE of ctest


def header_text():
    return HEADER.read_text(encoding="utf-8")


class Function:
    """A declaration: result type, name, parameters as (type, name), and its comment's thread
    tag."""

    def __init__(self, result, name, parameters, comment):
        self.result, self.name, self.comment = result.strip(), name, comment
        self.parameters = [self.parameter(p) for p in parameters.split(",") if p.strip() != "void"]
        tag = re.findall(r"Thread:\s+([^.]*)\.", comment)
        self.thread = " ".join(tag[-1].split()) if tag else ""

    @staticmethod
    def parameter(text):
        match = re.match(r"^(.*?)(\w+)$", " ".join(text.split()))
        return match.group(1).replace(" *", "*").strip(), match.group(2)

    def may_be_null(self):
        """Names of the pointer parameters that the comment allows to be NULL."""
        said = re.findall(r"((?:\w+(?:, | and ))*\w+) may be NULL", " ".join(self.comment.split()))
        names = {name for words in said for name in re.split(r", | and ", words)}
        return [name for _, name in self.parameters if name in names]


def handle_types():
    return set(re.findall(r"^typedef struct (rl_\w+) \1;", header_text(), re.M))


def structs(text=None):
    """Public structs, by name, with their bodies; of rl.h or of another header."""
    return dict(re.findall(r"^typedef struct (rl_\w+) \{(.*?)^\} \1;", text or header_text(),
                           re.M | re.S))


def functions(text=None):
    """Every function of rl.h or of another header. One comment may stand before several
    declarations; it holds for all of them, and one without a thread tag adds to it."""
    found, comment = [], ""
    pattern = re.compile(
        r"/\*(?P<comment>.*?)\*/|RL_API (?P<result>[^;(]*?)(?P<name>rl_\w+)\((?P<args>[^;]*)\);",
        re.S)
    for match in pattern.finditer(text or header_text()):
        if match.group("comment") is not None:
            words = re.sub(r"\n \*", "\n", match.group("comment"))
            comment = words if "Thread:" in words else words + comment
        else:
            found.append(Function(match.group("result"), match.group("name"), match.group("args"),
                                  comment))
    return found


def constants(text=None):
    text = re.sub(r"/\*.*?\*/", "", text or header_text(), flags=re.S)
    names = [n for body in re.findall(r"enum\s*\{(.*?)\}", text, re.S)
             for n in re.findall(r"(RL_\w+)\s*=", body)]
    macros = re.findall(r"^#define (RL_\w+) ", text, re.M)
    return names + [n for n in macros if n not in ("RL_API", "RL_NUL_TERMINATED")]


def families(text=None):
    """The constants of each enumeration."""
    text = re.sub(r"/\*.*?\*/", "", text or header_text(), flags=re.S)
    return [re.findall(r"(RL_\w+)\s*=", body)
            for body in re.findall(r"enum\s*\{(.*?)\}", text, re.S)]


def missing_constants():
    """Constants that rl_constant does not know, that are not compared with the enumeration below
    the interface although others of their family are, or that the reference does not name."""
    source = read("src/abi/constants_api.cc")
    by_name = re.findall(r"^ +RL_CONSTANT\((\w+)\)", source, re.M)
    compared = re.findall(r"^RL_SAME\((\w+),", source, re.M)
    reference = "\n".join(p.read_text(encoding="utf-8")
                          for p in sorted((ROOT / "docs/reference").glob("*.md")))
    documented = set(re.findall(r"RL_\w+", reference))
    names = constants()
    return ([f"src/abi/constants_api.cc: {n} is {by_name.count(n)} times in kConstants, not once"
             for n in names if by_name.count(n) != 1] +
            [f"src/abi/constants_api.cc: {n} has no RL_SAME, which others of its enumeration have"
             for family in families() if set(family) & set(compared)
             for n in family if n not in compared] +
            [f"docs/reference: {n} is not named" for n in names if n not in documented])


def constants_text(text=None):
    """Every constant but the version, which is meant to change, with its number."""
    text = re.sub(r"/\*.*?\*/", "", text or header_text(), flags=re.S)
    numbers = dict(re.findall(r"^#define (RL_\w+) (?:UINT64_C\()?(\d+)\)? *$", text, re.M))
    for body in re.findall(r"enum\s*\{(.*?)\}", text, re.S):
        numbers.update(re.findall(r"(RL_\w+)\s*=\s*(\d+)", body))
    return "".join(f"{name} {numbers[name]}\n" for name in constants(text)
                   if not name.startswith("RL_ABI_"))


def nodes():
    return versions.nodes(ROOT, sorted(f.name for f in functions()))


def symbols_text():
    return "".join(f"{name}@@{node}\n" for name, node in nodes().items())


def map_text():
    return MAP_HEAD + versions.script(nodes())


def ownership(function):
    """Who ends what the function hands out or takes."""
    notes = []
    for kind, name in function.parameters:
        match = re.match(r"^(rl_\w+)\*\*$", kind)
        if match and name != "err":
            notes.append(f"{name} is the caller's: {ending(match.group(1))}")
        if kind == "struct DLManagedTensorVersioned*":
            notes.append(f"consumes {name} on every path")
        if kind == "struct DLManagedTensorVersioned**":
            notes.append(f"{name} is the caller's: its deleter")
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


def has_status(function):
    return bool(function.parameters) and function.parameters[-1] == ("rl_error**", "err")


def listed_codes():
    """The codes that functions.yml lists, by function."""
    rows = re.findall(r"^- name: (\w+)\n(?:  .*\n)*?  codes: \[(.*)\]$",
                      read("abi/functions.yml"), re.M)
    return {name: codes.split(", ") if codes else [] for name, codes in rows}


def functions_text(codes=None):
    """With other lists of codes, or those that are there: they have no other source."""
    codes = codes or listed_codes()
    lines = ["# Every function of rl.h, in its order: who may call it, since when, what changes\n",
             "# hands, which pointers may be NULL, and the codes that it returns beside RL_OK\n",
             "# and those that any call may return. Written by tests/abi/header.py from the\n",
             "# comments of rl.h, and compared with them, except for the codes: add them here,\n",
             "# and abi_codes compares them with those that tests provoke.\n"]
    since = versions.since(ROOT, [f.name for f in functions()])
    for f in functions():
        lines.append(f"- name: {f.name}\n  since: {since[f.name]}\n"
                     f"  thread: {f.thread}\n  ownership: \"{ownership(f)}\"\n")
        if f.may_be_null():
            lines.append(f"  may_be_null: [{', '.join(f.may_be_null())}]\n")
        if has_status(f):
            lines.append(f"  codes: [{', '.join(codes.get(f.name, []))}]\n")
    return "".join(lines)


def errors_text():
    body = header_text().split("typedef int32_t rl_status;")[1].split("};")[0]
    lines = ["# Status codes. Numbers are never reused. "
             "Written by tests/abi/header.py from rl.h.\n"]
    for name, value, doc in re.findall(r"(RL_\w+) = (\d+),?\s*/\* (.*?) \*/", body, re.S):
        lines.append(f"- name: {name}\n  value: {value}\n  doc: \"{' '.join(doc.split())}\"\n")
    return "".join(lines)


def read(path):
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.exists() else ""


def described():
    return {"abi/symbols.txt": symbols_text(), "abi/librl.map": map_text(),
            "abi/constants.txt": constants_text(),
            "abi/functions.yml": functions_text(), "abi/errors.yml": errors_text()}


def check():
    problems = [f"{path} is not what rl.h declares" for path, text in described().items()
                if read(path) != text]
    names = [f.name for f in functions()]
    problems += [f"{n} is declared twice" for n in sorted(set(names)) if names.count(n) > 1]
    problems += [f"{f.name}: unknown thread tag \"{f.thread}\"" for f in functions()
                 if f.thread not in ("any", "any; callback-safe")]
    problems += [f"{f.name} has no status, so it must be callback-safe or end an exclusive object"
                 for f in functions()
                 if f.result != "rl_status" and f.thread == "any"
                 and not f.name.endswith("_destroy")]
    problems += [f"{f.name} returns a status but does not end with rl_error** err"
                 for f in functions()
                 if f.result == "rl_status" and f.name != "rl_error_code"
                 and f.parameters[-1] != ("rl_error**", "err")]
    problems += [f"{name} does not begin with size_t struct_size"
                 for name, body in structs().items()
                 if not body.split(";")[0].strip() == "size_t struct_size"]
    problems += [f"{name} has no {name}_init" for name in structs() if f"{name}_init" not in names]
    order = re.findall(r"- name: (\w+)", errors_text())
    problems += [f"{name}: the codes of abi/functions.yml are not some of errors.yml in its order, "
                 "without RL_OK and those of any call"
                 for name, codes in listed_codes().items()
                 if codes != [c for c in order if c in codes and c not in ["RL_OK", *COMMON]]]
    problems += [f"rl.h includes {name}, and it may include {', '.join(INCLUDES)}"
                 for name in re.findall(r'^\s*#\s*include\s*[<"](.*?)[>"]', header_text(), re.M)
                 if name not in INCLUDES]
    problems += missing_constants()
    numbers = re.findall(r"value: (\d+)", errors_text())
    problems += [f"status {n} has two names" for n in sorted(set(numbers)) if numbers.count(n) > 1]
    return problems


def write():
    for path, text in described().items():
        (ROOT / path).write_text(text, encoding="utf-8")
    return []


def references(path, header=HEADER):
    global HEADER
    HEADER = pathlib.Path(header)
    names = [f.name for f in functions()]
    calls = ",\n".join(f"    (rl_any_fn){n}" for n in names)
    rows = ",\n".join(f'    {{"{n}", (int64_t){n}}}' for n in constants())
    pathlib.Path(path).write_text(f"""/* Every function of rl.h is linked, every constant is known
   by name. By header.py. */
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


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True,
                         text=True).stdout
    seen = {line.split()[-1] for line in out.splitlines()}
    seen = {name for name in seen if not re.match(r"RL_[0-9.]+(@|$)", name)}  # the nodes themselves
    wanted = set(read("abi/symbols.txt").split())
    return [f"{n} is exported but not in abi/symbols.txt" for n in sorted(seen - wanted)] + \
           [f"{n} is in abi/symbols.txt but not exported" for n in sorted(wanted - seen)]


def skip_if_sanitized(library):
    out = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                         text=True).stdout
    sanitizers = re.findall(r"\(NEEDED\).*\[(lib\w+san)\.so", out)
    if sanitizers:
        names = ", ".join(sanitizers)
        print(f"skipped: {names} of this build need libraries and calls of their own")
        sys.exit(SKIPPED)
    return out


def imports(library):
    skip_if_sanitized(library)
    out = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True,
                         text=True).stdout
    seen = {line.split()[-1].split("@")[0] for line in out.splitlines()}
    return [f"{library} imports {n}, which {what}" for what, names in FORBIDDEN.items()
            for n in names.split()
            if n in seen] if seen else ["nm names no imported symbol at all"]


def version(text):
    return tuple(int(part) for part in text.split("."))


def floor(library):
    skip_if_sanitized(library)
    out = subprocess.run(["objdump", "-T", library], check=True, capture_output=True,
                         text=True).stdout
    newest = {node: (0,) for node in FLOOR}
    for node, number in re.findall(r"\*UND\*.*\(?\b([A-Z]+)_([0-9.]+)\)? ", out):
        if node in FLOOR:
            newest[node] = max(newest[node], version(number))
    problems = [f"objdump names no version {node}" for node, number in newest.items()
                if number == (0,)]
    for node, number in newest.items():
        print(f"{node}_{'.'.join(map(str, number))}, at most {FLOOR[node]}")
        if number > version(FLOOR[node]):
            problems.append(
                f"{library} needs {node}_{'.'.join(map(str, number))}; the floor is {FLOOR[node]}")
    return problems


def needed(library):
    out = skip_if_sanitized(library)
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", out)
    problems = [f"{library} needs {n}, which is not on the list" for n in names
                if not NEEDED.match(n)]
    if f"Library soname: [{versions.soname(ROOT)}]" not in out:
        problems.append(f"the soname is not {versions.soname(ROOT)}")
    if "NODELETE" not in out:
        problems.append("the library is not linked with -z nodelete")
    return problems if names else problems + ["readelf names no needed library at all"]


COMMANDS = {"check": check, "write": write, "references": references, "exported": exported,
            "needed": needed, "imports": imports, "floor": floor}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    found = COMMANDS[sys.argv[1]](*sys.argv[2:])
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
