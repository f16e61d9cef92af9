#!/usr/bin/env python3
"""The rules of released.py find what is planted against them in a small tree, and nothing in trees
that keep them; so do the freezing of a version and the comparison of schemas.

usage: released_self_test.py     77: no python3-yaml
"""
import contextlib
import copy
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import facts  # noqa: E402
import freeze_abi  # noqa: E402
import released  # noqa: E402
import schemas  # noqa: E402
import versions  # noqa: E402
from sample_tree import OPTION, SCHEMA, Sample  # noqa: E402


def renamed(text, old, new):
    assert old in text, old
    return text.replace(old, new)


def planted(name, **changes):
    """A change of a sample: attributes by name; a pair (old, new) replaces text."""
    def change(sample):
        for key, value in changes.items():
            before = getattr(sample, key)
            setattr(sample, key, renamed(before, *value) if isinstance(value, tuple) else value)
    change.__name__ = name
    return change


def add(sample):
    sample.functions["rl_added"] = "rl_status"


def drop(sample):
    del sample.functions["rl_get"]


def retype(sample):
    sample.functions["rl_get"] = "unsigned"


def tell(*names):
    return planted(f"tell {names}", changes=" ".join(f"`{name}`" for name in names))


GROWN = planted("a field at the end", fields=["long first", "int second", "int third"])
INSERTED = planted("a field between", fields=["long first", "int between", "int second"])
RENUMBERED = planted("a number", late=51)
DEFAULT = planted("a default", options=("default: 0.5", "default: 0.25"))
METRIC = planted("a metric", metrics=("name: count", "name: amount"))
NEW_OPTION = "- name: b\n  type: bool\n  default: false\n  when: create\n"
# Options that accept less, or mean something else, and those that only accept more.
NARROWED = [("type: f64", "type: i64"), ("unit: steps", "unit: epochs"), ("min: 0", "min: 0.25"),
            ("max: 1", "max: 0.75"), ("max: 1", "max: 1\n  max_open: true"),
            ("min: 0", "min: 0\n  min_open: true"), ("between_steps", "create"),
            ("unit: steps", "unit: steps\n  power_of_two: true"),
            ("unit: steps", "unit: steps\n  not_empty: true"),
            ("unit: steps", "unit: steps\n  flags: [pipeline_only]"),
            ("unit: steps", "unit: steps\n  unsupported_reason: no"),
            ("name: a.rate", "name: a.speed\n  since: 0.2.0")]
WIDENED = [("min: 0", "min: -1"), ("max: 1", "max: 2"), ("  max: 1\n", ""), ("create", "any_time"),
           ("    - name: two", "    - name: two\n    - name: three")]

# (what is frozen, version and soversion of the tree, changes, rule that must speak and its word)
CASES = [
    # The frozen version itself: nothing changes, nothing is added.
    ((0, 1), (0, 1), 0, [], None),
    ((0, 1), (0, 1), 0, [add], ("kept", "rl_added is new")),
    ((0, 1), (0, 1), 0, [add, tell("rl_added")], ("kept", "rl_added is new")),
    ((0, 1), (0, 1), 0, [drop], ("kept", "rl_get is gone")),
    ((0, 1), (0, 1), 0, [retype], ("kept", "rl_get was")),
    ((0, 1), (0, 1), 0, [GROWN], ("kept", "rl_info was")),
    ((0, 1), (0, 1), 0, [RENUMBERED], ("kept", "RL_LATE was")),
    ((0, 1), (0, 1), 0, [DEFAULT], ("kept", "a.rate was")),
    ((0, 1), (0, 1), 0, [METRIC], ("kept", "step count is gone")),
    ((0, 1), (0, 1), 0, [METRIC], ("kept", "eval amount is new")),
    ((0, 1), (0, 1), 1, [], ("sonames", "is librl.so.0 and not librl.so.1")),
    # The next version before 1.0: a soname and a node of its own, and all is told.
    ((0, 1), (0, 2), 1, [], None),
    ((0, 1), (0, 2), 1, [add, tell("rl_added")], None),
    ((0, 1), (0, 2), 1, [add], ("told", "rl_added is new")),
    ((0, 1), (0, 2), 0, [add, tell("rl_added")], ("sonames", "is librl.so.1 and not librl.so.0")),
    ((0, 1), (0, 2), 1, [add, tell("rl_added"), planted("node", nodes={"rl_added": "RL_0.1"})],
     ("symbol_nodes", "rl_added has the node RL_0.1, and it is RL_0.2")),
    ((0, 1), (0, 2), 1, [planted("node", nodes={"rl_get": "RL_0.1"})],
     ("symbol_nodes", "rl_get has the node RL_0.1, and it is RL_0.2")),
    ((0, 1), (0, 2), 1, [planted("map", map="RL_0.2 { global: rl_*; local: *; };\n")],
     ("symbol_nodes", "rl_*: abi/librl.map says RL_0.2")),
    ((0, 1), (0, 2), 1, [planted("names", nodes={"rl_gone": "RL_0.2"})],
     ("symbol_nodes", "rl_gone is not both in rl.h")),
    ((0, 1), (0, 2), 1, [drop], ("told", "rl_get is gone")),
    ((0, 1), (0, 2), 1, [drop, tell("rl_get")], None),
    ((0, 1), (0, 2), 1, [retype], ("told", "rl_get was")),
    ((0, 1), (0, 2), 1, [GROWN], None),
    ((0, 1), (0, 2), 1, [INSERTED], ("told", "rl_info was")),
    ((0, 1), (0, 2), 1, [RENUMBERED], ("told", "RL_LATE was 50 and is 51")),
    ((0, 1), (0, 2), 1, [DEFAULT], ("told", "a.rate default was 0.5 and is 0.25")),
    ((0, 1), (0, 2), 1, [DEFAULT, tell("a.rate")], None),
    ((0, 1), (0, 2), 1, [METRIC], ("told", "eval count is gone")),
    ((0, 1), (0, 2), 1, [METRIC, tell("count")], None),
    ((0, 1), (0, 2), 1, [planted("unit", metrics=("unit: s,", "unit: ms,"))],
     ("told", "step loss/max was s and is ms")),
    ((0, 1), (0, 2), 1, [planted("option", options=OPTION + NEW_OPTION)],
     ("option_since", "b: since is 0.1.0, and it is 0.2.0")),
    ((0, 1), (0, 2), 1, [planted("option", options=OPTION + NEW_OPTION + "  since: 0.2.0\n")],
     None),
    ((0, 1), (0, 2), 1, [planted("since", options=("unit: steps", "since: 0.2.0\n  unit: steps"))],
     ("option_since", "a.rate: since is 0.2.0, and it is 0.1.0")),
    ((0, 1), (0, 3), 1, [], ("succession", "after 0.1 comes 0.2 or 1.0")),
    ((0, 2), (0, 1), 0, [], ("succession", "after 0.2 comes 0.3 or 1.0")),
    ((0, 1), (1, 0), 1, [], None),
    ((0, 1), (1, 0), 0, [], ("sonames", "is librl.so.1 and not librl.so.0")),
    # From 1.0 on: additions under the same soname, each in the node of its version.
    ((1, 0), (1, 1), 0, [add, tell("rl_added")], None),
    ((1, 0), (1, 0), 0, [add], ("kept", "rl_added is new")),
    ((1, 0), (1, 1), 0, [add, tell("rl_added"), planted("node", nodes={"rl_added": "RL_1.0"})],
     ("symbol_nodes", "rl_added has the node RL_1.0, and it is RL_1.1")),
    ((1, 0), (1, 1), 0, [planted("node", nodes={"rl_get": "RL_1.1"})],
     ("symbol_nodes", "rl_get has the node RL_1.1, and it is RL_1.0")),
    ((1, 0), (1, 1), 0, [drop, tell("rl_get")], ("kept", "rl_get is gone")),
    ((1, 0), (1, 1), 0, [DEFAULT, tell("a.rate")], ("kept", "a.rate default was")),
    ((1, 0), (1, 1), 0, [METRIC, tell("count")], ("kept", "step count is gone")),
    ((1, 0), (1, 1), 0, [GROWN], None),
    ((1, 0), (1, 1), 0, [INSERTED, tell("rl_info")], ("kept", "rl_info was")),
    ((1, 0), (1, 1), 1, [drop, tell("rl_get")], ("sonames", "is librl.so.0 and not librl.so.1")),
    ((1, 0), (2, 0), 1, [drop, tell("rl_get")], None),
    ((1, 0), (2, 0), 0, [], ("sonames", "is librl.so.1 and not librl.so.0")),
]
CASES += [((0, 1), (0, 2), 1, [planted(f"{old} -> {new}", options=(old, new))], ("told", "a.rate "))
          for old, new in NARROWED]
CASES += [((0, 1), (0, 2), 1, [planted("choice", options=("    - name: two\n", ""))],
           ("told", "a.mode choices ['two'] are gone"))]
CASES += [((0, 1), (0, 2), 1, [planted(f"{old} -> {new}", options=(old, new))], None)
          for old, new in WIDENED]


def problems_of(root):
    with contextlib.redirect_stdout(io.StringIO()):
        return released.check(root)


def expect(what, found, wanted):
    """None, or how a case differs from what is wanted: no problem, or one of a rule with a word."""
    if wanted is None:
        return f"{what}: {found}" if found else None
    rule, word = wanted
    seen = any(problem.startswith(rule + ": ") and word in problem for problem in found)
    return None if seen else f"{what}: {rule} does not say {word!r}; {found}"


def sample_of(root, frozen, version, soversion):
    """A tree with a frozen version, and the sample of the version that is developed in it."""
    first = Sample(root, frozen, 0)
    if frozen != (0, 1):  # what an option without the field says
        first.options = re.sub(r"^(- name: .*\n)", rf"\1  since: {versions.shown(frozen)}.0\n",
                               first.options, flags=re.M)
    first.freeze()
    sample = copy.deepcopy(first)
    sample.version, sample.soversion = version, soversion
    return sample


def cases():
    for frozen, version, soversion, changes, wanted in CASES:
        what = (f"{versions.shown(frozen)} frozen, tree {versions.shown(version)}, soname "
                f"{soversion}: {', '.join(change.__name__ for change in changes) or 'no change'}")
        with tempfile.TemporaryDirectory() as directory:
            sample = sample_of(pathlib.Path(directory), frozen, version, soversion)
            for change in changes:
                change(sample)
            sample.write()
            yield expect(what, problems_of(sample.root), wanted)


def frozen_files():
    """A frozen file that is changed, lost or added."""
    folder = "abi/released/0.1"
    for what, path, text in (("changed", "rl.h", "int a;"), ("lost", "metrics.txt", None),
                             ("added", "more.txt", "x"), ("changed", "schemas/document.bfbs", "x"),
                             ("lost", "SHA256SUMS", None)):
        with tempfile.TemporaryDirectory() as directory:
            sample = sample_of(pathlib.Path(directory), (0, 1), (0, 2), 1)
            sample.write()
            if text is None:
                (sample.root / folder / path).unlink()
            else:
                (sample.root / folder / path).write_text(text)
            word = f"{folder}/{'rl.h' if path == 'SHA256SUMS' else path} is not what was frozen"
            yield expect(f"{path} is {what}", problems_of(sample.root), ("frozen_files", word))


def frozen_history():
    """A commit that changes a frozen file together with the sums, which alone would pass."""
    if shutil.which("git") is None:
        print("skipped: there is no git")
        return
    with tempfile.TemporaryDirectory() as directory:
        sample = sample_of(pathlib.Path(directory).resolve(), (0, 1), (0, 2), 1)
        sample.write()

        def commit():
            for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
                subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c",
                                "core.hooksPath=/dev/null", "-c", "commit.gpgsign=false", *words],
                               cwd=sample.root, check=True)
        commit()
        yield expect("frozen and committed", problems_of(sample.root), None)
        folder = sample.root / "abi/released/0.1"
        (folder / "host.c").write_text("int main(void) { return 1; }\n")
        (folder / "SHA256SUMS").write_text(released.sums(folder))
        commit()
        yield expect("frozen and committed again", problems_of(sample.root),
                     ("frozen_history", "changes abi/released/0.1"))


def places():
    """Each place that states the version, with that of another one."""
    for path, pattern in released.PLACES:
        with tempfile.TemporaryDirectory() as directory:
            sample = sample_of(pathlib.Path(directory), (0, 1), (0, 2), 1)
            sample.write()
            path = path.replace("librlN", "librl1")
            text = (sample.root / path).read_text()
            number = {"docs": "1", "packaging": "1"}.get(path.split("/")[0], "2")
            if "python" in path and "CDLL" in pattern:
                number = "1"
            if "changelog" in path or "symver" in pattern:
                number = "2"
            sample.put(path, re.sub(rf"(?<!\d){number}(?!\d)", "7", text))
            yield expect(f"{path}: {pattern}", problems_of(sample.root), ("places", path))


def freezing():
    """freeze_abi.py freezes a version once, and only a tree that keeps the rules."""
    if not all(map(shutil.which, ("abidw", "flatc", "cc"))):
        print("skipped: without abidw, flatc and cc nothing is frozen")
        return
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        sample = sample_of(root, (0, 1), (0, 2), 1)
        add(sample)
        sample.write()
        steps = [("rl_added is not told", "rl_added is new", tell("rl_added")),
                 ("all is told", None, tell("rl_added")), ("again", "is frozen", None)]
        for what, word, change in steps:
            with contextlib.redirect_stdout(io.StringIO()):
                found = freeze_abi.main(root)
            if bool(found) != bool(word) or word and word not in found[0]:
                yield f"freezing, {what}: {found}"
            if change:
                change(sample)
                sample.write()
        found = problems_of(root)
        if found or not (root / "abi/released/0.2/schemas/document.bfbs").is_file():
            yield f"what was frozen breaks rules: {found}"


def documents():
    """Schemas that do not keep what a frozen one has."""
    if shutil.which("flatc") is None:
        print("skipped: there is no flatc")
        return
    for text, word in ((SCHEMA, None), (renamed(SCHEMA, "(id: 1)", "(id: 1); three: int (id: 2)"),
                                        None),
                       (renamed(SCHEMA, "one: int", "one: string"), "Document.one was"),
                       (renamed(SCHEMA, "two: string", "second: string"), "Document.two was"),
                       (renamed(SCHEMA, "(id: 1)", "(id: 1, required)"), "is required was"),
                       (None, "has no schema any more")):
        with tempfile.TemporaryDirectory() as directory:
            sample = sample_of(pathlib.Path(directory), (0, 1), (0, 2), 1)
            folder = sample.root / "abi/released/0.1/schemas"
            schemas.compile_all("flatc", [sample.root / "abi/schemas/document.fbs"], folder)
            sample.put("abi/schemas/other.fbs", SCHEMA)
            if text is None:
                (sample.root / "abi/schemas/document.fbs").unlink()
            else:
                sample.put("abi/schemas/document.fbs", text)
            with contextlib.redirect_stdout(io.StringIO()):
                found = schemas.main("flatc", sample.root)
            if bool(found) != bool(word) or word and not any(word in p for p in found):
                yield f"schema {text!r}: {found}"


def main():
    results = [*cases(), *frozen_files(), *frozen_history(), *places(), *freezing(), *documents()]
    problems = [problem for problem in results if problem]
    print(f"{len(CASES)} trees, {len(released.PLACES)} places, {len(problems)} problems")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except facts.Skipped as reason:
        print(f"skipped: {reason}")
        sys.exit(released.SKIPPED)
