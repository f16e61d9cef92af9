#!/usr/bin/env python3
"""Writes docs/reference/*.md, a page for each section of include/rl.h, from the header,
abi/functions.yml, abi/errors.yml and the keys of abi/options.yml.

With --check nothing is written; if files are stale, they are named and the exit status is 1.
"""
import argparse
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "docs/reference"
sys.path.insert(0, str(ROOT / "tests/abi"))
import header  # noqa: E402  the one parser of rl.h

ITEM = re.compile(r"/\* ---- (?P<section>.*?) ---- \*/|/\*(?P<comment>.*?)\*/|"
                  r"(?P<function>RL_API [^;]*;)|"
                  r"(?P<code>^(?:typedef [^{;]*\{.*?^\} \w+;|enum \{.*?\};|typedef [^{;]*;|"
                  r"#define RL_(?!H$|API)[^\n]*))", re.S | re.M)
NAME = re.compile(r"`[^`]*`|\brl_xxx\*|\*\w+|\b(?:rl|RL)_\w+|\b[a-z]+(?:\.[a-z_0-9]+)+")
WIDTH = 100  # columns of prose and prototypes
GENERATED = "Generated from `include/rl.h` and `abi/` by `tools/gen_reference.py`.\n"


class Page:
    """A section of the header: its parts in order, each (kind, text); a function's text is its
    name."""

    def __init__(self, title):
        self.title, self.parts = title, []
        self.file = title.replace(" ", "_") + ".md"

    def functions(self):
        return [text for kind, text in self.parts if kind == "function"]


def entries(path):
    """The fields of every entry of a generated table, by name."""
    found = {}
    for entry in header.read(path).split("- name: ")[1:]:
        name, *lines = entry.strip().split("\n")
        found[name] = {key.strip(): value.strip().strip('"')
                       for key, value in (line.split(":", 1) for line in lines)}
    return found


def plain(comment):
    """A comment's text without its stars."""
    return textwrap.dedent(re.sub(r"^ \*", "", " *" + comment.rstrip(), flags=re.M)).strip("\n")


def pages():
    """The header's sections. A comment right above constants belongs to them and is shown with
    them."""
    body = header.header_text().split('extern "C" {')[1].split("#endif", 1)[1]
    body = body.rsplit("#ifdef __cplusplus", 1)[0]
    found = []
    for match in ITEM.finditer(body):
        kind = match.lastgroup
        text = match.group(kind)
        if kind == "section":
            found.append(Page(text))
        elif kind == "comment":
            found[-1].parts.append((kind, plain(text)))
        elif kind == "function":
            found[-1].parts.append((kind, re.search(r"(rl_\w+)\(", text).group(1)))
        else:
            found[-1].parts.append((kind, text))
    return found


class Writer:
    """Turns parts into Markdown. Names of functions and options become links."""

    def __init__(self, all_pages):
        self.page_of = {name: page.file for page in all_pages for name in page.functions()}
        self.options = set(re.findall(r"^- name: (\S+)", header.read("abi/options.yml"), re.M))
        self.functions = {f.name: f for f in header.functions()}
        self.facts = entries("abi/functions.yml")

    def link(self, match, page):
        """Formats a name as code, with a link if it has a target; existing code is kept."""
        word = match.group()
        if word in self.page_of:
            file = self.page_of[word]
            return f"[`{word}`]({'' if page and file == page.file else file}#{word})"
        if word in self.options:
            return f"[`{word}`](../options.md#{word.replace('.', '')})"
        return f"`{word}`" if re.match(r"rl_|RL_|\*\w", word) else word

    def prose(self, text, page):
        """Paragraphs, and indented lines as code."""
        out = []
        for block in re.split(r"\n\s*\n", text):
            indented = [line.startswith("  ") for line in block.split("\n")]
            if any(indented):
                cut = indented.index(True)
                words = block.split("\n")
                out += [self.paragraph(" ".join(words[:cut]), page)] if cut else []
                code = [line for line in words[cut:] if line.startswith("  ")]
                out.append("```text\n" + textwrap.dedent("\n".join(code)) + "\n```")
                rest = " ".join(line for line in words[cut:] if not line.startswith("  "))
                out += [self.paragraph(rest, page)] if rest else []
            elif block.strip():
                out.append(self.paragraph(" ".join(block.split()), page))
        return "\n\n".join(out)

    def paragraph(self, text, page):
        text = text.replace("<", "&lt;")
        linked = NAME.sub(lambda m: self.link(m, page), text)
        return textwrap.fill(linked, WIDTH, break_long_words=False, break_on_hyphens=False)

    def prototype(self, function):
        # No break inside a parameter.
        stuck = [f"{kind} {name}".replace(" ", "\0") for kind, name in function.parameters]
        arguments = ", ".join(stuck) or "void"
        line = f"{function.result} {function.name}({arguments});"
        indent = " " * (len(function.result) + len(function.name) + 2)
        lines = textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False)
        return lines.replace("\0", " ")

    def function(self, name, page):
        function, facts = self.functions[name], self.facts[name]
        text = re.sub(r"\s*Thread:\s+[^.]*\.", "", plain_lines(function.comment))
        notes = [f"Thread: {facts['thread']}", f"since {facts['since']}"]
        if "may_be_null" in facts:
            names = facts["may_be_null"].strip("[]").split(", ")
            notes.append("may be NULL: " + ", ".join(f"`{n}`" for n in names))
        if facts["ownership"] != "nothing changes hands":
            notes.append(re.sub(r"\brl_\w+", lambda m: self.link(m, page), facts["ownership"]))
        if codes := facts.get("codes", "[]").strip("[]"):
            notes.append("codes: " + ", ".join(f"`{code}`" for code in codes.split(", ")))
        note = textwrap.fill("; ".join(notes) + ".", WIDTH, break_long_words=False,
                             break_on_hyphens=False)
        return (f"### {name}\n\n```c\n{self.prototype(function)}\n```\n\n"
                f"{self.prose(text, page)}\n\n{note}")

    def page(self, page):
        out = [f"# rl.h: {page.title}", GENERATED.strip()]
        parts = page.parts
        for i, (kind, text) in enumerate(parts):
            following = parts[i + 1][0] if i + 1 < len(parts) else ""
            if kind == "comment" and following != "function":
                out.append(self.prose(text, page))
            elif kind == "code":
                before, above = parts[i - 1] if i else ("", "")
                joined = kind == before and "{" not in text + above
                block = f"```c\n{text}\n```"
                out[-1:] = [out[-1][:-4] + f"\n{text}\n```"] if joined else [out[-1], block]
            elif kind == "function":
                out.append(self.function(text, page))
        return "\n\n".join(out) + "\n"


def plain_lines(comment):
    lines = (line[1:] if line.startswith(" ") else line for line in comment.split("\n"))
    return textwrap.dedent("\n".join(lines)).strip("\n")


def index(all_pages, writer):
    conventions = plain(re.match(r"/\*(.*?)\*/", header.header_text(), re.S).group(1))
    out = ["# Reference of rl.h", GENERATED.strip(), "## Pages"]
    out.append("\n".join(f"- [{page.title}]({page.file})" for page in all_pages))
    about, rules = conventions.split("\n\nCONVENTIONS\n\n")
    out[2:2] = [writer.prose(about, None)]
    out += ["## Conventions", writer.prose(rules, None), "## Status codes"]
    common = ", ".join(f"`{code}`" for code in header.COMMON)
    out.append(f"Every call that can fail may return {common}. The pages list what else a function "
               "may return beside `RL_OK`.")
    rows = [f"| `{name}` | {row['value']} | {row['doc']} |"
            for name, row in entries("abi/errors.yml").items()]
    out.append("\n".join(["| status | value | meaning |", "|---|---|---|", *rows]))
    facts = sorted(writer.facts.items())
    rows = [f"| [`{name}`]({writer.page_of[name]}#{name}) | {row['thread']} | {row['since']} |"
            for name, row in facts]
    out += ["## Functions", "\n".join(["| function | thread | since |", "|---|---|---|", *rows])]
    return "\n\n".join(out) + "\n"


def contents():
    all_pages = pages()
    writer = Writer(all_pages)
    missing = set(writer.functions) ^ set(writer.page_of)
    if missing:
        sys.exit(f"{sorted(missing)} is on no page, or not in rl.h")
    return {"README.md": index(all_pages, writer),
            **{page.file: writer.page(page) for page in all_pages}}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wanted = contents()
    found = {path.name: path.read_text(encoding="utf-8") for path in OUT.glob("*.md")}
    stale = sorted(name for name in wanted.keys() | found.keys()
                   if wanted.get(name) != found.get(name))
    if check:
        for name in stale:
            print(f"docs/reference/{name} is stale; run "
                  "tools/gen_reference.py", file=sys.stderr)
        return 1 if stale else 0
    OUT.mkdir(exist_ok=True)
    for name in stale:
        if name in wanted:
            (OUT / name).write_text(wanted[name], encoding="utf-8")
        else:
            (OUT / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
