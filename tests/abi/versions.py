"""Versions of the interface: the one that this tree develops, those that are frozen in
abi/released, and which symbol node and `since` a function has because of them."""
import re


def text(root, path):
    file = root / path
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def present(root):
    """(major, minor) of rl.h."""
    numbers = dict(re.findall(r"^#define RL_ABI_(MAJOR|MINOR) (\d+)$", text(root, "include/rl.h"),
                              re.M))
    return int(numbers["MAJOR"]), int(numbers["MINOR"])


def cmake_value(root, pattern):
    return re.search(pattern, text(root, "CMakeLists.txt")).group(1)


def soname(root):
    return "librl.so." + cmake_value(root, r"set\(RL_SOVERSION (\d+)\)")


def soname_number(name):
    return int(name.rsplit(".", 1)[1])


def shown(version):
    return ".".join(map(str, version))


def node(version):
    return "RL_" + shown(version)


class Release:
    """abi/released/VERSION: files that never change."""

    def __init__(self, folder):
        self.folder = folder
        self.version = tuple(map(int, folder.name.split(".")))

    def text(self, name):
        return text(self.folder, name)

    @property
    def soname(self):
        return self.text("soname").strip()

    @property
    def symbols(self):
        """Node of each function."""
        return dict(line.split("@@") for line in self.text("symbols.txt").split())


def released(root):
    """Frozen versions, the oldest first."""
    folders = [path for path in (root / "abi/released").glob("*") if path.is_dir()]
    return sorted((Release(folder) for folder in folders), key=lambda r: r.version)


def series(root):
    """Frozen versions that this library replaces: those of its soname."""
    return [release for release in released(root) if release.soname == soname(root)]


def nodes(root, names):
    """The node of each function: that of the first version of this soname that has it."""
    known = {}
    for release in series(root):
        known = {**release.symbols, **known}
    return {name: known.get(name, node(present(root))) for name in names}


def since(root, names):
    """The first version that has each function."""
    first = {}
    for release in released(root):
        first = {**dict.fromkeys(release.symbols, f"{shown(release.version)}.0"), **first}
    return {name: first.get(name, f"{shown(present(root))}.0") for name in names}


def script(nodes):
    """The version script of symbols: a node for each version that brought some, the oldest
    first."""
    members = {}
    for name, node in nodes.items():
        members.setdefault(node, []).append(name)
    out, before = [], ""
    for node in sorted(members, key=lambda node: [int(n) for n in re.findall(r"\d+", node)]):
        rest = "" if before else "  local:\n    *;\n"
        names = "".join(f"    {name};\n" for name in members[node])
        out.append(f"{node} {{\n  global:\n{names}{rest}}}{before};\n")
        before = " " + node
    return "".join(out)
