#!/usr/bin/env python3
"""The status codes of each function: those that abi/functions.yml lists are those that tests
provoke. Codes that any call may return (COMMON of header.py) are not listed.

usage: codes.py recorder OUT.c
           writes a library that stands between a program and librl.so: each function of rl.h with a
           status calls the one of librl.so, and the first time that a process gets a code from it
           "function number" is appended to the file $RL_CODES_FILE, if there is one
       codes.py clear DIR
           DIR is there and empty
       codes.py compare DIR [PROGRAM...] [--also PROGRAM...]
           the recordings in DIR, one file for each program, against the lists: a code that is
           listed and that no PROGRAM got, and one that a program got and that is not listed. What
           the programs after --also get may depend on chance, so they provoke nothing for certain;
           with these alone a listed code need not be provoked
       codes.py write DIR PROGRAM...
           makes the lists what the programs got; review the difference
       codes.py self-test
           each violation is found
"""
import pathlib
import re
import shutil
import sys

import header

SKIPPED = 77
HEAD = """/* Between a program and librl.so: notes which codes it gets. By codes.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rl.h"

/* What is known of a function. Nothing here orders the calls of different threads, so that
 * ThreadSanitizer finds what librl.so leaves unordered. */
typedef struct {
  _Atomic uintptr_t address;
  _Atomic uint64_t seen;
} known;

/* The function of librl.so behind ours, which was loaded first. */
static void next(const char *name, known *k, void *function) {
  uintptr_t address = atomic_load_explicit(&k->address, memory_order_relaxed);
  if (address == 0) {
    address = (uintptr_t)dlsym(RTLD_NEXT, name);
    if (address == 0) abort();
    atomic_store_explicit(&k->address, address, memory_order_relaxed);
  }
  memcpy(function, &address, sizeof address);
}

/* Lines that could not be written when noted, as in a process without free descriptors. */
static char late[4096];
static _Atomic size_t late_length;

static int append(const char *text, size_t length) {
  const char *path = getenv("RL_CODES_FILE");
  int file, whole;
  if (path == NULL) return 1;
  file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return 0;
  whole = write(file, text, length) == (ssize_t)length;
  close(file);
  return whole;
}

__attribute__((destructor)) static void append_late(void) {
  const size_t length = atomic_load_explicit(&late_length, memory_order_relaxed);
  if (length != 0 && length <= sizeof late) append(late, length);
}

/* A whole line in one write: several processes may append at once. */
static rl_status note(const char *name, known *k, rl_status status) {
  const uint64_t bit = UINT64_C(1) << (status & 63);
  char line[128];
  size_t length, at;
  if ((atomic_load_explicit(&k->seen, memory_order_relaxed) & bit) != 0) return status;
  length = (size_t)snprintf(line, sizeof line, "%s %d\\n", name, (int)status);
  if (!append(line, length)) {
    at = atomic_fetch_add_explicit(&late_length, length, memory_order_relaxed);
    if (at + length <= sizeof late) memcpy(late + at, line, length);
  }
  atomic_fetch_or_explicit(&k->seen, bit, memory_order_relaxed);
  return status;
}
"""


def with_status():
    """The functions whose codes are listed."""
    return [f for f in header.functions() if header.has_status(f)]


def recorder():
    text = HEAD
    for f in with_status():
        typed = ", ".join(f"{kind} {name}" for kind, name in f.parameters)
        names = ", ".join(name for _, name in f.parameters)
        kinds = ", ".join(kind for kind, _ in f.parameters)
        text += f"""
rl_status {f.name}({typed}) {{
  static known k;
  rl_status (*call)({kinds});
  next("{f.name}", &k, &call);
  return note("{f.name}", &k, call({names}));
}}
"""
    return text


def code_names():
    """The name of each status code by its number, in the order of the numbers."""
    rows = re.findall(r"- name: (\w+)\n  value: (\d+)", header.read("abi/errors.yml"))
    return {int(value): name for name, value in rows}


def recorded(directory, programs):
    """What the programs got, as {function: {code}}, and the programs without a recording."""
    got, missing, names = {}, [], code_names()
    for program in programs:
        path = pathlib.Path(directory) / program
        if not path.exists():
            missing.append(program)
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            function, number = line.split()
            got.setdefault(function, set()).add(names.get(int(number), number))
    return got, missing


def told(codes):
    return set(codes) - {"RL_OK", *header.COMMON}


def unprovoked(listed, got):
    return [f"{name}: {code} is listed in abi/functions.yml, but no test provokes it"
            for name, codes in listed.items() for code in codes if code not in got.get(name, ())]


def unlisted(listed, got):
    return [f"{name}: {code} is provoked, but abi/functions.yml does not list it"
            for name, codes in sorted(got.items())
            for code in sorted(told(codes)) if code not in listed.get(name, [])]


def clear(directory):
    shutil.rmtree(directory, ignore_errors=True)
    pathlib.Path(directory).mkdir(parents=True)
    return []


def compare(directory, *arguments):
    cut = arguments.index("--also") if "--also" in arguments else len(arguments)
    programs, also = arguments[:cut], arguments[cut + 1:]
    certain, missing = recorded(directory, programs)
    others, missing_too = recorded(directory, also)
    if not certain and not others:
        print(f"skipped: none of {', '.join(programs + also)} ran")
        sys.exit(SKIPPED)
    problems = [f"{program} left no recording in {directory}" for program in missing + missing_too]
    listed = header.listed_codes()
    if programs:
        problems += unprovoked(listed, certain)
    return problems + list(dict.fromkeys(unlisted(listed, certain) + unlisted(listed, others)))


def write(directory, *programs):
    got, missing = recorded(directory, programs)
    if missing:
        return [f"{program} left no recording in {directory}" for program in missing]
    order = list(code_names().values())
    lists = {f.name: sorted(told(got.get(f.name, ())), key=order.index) for f in with_status()}
    (header.ROOT / "abi/functions.yml").write_text(header.functions_text(lists), encoding="utf-8")
    return []


def self_test():
    listed = {"rl_a": ["RL_BUSY", "RL_LATE"], "rl_b": []}
    whole = {"rl_a": {"RL_OK", "RL_BUSY", "RL_LATE", "RL_FORKED"}, "rl_b": {"RL_STALE_HANDLE"}}
    cases = [
        (whole, []),
        ({**whole, "rl_a": {"RL_BUSY"}}, ["rl_a: RL_LATE is listed"]),
        ({"rl_b": set()}, ["rl_a: RL_BUSY is listed", "rl_a: RL_LATE is listed"]),
        ({**whole, "rl_b": {"RL_IO"}}, ["rl_b: RL_IO is provoked"]),
        ({**whole, "rl_c": {"99"}}, ["rl_c: 99 is provoked"]),
    ]
    problems = []
    for got, wanted in cases:
        found = unprovoked(listed, got) + unlisted(listed, got)
        if len(found) != len(wanted) or not all(map(str.startswith, found, wanted)):
            problems.append(f"{got}: {found} instead of {wanted}")
    return problems


def write_recorder(path):
    pathlib.Path(path).write_text(recorder(), encoding="utf-8")
    return []


COMMANDS = {"recorder": write_recorder, "clear": clear, "compare": compare, "write": write,
            "self-test": self_test}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    found = COMMANDS[sys.argv[1]](*sys.argv[2:])
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
