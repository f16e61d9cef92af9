#!/usr/bin/env python3
"""Checks that the code in README.md and docs/embedding.md is what the files named with it hold.

A block of code is quoted in one of two ways. Below a link to a file, its lines stand in that file:

    From [examples/c/4_grpo.c](../examples/c/4_grpo.c):

Below a comment that names a file and a region, it is that region without its indentation:

    <!-- tests/embedding/parts_loop.c: open -->

A region lies between the lines "/* region: NAME */" and "/* end of region */". Every region of the
programs in tests/embedding, and of other files with a region that is quoted, is quoted, and in
docs/embedding.md no block of any language is without a source, except for figures ("text").

usage: check_readme.py [--write | --self-test]    --write copies the regions into the pages
"""
import pathlib
import re
import sys
import tempfile
import textwrap

README, EMBEDDING = "README.md", "docs/embedding.md"
PAGES = [README, EMBEDDING]
PROGRAMS = "tests/embedding"
LANGUAGES = ("c", "go", "python", "rust")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[((?:examples|bindings)/[^\]]+)\](?:(?!\n\n|\[).)*\n\n\Z", re.S)
MARK = re.compile(r"^<!-- (\S+): (\S+) -->\n\Z", re.M)
REGION = re.compile(r"^ *(?:/\*|//|#) region: (\w+)(?: \*/)?\n(.*?)"
                    r"^ *(?:/\*|//|#) end of region(?: \*/)?$", re.M | re.S)


def regions_of(path):
    """The regions of a file by name, without their indentation. A name twice is an error."""
    found = {}
    for name, code in REGION.findall(path.read_text(encoding="utf-8")):
        if name in found:
            raise ValueError(f"{path} has two regions {name}")
        found[name] = textwrap.dedent(code)
    return found


class Page:
    """A page, the problems of its blocks, and its text with the regions as they are now."""

    def __init__(self, root, name):
        self.root, self.name, self.quoted, self.problems = root, name, set(), []
        text = (root / name).read_text(encoding="utf-8")
        self.num_blocks, parts, end = 0, [], 0
        for block in BLOCK.finditer(text):
            parts += [text[end:block.start(2)], self.block(text[:block.start()], *block.groups())]
            end = block.end(2)
        self.text = "".join(parts) + text[end:]
        if self.num_blocks == 0:
            self.problems.append(f"{name}: quotes no code")

    def block(self, before, language, code):
        """The code as it has to be."""
        if mark := MARK.search(before):
            return self.region(code, *mark.groups())
        if link := LINK.search(before):
            self.num_blocks += 1
            if code not in (self.root / link[1]).read_text(encoding="utf-8"):
                self.problem(code, f"the code quoted from {link[1]} is no longer in it")
        elif language in LANGUAGES or self.name == EMBEDDING and language != "text":
            self.problem(code, "a block of code names no file")
        return code

    def region(self, code, path, name):
        self.num_blocks += 1
        self.quoted.add((path, name))
        file = self.root / path
        wanted = regions_of(file).get(name) if file.is_file() else None
        if wanted is None:
            self.problem(code, f"{path} has no region {name}")
            return code
        if code != wanted:
            self.problem(code, f"the block differs from region {name} of {path}; "
                               "tools/check_readme.py --write copies it")
        return wanted

    def problem(self, code, text):
        first = code.splitlines()[0] if code else "(an empty block)"
        self.problems.append(f"{self.name}: {text}: {first}")


def problems_of(pages, root):
    quoted = set().union(*(page.quoted for page in pages))
    for page in pages:
        yield from page.problems
    programs = {str(path.relative_to(root)) for path in (root / PROGRAMS).glob("*.[ch]")}
    for name in sorted(programs | {name for name, _ in quoted if (root / name).is_file()}):
        path = root / name
        regions = regions_of(path)
        if path.read_text(encoding="utf-8").count("region: ") != len(regions):
            yield f"{name}: a region has no end"
        yield from (f"{name}: no page quotes region {region}"
                    for region in regions if (name, region) not in quoted)


def check(root):
    return list(problems_of([Page(root, page) for page in PAGES], root))


def self_test():
    """A tree of two pages and two files, and what is said when one of them changes."""
    good = {
        README: "```sh\nls\n```\n\nFrom [examples/c/a.c](examples/c/a.c):\n\n```c\nint a;\n```\n",
        EMBEDDING: "<!-- tests/embedding/b.c: one -->\n```c\nint b;\n  int c;\n```\n",
        "examples/c/a.c": "int a;\n",
        "tests/embedding/b.c":
            "  /* region: one */\n  int b;\n    int c;\n  /* end of region */\n",
    }
    cases = {
        "": ("", "", ""),
        "no longer in it": ("examples/c/a.c", "int a", "int z"),
        "differs from region": ("tests/embedding/b.c", "int c", "long c"),
        "has no region": ("tests/embedding/b.c", "region: one", "region: two"),
        "no page quotes": (EMBEDDING, "<!-- tests/embedding/b.c: one -->\n", ""),
        "names no file": (EMBEDDING, "```c\n", "```\nx\n```\n\n```c\n"),
        "has no end": ("tests/embedding/b.c", "  /* end of region */\n", ""),
        "quotes no code": (README, good[README], "text\n"),
    }
    failed = 0
    for expected, (changed, old, new) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in good.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text.replace(old, new) if name == changed else text)
            found = check(root)
        if bool(found) != bool(expected) or not any(expected in p for p in found or [""]):
            print(f"expected '{expected}', found {found}")
            failed = 1
    return failed


def main(root, arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments == ["--write"]:
        for page in PAGES:
            (root / page).write_text(Page(root, page).text, encoding="utf-8")
    elif arguments:
        sys.exit(__doc__)
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(__file__).resolve().parent.parent, sys.argv[1:]))
