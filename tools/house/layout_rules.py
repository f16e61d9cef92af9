"""Rules on files as such: their columns, their stems, and how many of them a folder has."""
import collections
import re

from house import tree

MAX_COLUMNS = 100
MAX_FOLDER_FILES = 43
TEXTS = tree.CPP | {".py", ".sh", ".cmake", ".in", ".rs", ".go", ".md",
                    "CMakeLists.txt", "Makefile", "run"}
TABLE_ROW = re.compile(r"^\s*\|")
ONE_WORD = re.compile(r"^\s*(?:(?://+|#+|[-*>]|\d+\.)\s+)?\S+$")


def columns(root):
    """No line of source, build file, script or document has more than 100 columns.

    Left out are generated files, fixtures, data such as YAML, rows of Markdown tables, and lines of
    one word, such as a link: nobody can break them.
    """
    at_top = sorted(path for path in root.iterdir() if tree.is_kind(path, TEXTS))
    problems = []
    for path in [*at_top, *tree.files(root, tree.TOPS, TEXTS)]:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if len(line) > MAX_COLUMNS and not unbreakable(path, line):
                problems.append(f"{tree.shown(root, path)}:{number}: {len(line)} columns, "
                                f"at most {MAX_COLUMNS}")
    return problems


def unbreakable(path, line):
    return bool(ONE_WORD.match(line)) or path.suffix == ".md" and bool(TABLE_ROW.match(line))


def stems(root):
    """No two files in different folders of src have one stem, nor two of tests."""
    found = {}
    for top, kinds in (("src", tree.CPP), ("tests", tree.CPP | {".py"})):
        places = collections.defaultdict(set)
        for path in tree.files(root, [top], kinds):
            places[path.name.split(".")[0]].add(path.parent)
        found.update({f"{top} {stem}": len(those) for stem, those in places.items()
                      if len(those) > 1})
    return tree.compare(root, "stems", found, "folders have this stem")


def folders(root):
    """No folder of src has more than 43 files directly in it."""
    counts = collections.Counter(path.parent for path in (root / "src").rglob("*")
                                 if path.is_file())
    return [f"{tree.shown(root, folder)}: {count} files, at most {MAX_FOLDER_FILES}"
            for folder, count in sorted(counts.items()) if count > MAX_FOLDER_FILES]
