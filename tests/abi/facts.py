"""What programs rely on in a version of the interface, as plain values: declarations of its header,
options and metrics. `breaks` says what a newer version takes from them; only additions are none.

An interface is {"header": {...}, "options": {...}, "metrics": {...}}. Registries are read with
python3-yaml; without it `Skipped` is raised.
"""
import itertools
import json
import re

import header

# Fields of an option that programs rely on, with what an entry without the field means.
OPTION_FIELDS = {"type": None, "default": None, "min": None, "max": None, "min_open": False,
                 "max_open": False, "power_of_two": False, "not_empty": False, "unit": None,
                 "when": None, "choices": [], "pipeline_only": False, "unsupported": False}
WHEN = ["create", "between_steps", "any_time"]  # each allows what those before it allow


class Skipped(Exception):
    """Why the registries could not be read on this machine."""


def plain(text):
    """C text without comments, in one line."""
    return " ".join(re.sub(r"/\*.*?\*/", " ", text, flags=re.S).split())


def of_header(text):
    """Name -> (kind, value). The value of a struct is the list of its fields."""
    found = {f.name: ("function", f"{f.result}({', '.join(kind for kind, _ in f.parameters)})")
             for f in header.functions(text)}
    for name, body in header.structs(text).items():
        found[name] = ("struct", [field.strip() for field in plain(body).split(";")
                                  if field.strip()])
    bare = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    for declaration in re.findall(r"^typedef [^{};]*;", bare, re.M):
        name = re.search(r"\(\*(rl_\w+)\)|(rl_\w+);$", declaration)
        found[name.group(1) or name.group(2)] = ("type", plain(declaration))
    for line in header.constants_text(text).splitlines():
        name, number = line.split()
        found[name] = ("constant", number)
    return found


def of_options(entries):
    """Key -> fields of OPTION_FIELDS; those that an entry does not have are left out."""
    found = {}
    for entry in entries:
        row = {field: entry[field] for field in OPTION_FIELDS if field in entry}
        if "choices" in row:
            row["choices"] = [choice["name"] for choice in row["choices"]]
        if "pipeline_only" in entry.get("flags", []):
            row["pipeline_only"] = True
        if "unsupported_reason" in entry:
            row["unsupported"] = True
        found[entry["name"]] = row
    return found


def of_metrics(table):
    """"EVENT NAME" -> unit, for every name that a pattern stands for."""
    found = {}
    for metric in table["metrics"]:
        keys = re.findall(r"\{([a-z]+)\}", metric["name"])
        for values in itertools.product(*(table["placeholders"][k]["values"] for k in keys)):
            name = metric["name"]
            for key, value in zip(keys, values):
                name = name.replace("{" + key + "}", value)
            found.update({f"{event} {name}": str(metric["unit"]) for event in metric["in"]})
    return found


def of_tree(root):
    try:
        import yaml
    except ImportError as error:
        raise Skipped("python3-yaml is not installed") from error

    def read(path):
        return (root / path).read_text(encoding="utf-8")
    return {"header": of_header(read("include/rl.h")),
            "options": of_options(yaml.safe_load(read("abi/options.yml"))),
            "metrics": of_metrics(yaml.safe_load(read("abi/metrics.yml")))}


def of_release(release):
    return {"header": of_header(release.text("rl.h")), "options": rows(release.text("options.txt")),
            "metrics": rows(release.text("metrics.txt"))}


def lines(table):
    """A table as a file: a line for each row, the key and the value as JSON, split by a tab."""
    return "".join(f"{key}\t{json.dumps(value)}\n" for key, value in sorted(table.items()))


def rows(text):
    return {key: json.loads(value) for key, value in (line.split("\t")
                                                      for line in text.splitlines())}


def shown(value):
    """A value in a message; of a declaration, which has a kind as well, what it says."""
    return value[1] if isinstance(value, tuple) else value


def differences(old, new):
    """(name, what differs) of everything that is not equal, additions as well."""
    for part in old:
        for name in sorted(old[part].keys() | new[part].keys()):
            before, now = old[part].get(name), new[part].get(name)
            if before is None:
                yield name, "is new"
            elif now is None:
                yield name, "is gone"
            elif before != now:
                yield name, f"was {shown(before)} and is {shown(now)}"


def breaks(old, new):
    """(name, what differs) of everything that a program of the old interface may trip over."""
    for part in old:
        for name, before in sorted(old[part].items()):
            now = new[part].get(name)
            if now is None:
                yield name, "is gone"
            elif part == "options":
                yield from ((name, text) for text in narrowed(before, now))
            elif before != now and not grown(before, now):
                yield name, f"was {shown(before)} and is {shown(now)}"


def grown(before, now):
    """A struct with fields behind those that it had."""
    return (before[0], now[0]) == ("struct", "struct") and now[1][:len(before[1])] == before[1]


def narrowed(before, now):
    """Texts on how an option accepts less than before, or means something else."""
    def value(row, field):
        return row.get(field, OPTION_FIELDS[field])
    for field in ("type", "default", "unit"):
        if value(before, field) != value(now, field):
            yield f"{field} was {value(before, field)!r} and is {value(now, field)!r}"
    for side, sign in (("min", 1), ("max", -1)):
        if bound(before, side, sign) < bound(now, side, sign):
            yield f"{side} was {before.get(side)} and is {now.get(side)}, or is exclusive now"
    lost = [choice for choice in value(before, "choices") if choice not in value(now, "choices")]
    if lost:
        yield f"choices {lost} are gone"
    if WHEN.index(now["when"]) < WHEN.index(before["when"]):
        yield f"could be set {before['when']}, and now {now['when']}"
    for field in ("power_of_two", "not_empty", "pipeline_only", "unsupported"):
        if value(now, field) and not value(before, field):
            yield f"is {field} now"


def bound(row, side, sign):
    """A bound as something that is larger the more values it refuses."""
    if side not in row:
        return float("-inf"), False
    return sign * float(row[side]), bool(row.get(side + "_open", False))
