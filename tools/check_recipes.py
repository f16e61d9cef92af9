#!/usr/bin/env python3
"""Checks that docs/hacking.md tells of what is there: each path that a recipe, or a row of "Where
things go", names is in the tree, and each name of code is in one of those files.

usage: check_recipes.py                the recipes
       check_recipes.py --self-test    plants wrong recipes; each must be found

A path may have the placeholders NAME and STEM. A file without a folder is in a folder that the same
recipe names, in docs or at the root. A name may also be that of a test.
"""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/hacking.md"
SUFFIXES = {".c", ".cc", ".go", ".h", ".md", ".py", ".rs", ".sh", ".txt", ".yml"}
PLACEHOLDER = re.compile(r"NAME|STEM")
TESTS = "tests/*/CMakeLists.txt"


def units(text):
    """(title, text) of each recipe and of each row of the table."""
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        if title.startswith("Recipe: "):
            yield title, body
        elif title == "Where things go":
            rows = [row for row in body.splitlines() if row.startswith("| ")][1:]
            yield from (("Where things go: " + row.split("|")[1].strip(), row) for row in rows)


def is_path(word):
    return bool(re.fullmatch(r"[\w./*-]+", word)) and (
        "/" in word or pathlib.PurePath(word).suffix in SUFFIXES)


def find(root, word, folders):
    """What a word stands for: a path from the root, or a file in one of the folders."""
    pattern = PLACEHOLDER.sub("*", word)
    return [path for folder in ([""] if "/" in word else sorted(folders))
            for path in root.glob(str(pathlib.PurePath(folder, pattern)))]


def texts(paths):
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file.read_text(encoding="utf-8") for file in files
                    if file.suffix in SUFFIXES and file.is_file())


def problems_of(root, title, body):
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", body)]
    words = [word for span in spans for word in span.split() if is_path(word)]
    folders, named = {"", "docs"}, []
    for word in sorted(words, key=lambda word: "/" not in word):  # those with folders first
        found = find(root, word, folders)
        if not found:
            yield f"{title}: there is no {word}"
        named += found
        folders |= {str((path if path.is_dir() else path.parent).relative_to(root))
                    for path in found}
    code = "\n".join(texts([*named, *root.glob(TESTS)]))
    for span in spans:
        if re.fullmatch(r"[A-Za-z_][\w.]*", span) and not is_path(span) \
                and not PLACEHOLDER.search(span) and not re.search(rf"\b{re.escape(span)}\b", code):
            yield f"{title}: no file that it names has {span}"


def check(root):
    found = list(units((root / PAGE).read_text(encoding="utf-8")))
    problems = [problem for title, body in found for problem in problems_of(root, title, body)]
    return [f"{PAGE}: {problem}" for problem in problems or ([] if found else ["no recipes"])]


def self_test():
    step = "1. `src/a/one.h`: a line of `kOnes`.\n"
    cases = {
        step + "2. `two.cc` and `src/a/NAME.h`; `one_generated` fails, see `page.md`.\n": [],
        "`src/a/three.h`": ["there is no src/a/three.h"],
        "`src/b/NAME.h`": ["there is no src/b/NAME.h"],
        step + "`python3 tools/gen.py --check`": ["there is no tools/gen.py"],
        step + "`four.cc`": ["there is no four.cc"],
        "`two.cc`": ["there is no two.cc"],
        step + "`kTwos`": ["no file that it names has kTwos"],
        "`src/a/two.cc`: `kOnes`": ["no file that it names has kOnes"],
    }
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for path, text in {"src/a/one.h": "kOnes = 1;", "src/a/two.cc": "kOnesMore", PAGE: "",
                           "docs/page.md": "", "tests/a/CMakeLists.txt": "NAME one_generated"
                           }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        for body, want in cases.items():
            row = f"| a thing | {' '.join(body.split())} |\n"
            for title, page in (("Recipe: a thing", f"## Recipe: a thing\n\n{body}\n## End\n"),
                                ("Where things go: a thing",
                                 f"## Where things go\n\n| to add | touch |\n|---|---|\n{row}")):
                (root / PAGE).write_text(page, encoding="utf-8")
                wanted = [f"{PAGE}: {title}: {problem}" for problem in want]
                if check(root) != wanted:
                    print(f"self-test: {body!r}: wanted {wanted}, found {check(root)}")
                    return 1
        (root / PAGE).write_text("## How to: a thing\n", encoding="utf-8")
        if check(root) != [f"{PAGE}: no recipes"]:
            print("self-test: a page without recipes is accepted")
            return 1
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    problems = check(ROOT)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
