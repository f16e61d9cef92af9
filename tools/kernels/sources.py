"""Which kernels an op starts, from the sources: an op's twin and what it calls, by name."""
import re

from house import cpp

OP = re.compile(r"^\s*OP\((\w+), \w+\)", re.M)
LAUNCH = re.compile(r'\blaunch\(\s*"(\w+)"')
NAME = re.compile(r"(\w+)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
                  r"\s*(?:const|noexcept|override|\s)*$")
CALL = re.compile(r"\b(\w+)\s*(?:<[^;{}()]*>)?\(")
TWIN = re.compile(r"void\s+\w+\(Compute&")


def ops(root):
    return OP.findall((root / "src/ops/op_table.h").read_text(encoding="utf-8"))


def functions(root):
    """(name, head, body) of every function of src/ops/cuda."""
    for path in sorted((root / "src/ops/cuda").rglob("*")):
        if path.suffix not in (".cc", ".h", ".cu"):
            continue
        text = path.read_text(encoding="utf-8")
        for block in cpp.blocks(cpp.blanked(text)):
            found = NAME.search(cpp.blanked(block.head).split(" : ")[0])
            if block.kind == "function" and found:
                yield found[1], block.head, text[block.open:block.close]


def kernels_of_ops(root):
    """Op -> sorted names of the kernels that its twin can start; None for an op without a twin."""
    bodies, twins = {}, {}
    for name, head, body in functions(root):
        if TWIN.search(head):
            twins[name] = body
        else:
            bodies.setdefault(name, []).append(body)
    calls = {name: set(CALL.findall("\n".join(texts))) for name, texts in bodies.items()}

    def reached(body):
        seen, todo, found = set(), set(CALL.findall(body)), set(LAUNCH.findall(body))
        while todo:
            name = todo.pop()
            if name in bodies and name not in seen:
                seen.add(name)
                todo |= calls[name]
                found |= {kernel for text in bodies[name] for kernel in LAUNCH.findall(text)}
        return sorted(found)
    return {op: reached(twins[op]) if op in twins else None for op in ops(root)}
