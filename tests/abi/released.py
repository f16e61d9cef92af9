#!/usr/bin/env python3
"""The rules of abi/POLICY.md on versions: this tree is compared with what is frozen in
abi/released, and with nothing else.

usage: released.py check [ROOT]    every rule below
       released.py list            the rules
"""
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

import facts
import header
import versions

SKIPPED = 77
# What a frozen version has, and no other file but SHA256SUMS.
FILES = {"rl.h", "host.c", "soname", "symbols.txt", "options.txt", "metrics.txt", "librl.abi",
         "schemas"}
# Where the version of the interface stands besides rl.h, and what stands there: V.V, the soname's
# number N.
PLACES = [
    ("CMakeLists.txt", r"project\(rl VERSION V.V\.\d+ "),
    ("examples/c/CMakeLists.txt", r"find_package\(rl V.V REQUIRED "),
    ("bindings/rust/rl-sys/Cargo.toml", r'^version = "V.V\.\d+"$'),
    ("bindings/rust/rl/Cargo.toml", r'^version = "V.V\.\d+"$'),
    ("bindings/go/rl/rl.go", r"^#if RL_ABI_MAJOR != MAJOR \|\| RL_ABI_MINOR COMPARED MINOR$"),
    ("bindings/python/rl/_raw.py", r"^ABI_MAJOR, ABI_MINOR = MAJOR, MINOR$"),
    ("bindings/python/rl/_raw.py", r'^SONAME = "librl\.so\.N"$'),
    ("bindings/python/pyproject.toml", r'^version = "V.V\.\d+"$'),
    ("packaging/debian/changelog", r"\Arl \(V.V\.\d+\) "),
    ("packaging/debian/control", r"^Package: librlN$"),
    ("packaging/debian/rules", r"^RUNTIME = librlN$"),
    ("packaging/debian/librlN.symbols", r"\Alibrl\.so\.N librlN #MINVER#$"),
    ("packaging/debian/librlN.symbols", r"^ \(symver\)RL_V.V V.V\.0$"),
    ("docs/embedding.md", r"`librl\.so\.N`"),
]


class Tree:
    def __init__(self, root):
        self.root = root
        self.version = versions.present(root)
        self.soname = versions.soname(root)
        self.releases = versions.released(root)
        self.last = self.releases[-1] if self.releases else None
        self.facts = facts.of_tree(root)

    @property
    def is_frozen(self):
        return self.last is not None and self.last.version == self.version

    @property
    def breaks_soname(self):
        return self.last is not None and self.last.soname != self.soname

    def text(self, path):
        return versions.text(self.root, path)

    def told(self):
        """The names in backquotes in this version's section of CHANGES.md."""
        sections = re.split(r"^## ", self.text("abi/CHANGES.md"), flags=re.M)
        mine = [s for s in sections if re.match(rf"{versions.shown(self.version)}\b(?!\.)", s)]
        return set(re.findall(r"`([^`\s]+)`", "".join(mine)))


def sums(folder):
    """SHA256SUMS of a frozen version, as a text."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder)}\n"
                   for p in paths)


def frozen_files(tree):
    """A frozen version has the files that it was frozen with, and none of them has changed."""
    for release in tree.releases:
        name = f"abi/released/{versions.shown(release.version)}"
        there = {path.name for path in release.folder.glob("*")}
        yield from (f"{name} has no {file}" for file in sorted(FILES - there))
        before, now = (dict(reversed(line.split("  ")) for line in text.splitlines())
                       for text in (release.text("SHA256SUMS"), sums(release.folder)))
        yield from (f"{name}/{path} is not what was frozen"
                    for path in sorted(before.keys() | now.keys())
                    if before.get(path) != now.get(path))


def git(root, *words):
    """What git says of a repository whose top is root; "" without git or outside of one."""
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def frozen_history(tree):
    """No commit changes a frozen version after the one that added its sums."""
    if shutil.which("git") is None:
        return
    if git(tree.root, "rev-parse", "--show-toplevel").strip() != str(tree.root.resolve()):
        return
    for release in tree.releases:
        name = f"abi/released/{versions.shown(release.version)}"
        added = git(tree.root, "log", "-1", "--diff-filter=A", "--format=%H", "--",
                    f"{name}/SHA256SUMS").strip()
        later = git(tree.root, "log", "--format=%h", f"{added}..HEAD", "--", name) if added else ""
        yield from (f"commit {commit} changes {name}" for commit in later.split())


def succession(tree):
    """The version is the last frozen one, or the one that follows it."""
    if tree.last is None:
        return
    major, minor = tree.last.version
    allowed = [tree.last.version, (major, minor + 1), (major + 1, 0)]
    if tree.version not in allowed:
        yield (f"rl.h is {versions.shown(tree.version)}; after {versions.shown(tree.last.version)} "
               f"comes {versions.shown(allowed[1])} or {versions.shown(allowed[2])}")


def sonames(tree):
    """A frozen version has its soname. The version that follows it has the next one, but a minor
    version from 1.0 on has the same."""
    if tree.last is None:
        return
    same = tree.is_frozen or tree.version[0] == tree.last.version[0] != 0
    number = versions.soname_number(tree.last.soname) + (0 if same else 1)
    if tree.soname != f"librl.so.{number}":
        yield (f"{versions.shown(tree.last.version)} was {tree.last.soname}, so "
               f"{versions.shown(tree.version)} is librl.so.{number} and not {tree.soname}")


def kept(tree):
    """What a frozen version has is as it was: all of it while this version is frozen, what programs
    rely on while the soname is the same."""
    if tree.last is None or tree.breaks_soname:
        return
    compare = facts.differences if tree.is_frozen else facts.breaks
    for name, what in compare(facts.of_release(tree.last), tree.facts):
        yield f"{name} {what}; {versions.shown(tree.last.version)} is frozen"


def told(tree):
    """Each break and each new function is named in this version's section of abi/CHANGES.md."""
    if tree.last is None or tree.is_frozen:
        return
    before = facts.of_release(tree.last)
    found = list(facts.breaks(before, tree.facts))
    found += [(name, "is new") for name, (kind, _) in tree.facts["header"].items()
              if kind == "function" and name not in before["header"]]
    names = tree.told()
    for name, what in found:
        if name.split()[-1] not in names:  # "step actor/loss" is told as `actor/loss`
            yield f"{name} {what}, and abi/CHANGES.md does not say so"


def symbol_nodes(tree):
    """A symbol of a frozen version of this soname keeps its node, any other has the node of this
    version, which no frozen version has."""
    written = dict(line.split("@@") for line in tree.text("abi/symbols.txt").split())
    for name, node in versions.nodes(tree.root, written).items():
        if written[name] != node:
            yield f"{name} has the node {written[name]}, and it is {node}"
    names = {name for name, (kind, _) in tree.facts["header"].items() if kind == "function"}
    yield from (f"{name} is not both in rl.h and in abi/symbols.txt"
                for name in sorted(names ^ written.keys()))
    script = re.sub(r"/\*.*?\*/", "", tree.text("abi/librl.map"), flags=re.S)
    exported = {name: node for node, body in re.findall(r"(RL_[\d.]+) \{(.*?)\}", script, re.S)
                for name in re.findall(r"(rl_\w+|\S*\*);", body.split("local:")[0])}
    for name in sorted(exported.keys() | written.keys()):
        if exported.get(name) != written.get(name):
            yield (f"{name}: abi/librl.map says {exported.get(name)}, abi/symbols.txt "
                   f"{written.get(name)}")


def option_since(tree):
    """`since` of an option in abi/options.yml is the version that brought it."""
    first = {}
    for release in tree.releases:
        first = {**dict.fromkeys(facts.rows(release.text("options.txt")), release.version), **first}
    # gen_options.py says 0.1.0 of an entry without the field.
    said = dict.fromkeys(tree.facts["options"], "0.1.0")
    said.update(re.findall(r"^- name: (\S+)\n(?:  .*\n)*?  since: (\S+)$",
                           tree.text("abi/options.yml"), re.M))
    for name, text in sorted(said.items()):
        wanted = versions.shown(first.get(name, tree.version)) + ".0"
        if text != wanted:
            yield f"{name}: since is {text}, and it is {wanted}"


def places(tree):
    """Every file that states the version of the interface states that of rl.h."""
    major, minor = tree.version
    number = str(versions.soname_number(tree.soname))
    values = {"V.V": rf"{major}\.{minor}", "MAJOR": str(major), "MINOR": str(minor), "N": number,
              "COMPARED": "!=" if major == 0 else "<"}
    words = re.compile(r"V\.V|\bCOMPARED\b|(?<= )M(?:AJ|IN)OR\b|(?<=librl)N\b|(?<=\\\.)N\b")
    for path, pattern in PLACES:
        path = path.replace("librlN", f"librl{number}")
        wanted = words.sub(lambda m: values[m.group()], pattern)
        if not re.search(wanted, tree.text(path), re.M):
            yield f"{path} does not say {wanted}, as rl.h {major}.{minor} and {tree.soname} ask"


RULES = [frozen_files, frozen_history, succession, sonames, kept, told, symbol_nodes, option_since,
         places]


def check(root=header.ROOT):
    tree = Tree(pathlib.Path(root))
    problems = [f"{rule.__name__}: {problem}" for rule in RULES for problem in rule(tree)]
    state = "frozen" if tree.is_frozen else "in development"
    last = versions.shown(tree.last.version) if tree.last else "none"
    print(f"interface {versions.shown(tree.version)} ({tree.soname}) is {state}; the last frozen "
          f"one is {last}; {len(RULES)} rules, {len(problems)} problems")
    return problems


def listed():
    for rule in RULES:
        print(f"{rule.__name__}: {' '.join(rule.__doc__.split())}")
    return []


if __name__ == "__main__":
    commands = {"check": check, "list": listed}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    try:
        found = commands[sys.argv[1]](*sys.argv[2:])
    except facts.Skipped as reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(1 if found else 0)
