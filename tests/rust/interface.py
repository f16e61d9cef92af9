#!/usr/bin/env python3
"""The interface of crate rl can grow: its documentation names no type of rl-sys, and every struct
with public fields and every enum is non-exhaustive. Broken links of the documentation fail too.

usage: interface.py CARGO MANIFEST TARGET_DIRECTORY
       interface.py --self-test
"""
import html
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/abi"))
sys.dont_write_bytecode = True
import header  # noqa: E402

WHOLE = {"Bf16"}  # structs that will never have another field


def declared():
    """Structs and handles of rl.h, and what DLPack declares."""
    return set(header.structs()) | set(header.handle_types()) | {"DLManagedTensorVersioned"}


def code_of(page):
    """What a page has as code: signatures, fields and examples, without the code within prose."""
    blocks = re.findall(r"<(pre|h3|h4)\b[^>]*>(.*?)</\1>", page, re.S)
    fields = re.findall(r'id="structfield\.()[^>]*>(.*?)</span>', page, re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)) for _, text in blocks + fields)


def problems_of(name, page, foreign):
    kind, _, item = name.rpartition("/")[2].partition(".")
    item = item.removesuffix(".html")
    for word in sorted(set(re.findall(r"\w+", code_of(page))) & foreign):
        yield f"{name} shows {word} of rl-sys"
    fields = 'id="structfield.' in page
    if (kind == "enum" or kind == "struct" and fields) and "non-exhaustive" not in page:
        if item not in WHOLE:
            yield f"{kind} {item} cannot grow: it is not #[non_exhaustive]"


def problems(directory):
    pages = {str(path.relative_to(directory)): path.read_text(encoding="utf-8")
             for path in pathlib.Path(directory).rglob("*.html") if "src" not in path.parts}
    pages = {name: page for name, page in pages.items() if 'http-equiv="refresh"' not in page}
    if "struct.Engine.html" not in pages or "enum.Status.html" not in pages:
        return [f"{directory} does not have the documentation of rl"]
    return [p for name, page in sorted(pages.items()) for p in problems_of(name, page, declared())]


def main(cargo, manifest, target):
    shutil.rmtree(pathlib.Path(target, "doc"), ignore_errors=True)
    done = subprocess.run([cargo, "doc", "--offline", "--locked", "--no-deps", "--package", "rl",
                           "--manifest-path", manifest, "--target-dir", target],
                          env={**os.environ, "RUSTDOCFLAGS": "-D warnings"}, check=False)
    if done.returncode != 0:
        return done.returncode
    found = problems(pathlib.Path(target, "doc/rl"))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


def self_test():
    """Planted pages are found, and good ones are not."""
    foreign = {"rl_engine_stats"}
    field = '<span id="structfield.a"><code>a: rl_u64</code></span>'
    for name, page, count in (
            ("type.Stats.html", "<pre>type Stats = <a>rl_engine_stats</a>;</pre>", 1),
            ("struct.Stats.html", "<p>as rl_engine_stats says</p>", 0),
            ("struct.Stats.html", field, 1), ("struct.Bf16.html", field, 0),
            ("struct.Stats.html", f'<div class="non-exhaustive">{field}</div>', 0),
            ("enum.Status.html", "<pre>pub enum Status</pre>", 1)):
        found = list(problems_of(name, page, foreign))
        if len(found) != count:
            sys.exit(f"{name} {page!r}: {found}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 4 else __doc__)
