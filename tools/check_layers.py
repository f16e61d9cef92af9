#!/usr/bin/env python3
"""Checks the source tree against src/LAYERS.

A file of src/FOLDER may include librl headers of FOLDER itself and of the folders its row lists. A
sub-folder counts as a separate folder: it inherits neither the row of its parent nor the right to
be included. Only src/abi may include rl.h; every folder with sources has a row; no source file of
src/, tests/, tools/, bench/, bindings/ or examples/ exceeds 800 lines, except generated tables
(*.gen.cc, _raw.py), which grow with what they list.
--self-test plants one violation of each kind in a temporary tree and fails unless each is found.
"""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cc", ".c", ".py"}
MAX_LINES = 800
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def read_layers(root):
    rows = {}
    for line in (root / "src/LAYERS").read_text().splitlines():
        text = line.split("#")[0].strip()
        if not text:
            continue
        head, _, allowed = text.partition(":")
        rows[head.split()[-1]] = set(allowed.split())
    return rows


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def check_include(path, folder, name, quoted, rows):
    if pathlib.PurePath(name).name == "rl.h":
        return None if folder.split("/")[0] == "abi" else "rl.h belongs to src/abi alone"
    other = str(pathlib.PurePath(name).parent)
    if other in rows:
        if other == folder or other in rows[folder]:
            return None
        return f"{folder} may not include {other}"
    if quoted:
        return f'"{name}" is no path from src/'
    return None


def check_tree(root):
    rows, problems = read_layers(root), []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cc"}:
            continue
        folder = str(path.relative_to(root / "src").parent)
        shown = path.relative_to(root)
        if folder not in rows:
            problems.append(f"{shown}: folder {folder} has no row in src/LAYERS")
            continue
        for number, kind, name in includes(path):
            problem = check_include(path, folder, name, kind == '"', rows)
            if problem:
                problems.append(f"{shown}:{number}: {problem}")
    for folder, allowed in rows.items():
        problems += [f"src/LAYERS: {folder} lists {other}, which has no row"
                     for other in sorted(allowed - set(rows))]
    return problems + long_files(root)


def long_files(root):
    problems = []
    for top in ("src", "tests", "tools", "bench", "bindings", "examples"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and not path.name.endswith(
                    (".gen.cc", "_raw.py")):
                lines = len(path.read_bytes().splitlines())
                if lines > MAX_LINES:
                    problems.append(f"{path.relative_to(root)}: {lines} lines, at most {MAX_LINES}")
    return problems


def plant(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        plant(root, "src/LAYERS", "# comment\n1 core :\n2 ops : core\n2 ops/cpu : ops core\n"
              "3 model : ops core ghost\n6 abi : core\n")
        plant(root, "src/core/good.cc", '#include "core/good.h"\n#include <vector>\n')
        plant(root, "src/ops/good.cc", '#include "core/good.h"\n#include "ops/good.h"\n')
        plant(root, "src/abi/good.cc", '#include <rl.h>\n')
        plant(root, "src/core/up.cc", '\n#include "ops/good.h"\n')
        plant(root, "src/ops/angle.cc", '#include <model/x.h>\n')
        plant(root, "src/ops/cpu/good.cc", '#include "core/good.h"\n#include "ops/good.h"\n')
        plant(root, "src/ops/down.cc", '#include "ops/cpu/x.h"\n')
        plant(root, "src/model/down.cc", '#include "ops/cpu/x.h"\n')
        plant(root, "src/ops/cuda/a.cu.h", "")
        plant(root, "src/ops/header.cc", '#include "rl.h"\n')
        plant(root, "src/ops/relative.cc", '#include "good.h"\n')
        plant(root, "src/stray/a.cc", "")
        plant(root, "tests/long.cc", "\n" * 801)
        plant(root, "src/core/table.gen.cc", "\n" * 801)
        want = ["src/core/up.cc:2: core may not include ops",
                "src/ops/angle.cc:1: ops may not include model",
                "src/ops/down.cc:1: ops may not include ops/cpu",
                "src/model/down.cc:1: model may not include ops/cpu",
                "src/ops/cuda/a.cu.h: folder ops/cuda has no row in src/LAYERS",
                "src/ops/header.cc:1: rl.h belongs to src/abi alone",
                'src/ops/relative.cc:1: "good.h" is no path from src/',
                "src/stray/a.cc: folder stray has no row in src/LAYERS",
                "src/LAYERS: model lists ghost, which has no row",
                "tests/long.cc: 801 lines, at most 800"]
        found = check_tree(root)
    if sorted(found) != sorted(want):
        print("self-test: wanted\n  " + "\n  ".join(sorted(want)) + "\nfound\n  "
              + "\n  ".join(sorted(found)))
        return 1
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    problems = check_tree(ROOT)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
