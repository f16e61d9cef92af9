"""Reads the refused combinations of options for tools/gen_options.py.

They come from abi/option_rules.yml and from `read_when` in abi/options.yml. Each becomes a rule:
the two keys to name, a message, and conditions that all hold when the combination is refused.
"""
import re

CONDITION = re.compile(r"^(\S+) (changed|is not|is|above|at least)(?: (.+))?$")
PLACEHOLDER = re.compile(r"\{([^}]*)\}")
RULE_FIELDS = {"key", "other", "refused_when", "message"}


class Bad(Exception):
    pass


def parse_condition(text, keys):
    """A condition as (key, kind, value, other key, factor key)."""
    match = CONDITION.match(text)
    if not match:
        raise Bad(f'"{text}" is not a condition')
    key, kind, rest = match.groups()
    if (kind == "changed") != (rest is None):
        raise Bad(f'"{text}" is not a condition')
    others = rest.split(" * ") if kind in ("above", "at least") else []
    for name in [key] + others:
        if name not in keys:
            raise Bad(f'"{text}" names {name}, which is not an option')
    if len(others) > 2:
        raise Bad(f'"{text}" has too many factors')
    value = "" if rest is None or others or rest == "empty" else rest
    return key, kind, value, *(others + ["", ""])[:2]


def value_text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def values_of(wanted):
    """The values that read_when gives for a key, as texts."""
    return [value_text(v) for v in (wanted if isinstance(wanted, list) else [wanted])]


def choices_of(entry):
    """All values of an option that has few, else nothing."""
    return [c["name"] for c in entry.get("choices", [])] or {"bool": ["true", "false"]}.get(
        entry["type"], [])


def failing(key, wanted, by_name):
    """The conditions under which an option has none of the wanted values."""
    if key not in by_name:
        raise Bad(f"read_when names {key}, which is not an option")
    values = values_of(wanted)
    if len(values) == 1 and values[0].startswith("not "):
        return [f"{key} is {values[0].removeprefix('not ')}"]
    choices = choices_of(by_name[key])
    if choices and not set(values) <= set(choices):
        raise Bad(f"read_when: {key} has no value {sorted(set(values) - set(choices))}")
    others = [c for c in choices if c not in values]
    if len(others) == 1:
        return [f"{key} is {others[0]}"]
    return [f"{key} is not {v}" for v in values]


def holding(key, wanted, by_name):
    """The conditions that together say that an option has one of the wanted values."""
    values = values_of(wanted)
    if len(values) == 1 and values[0].startswith("not "):
        return [f"{key} is not {values[0].removeprefix('not ')}"]
    if len(values) == 1:
        return [f"{key} is {values[0]}"]
    choices = choices_of(by_name[key])
    if not choices:
        raise Bad(f"{key}: only an option with choices can be required to be one of {values}")
    return [f"{key} is not {c}" for c in choices if c not in values]


def expanded(condition, by_name):
    """`KEY read` as the requirements of KEY's read_when, any other condition as it is."""
    key, _, rest = condition.partition(" ")
    if rest != "read":
        return [condition]
    requirements = by_name.get(key, {}).get("read_when", {})
    if not requirements or "any" in requirements:
        raise Bad(f'"{condition}": {key} has no read_when whose requirements all hold at once')
    return [c for k, wanted in requirements.items() for c in holding(k, wanted, by_name)]


def unread_rules(entry, by_name):
    """One rule for each requirement of read_when: the option was set, and the requirement fails."""
    for key, wanted in entry.get("read_when", {}).items():
        alternatives = wanted if key == "any" else {key: wanted}
        causes = [c for k, v in alternatives.items() for c in failing(k, v, by_name)]
        name, other = entry["name"], next(iter(alternatives))
        yield {"key": name, "other": other, "refused_when": [name + " changed"] + causes,
               "message": f"{name} = {{{name}}} has no effect while {other} is {{{other}}}"}


def rules_of(entries, table):
    """All rules, sorted by the keys that they name."""
    by_name = {e["name"]: e for e in entries}
    rules = [rule for entry in entries for rule in unread_rules(entry, by_name)]
    for entry in table:
        if set(entry) - {"source"} != RULE_FIELDS:
            raise Bad(f"option_rules.yml: unknown form {sorted(entry)}")
        conditions = [c for text in entry["refused_when"] for c in expanded(text, by_name)]
        rules.append({**entry, "refused_when": conditions})
    for rule in rules:
        rule["conditions"] = [parse_condition(c, by_name) for c in rule["refused_when"]]
        read = {name for c in rule["conditions"] for name in (c[0], c[3], c[4])}
        named = set(PLACEHOLDER.findall(rule["message"]))
        if not {rule["key"], rule["other"]} <= read or not named <= set(by_name):
            raise Bad(f"rules of {rule['key']}: a key of the message is not in its conditions")
    return sorted(rules, key=lambda r: (r["key"], r["other"]))
