"""Rules on the C++ of src: long functions, large types, and names that are out of place."""
import re

from house import cpp, tree

MAX_FUNCTION_LINES = 70
MAX_MEMBERS = 20
OPTION_RECORD = re.compile(r"(?:Options|Settings)$")
OPTION_READ = re.compile(
    r"[.>]get_(?:bool|i64|u64|f64|string|string_list|i64_list)\("  # whatever names the key
    r"|\b(?:get_text|get_value|is_default|output_path|ids_from)\(\s*(?:\w+,\s*)?"
    r'"[a-z0-9_]+\.[a-z0-9_.]+"')
OPTION_READERS = ("src/options/", "src/pipeline/config/", "src/abi/options_api.cc")
COMPUTE_NAME = re.compile(r"executor|worker|parallel_for|memcpy", re.IGNORECASE)


def blocks_below(root, top):
    """Yields (file as shown, blanked text, block) for every block of the C++ below a folder."""
    for path in tree.files(root, [top], tree.CPP):
        name, text = tree.shown(root, path), cpp.blanked(path.read_text(encoding="utf-8"))
        try:
            blocks = cpp.blocks(text)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        yield from ((name, text, block) for block in blocks)


def functions(root):
    """No function of src has more than 70 lines between its braces."""
    problems = []
    for name, text, block in blocks_below(root, "src"):
        lines = text.count("\n", block.open, block.close) - 1
        if block.kind == "function" and lines > MAX_FUNCTION_LINES:
            number, head = text.count("\n", 0, block.open) + 1, " ".join(block.head.split())
            problems.append(f"{name}:{number}: {lines} lines, at most {MAX_FUNCTION_LINES}: {head}")
    return problems


def members(root):
    """No class or struct of src/pipeline but an option record has more than 20 data members."""
    found = {}
    for name, _, block in blocks_below(root, "src/pipeline"):
        count = sum(map(cpp.members, block.statements))
        if count > MAX_MEMBERS and not OPTION_RECORD.search(cpp.type_name(block.head)):
            found[f"{name} {cpp.type_name(block.head)}"] = count
    return tree.compare(root, "members", found, "data members")


def counts_of(root, tops, pattern):
    """How often a pattern occurs in each C++ file below the tops that has it."""
    found = {tree.shown(root, path): len(pattern.findall(path.read_text(encoding="utf-8")))
             for path in tree.files(root, tops, tree.CPP)}
    return {name: count for name, count in found.items() if count}


def options(root):
    """No option is read by its key outside src/options, src/pipeline/config and rl.h's readers."""
    found = counts_of(root, ["src"], OPTION_READ)
    outside = {name: count for name, count in found.items() if not name.startswith(OPTION_READERS)}
    return tree.compare(root, "options", outside, "options read by key")


def compute(root):
    """Nothing in src/model, src/rollout or src/train names an executor, a worker or memcpy."""
    found = counts_of(root, ["src/model", "src/rollout", "src/train"], COMPUTE_NAME)
    return tree.compare(root, "compute", found, "names of executors, workers or memcpy")
