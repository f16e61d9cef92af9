"""The rule on formatting: C and C++ are as clang-format 14, that of Debian 12, writes them."""
import re
import shutil
import subprocess

from house import tree

VERSION = 14
BATCH = 100
TOPS = ("abi", "bench", "bindings", "examples", "include", "src", "tests")


class Skipped(Exception):
    """Why a rule could not be checked on this machine."""


def program():
    """The clang-format to use. No other version will do: details of the format differ."""
    names = [name for name in (f"clang-format-{VERSION}", "clang-format") if shutil.which(name)]
    if not names:
        raise Skipped("there is no clang-format")
    done = subprocess.run([names[0], "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"version (\d+)", done.stdout)
    if not found or int(found[1]) != VERSION:
        raise Skipped(f"external: {done.stdout.strip()} is not version {VERSION}")
    return names[0]


def formatting(root):
    """Every hand-written C and C++ file is as clang-format 14 with .clang-format writes it."""
    name, problems = program(), []
    paths = [tree.shown(root, path) for path in tree.files(root, TOPS, tree.CPP)]
    for first in range(0, len(paths), BATCH):
        done = subprocess.run([name, "--dry-run", "-Werror", *paths[first:first + BATCH]],
                              capture_output=True, text=True, cwd=root)
        places = re.findall(r"^(\S+:\d+):\d+: error: ", done.stderr, re.MULTILINE)
        problems += [f"{place}: clang-format writes this in another way" for place in places]
        if done.returncode and not places:
            problems.append(done.stderr.strip())
    return problems
