#!/usr/bin/env python3
"""Writes src/options/option_{table,rules}.gen.cc, src/pipeline/config/settings.gen.{h,cc} and
docs/options.md.

Sources are abi/options.yml, abi/option_rules.yml and abi/option_presets.yml, each described at its
top. With --check nothing is written; if files are stale, they are named and the exit status is 1.
Exit status 77 means that python3-yaml is missing.
"""
import argparse
import pathlib
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

import option_rules
import option_settings
from option_rules import Bad

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPES = {
    "bool": "kBool", "i64": "kI64", "u64": "kU64", "f64": "kF64", "string": "kString",
    "enum": "kEnum", "duration_ns": "kDurationNs", "bytes": "kBytes",
    "string_list": "kStringList", "i64_list": "kI64List",
}
BOUND_FIELD = {"i64": "i64", "duration_ns": "i64", "i64_list": "i64", "u64": "u64", "bytes": "u64",
               "f64": "f64"}
WHEN = {"create": "kCreate", "between_steps": "kBetweenSteps", "any_time": "kAnyTime"}
WHEN_TEXT = {"create": "at creation", "between_steps": "between steps", "any_time": "any time"}
FIELDS = {"name", "type", "default", "min", "max", "min_open", "max_open", "power_of_two",
          "not_empty", "choices", "cpp", "unit", "doc", "since", "when", "read_when",
          "flags", "same_as", "unsupported_reason", "source"}
FLAGS = {"determinism", "needs_gpu", "pipeline_only"}
PARENTS = {"runtime": "kRuntime", "model": "kModel"}
CONDITION_KIND = {"changed": "kChanged", "is": "kIs", "is not": "kIsNot", "above": "kAbove",
                  "at least": "kAtLeast"}
SINCE = "0.1.0"
SETTINGS = "src/pipeline/config/settings.gen"


def check_entry(entry):
    name = entry.get("name", "?")
    unknown = set(entry) - FIELDS
    if unknown:
        raise Bad(f"{name}: unknown fields {sorted(unknown)}")
    for field in ("name", "type", "default", "when", "doc", "source"):
        if field not in entry:
            raise Bad(f"{name}: field {field} is missing")
    if entry["type"] not in TYPES:
        raise Bad(f"{name}: unknown type {entry['type']}")
    if entry["when"] not in WHEN:
        raise Bad(f"{name}: unknown moment {entry['when']}")
    if set(entry.get("flags", [])) - FLAGS:
        raise Bad(f"{name}: unknown flags {entry['flags']}")
    if "same_as" in entry and (entry["same_as"] not in PARENTS or entry["when"] != "create"):
        raise Bad(f"{name}: same_as is one of {sorted(PARENTS)}, of an option fixed at creation")
    if (entry["type"] == "enum") != ("choices" in entry):
        raise Bad(f"{name}: an enum must have choices, and no other type may")
    if "cpp" in entry and (entry["type"] != "enum" or
                           set(entry["cpp"]) != option_settings.CPP_FIELDS):
        raise Bad(f"{name}: cpp is for enums, and has type, parse and header")
    if entry["type"] == "enum" and entry["default"] not in [c["name"] for c in entry["choices"]]:
        raise Bad(f"{name}: the default is not one of the choices")
    if ("min" in entry or "max" in entry) and entry["type"] not in BOUND_FIELD:
        raise Bad(f"{name}: type {entry['type']} has no range")


def load_entries():
    entries = yaml.safe_load((ROOT / "abi/options.yml").read_text())
    for entry in entries:
        check_entry(entry)
    names = [e["name"] for e in entries]
    if len(set(names)) != len(names):
        raise Bad("two options have the same name")
    return sorted(entries, key=lambda e: e["name"])


def load_list(name, entries):
    """The entries of another table, which may name only keys of this one."""
    table = yaml.safe_load((ROOT / "abi" / name).read_text()) or []
    keys = {e["name"] for e in entries}
    return table, keys


def load_rules(entries):
    return option_rules.rules_of(entries, load_list("option_rules.yml", entries)[0])


def load_presets(entries):
    table, keys = load_list("option_presets.yml", entries)
    for preset in table:
        name, limits = preset.get("name", "?"), preset.get("at_most", {})
        if set(preset) | {"at_most"} != {"name", "doc", "settings", "at_most"} or not {
                *preset["settings"], *limits} <= keys:
            raise Bad(f"option_presets.yml: {name}: unknown fields or options")
        if not {e["type"] for e in entries if e["name"] in limits} <= {"i64"}:
            raise Bad(f"option_presets.yml: {name}: at_most is for options of type i64")
    return sorted(table, key=lambda p: p["name"])


def preset_settings(preset):
    """(key, value, whether it only lowers) by key."""
    return sorted([(k, v, False) for k, v in preset["settings"].items()] +
                  [(k, v, True) for k, v in preset.get("at_most", {}).items()])


def number_text(value):
    return repr(float(value)) if isinstance(value, float) else str(value)


def text_of(entry):
    value, kind = entry["default"], entry["type"]
    if kind == "bool":
        return "true" if value else "false"
    if kind == "f64":
        return number_text(float(value))
    if kind in ("string_list", "i64_list"):
        escape = {"\\": "\\\\", ",": "\\,", "\n": "\\n", "\t": "\\t"}
        return ",".join("".join(escape.get(c, c) for c in str(v)) for v in value)
    return str(value)


def quote(text):
    escape = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(escape.get(c, c) for c in str(text)) + '"'


def literal(value, field):
    if field == "f64":
        return repr(float(value))
    return f"{int(value)}{'u' if field == 'u64' else ''}"


def bound(entry, side):
    if side not in entry:
        return "{}"
    field = BOUND_FIELD[entry["type"]]
    inclusive = "false" if entry.get(side + "_open", False) else "true"
    value = literal(entry[side], field)
    return f"{{.present = true, .inclusive = {inclusive}, .{field} = {value}}}"


def wrapped(text, indent, width=100):
    """A string literal, split into adjacent literals so that no line exceeds the width."""
    words, lines, line = str(text).split(" "), [], ""
    for i, word in enumerate(words):
        piece = word + (" " if i + 1 < len(words) else "")
        if line and len(quote(line + piece)) + indent + 2 > width:
            lines.append(line)
            line = ""
        line += piece
    lines.append(line)
    return ("\n" + " " * indent).join(quote(part) for part in lines)


def choices_name(entry):
    return "kChoices_" + entry["name"].replace(".", "_")


def cpp_choices(entry):
    rows = "".join(f"    {{{quote(c['name'])},\n     {wrapped(c['doc'], 5)}}},\n"
                   for c in entry["choices"])
    return f"constexpr OptionChoice {choices_name(entry)}[] = {{\n{rows}}};\n"


def boolean(condition):
    return "true" if condition else "false"


def cpp_row(entry):
    flags = entry.get("flags", [])
    has_choices = "choices" in entry
    choices = choices_name(entry) if has_choices else "nullptr"
    count = len(entry["choices"]) if has_choices else 0
    return (
        f"    {{{quote(entry['name'])}, OptionType::{TYPES[entry['type']]}, "
        f"{quote(text_of(entry))},\n"
        f"     {bound(entry, 'min')},\n     {bound(entry, 'max')},\n"
        f"     {boolean(entry.get('power_of_two'))}, {boolean(entry.get('not_empty'))}, "
        f"{choices}, {count}, {quote(entry.get('unit', ''))},\n"
        f"     {wrapped(entry['doc'], 5)},\n"
        f"     {quote(entry.get('since', SINCE))}, OptionWhen::{WHEN[entry['when']]}, "
        f"{boolean('determinism' in flags)}, {boolean('needs_gpu' in flags)}, "
        f"{boolean('pipeline_only' in flags)}, "
        f"OptionParent::{PARENTS.get(entry.get('same_as'), 'kNone')}, "
        f"{quote(entry.get('unsupported_reason', ''))},\n     {wrapped(entry['source'], 5)}}},\n")


def cpp_file(entries):
    choices = "".join(cpp_choices(e) for e in entries if "choices" in e)
    rows = "".join(cpp_row(e) for e in entries)
    return ("// Generated from abi/options.yml by tools/gen_options.py; edit the former and run "
            "the latter.\n"
            '#include "options/option_text.h"\n\nnamespace rl {\nnamespace {\n\n' + choices +
            "\nconstexpr OptionInfo kOptions[] = {\n" + rows + "};\n\n}  // namespace\n\n"
            "OptionTable option_table() { return {kOptions, std::size(kOptions)}; }\n\n"
            "}  // namespace rl\n")


def cpp_condition(condition):
    key, kind, value, other, factor = condition
    texts = ", ".join(quote(t) for t in (value, other, factor))
    return f"    {{{quote(key)}, OptionCondition::{CONDITION_KIND[kind]},\n     {texts}}},\n"


def conditions_name(rule, names):
    """A name that follows from the rule's keys, so that no other rule changes it."""
    first = "kConditions_" + f"{rule['key']}_and_{rule['other']}".replace(".", "_")
    name, count = first, 1
    while name in names:
        count += 1
        name = f"{first}_{count}"
    names.add(name)
    return name


def cpp_rules(rules):
    conditions, rows, names = "", "", set()
    for rule in rules:
        name = conditions_name(rule, names)
        conditions += (f"constexpr OptionCondition {name}[] = {{\n" +
                       "".join(cpp_condition(c) for c in rule["conditions"]) + "};\n")
        rows += (f"    {{{quote(rule['key'])}, {quote(rule['other'])},\n     {name}, "
                 f"{len(rule['conditions'])},\n     {wrapped(rule['message'], 5)}}},\n")
    return conditions + "\nconstexpr OptionRule kRules[] = {\n" + rows + "};\n"


def cpp_presets(presets):
    settings, rows = "", ""
    for preset in presets:
        name = "kSettings_" + preset["name"]
        triples = preset_settings(preset)
        pairs = "".join(f"    {{{quote(k)}, {quote(v)}, {'true' if at_most else 'false'}}},\n"
                        for k, v, at_most in triples)
        settings += f"constexpr PresetSetting {name}[] = {{\n{pairs}}};\n"
        rows += (f"    {{{quote(preset['name'])},\n     {wrapped(preset['doc'], 5)},\n"
                 f"     {name}, {len(triples)}}},\n")
    return settings + "\nconstexpr OptionPreset kPresets[] = {\n" + rows + "};\n"


def cpp_rules_file(rules, presets):
    return ("// Generated from abi/option_rules.yml and abi/option_presets.yml by "
            "tools/gen_options.py; edit the\n// former and run the latter.\n"
            '#include "options/option_rules.h"\n\n#include <iterator>\n\n'
            "namespace rl {\nnamespace {\n\n" + cpp_rules(rules) + "\n" + cpp_presets(presets) +
            "\n}  // namespace\n\n"
            "OptionRules option_rules() { return {kRules, std::size(kRules)}; }\n"
            "OptionPresets option_presets() { return {kPresets, std::size(kPresets)}; }\n\n"
            "}  // namespace rl\n")


def range_text(entry):
    parts = []
    if "min" in entry:
        parts.append(("> " if entry.get("min_open") else ">= ") + number_text(entry["min"]))
    if "max" in entry:
        parts.append(("< " if entry.get("max_open") else "<= ") + number_text(entry["max"]))
    if entry.get("power_of_two"):
        parts.append("a power of two")
    if entry.get("not_empty"):
        parts.append("not empty")
    return ", ".join(parts)


def doc_entry(entry):
    default = text_of(entry)
    facts = [entry["type"], f"default `{default}`" if default else "default empty"]
    if range_text(entry):
        facts.append(range_text(entry))
    if entry.get("unit"):
        facts.append("in " + entry["unit"])
    fixed = entry["when"] == "create"
    facts.append("fixed at creation" if fixed else "changes " + WHEN_TEXT[entry["when"]])
    if "determinism" in entry.get("flags", []):
        facts.append("part of the run's identity")
    if "needs_gpu" in entry.get("flags", []):
        facts.append("needs a GPU")
    if "pipeline_only" in entry.get("flags", []):
        facts.append("only has an effect in a pipeline")
    if "same_as" in entry:
        facts.append(f"must equal that of the {entry['same_as']}")
    lines = [f"### `{entry['name']}`", "", "; ".join(facts) + ".", "", entry["doc"]]
    if entry.get("unsupported_reason"):
        lines += ["", f"Only the default works in this build: {entry['unsupported_reason']}"]
    if "choices" in entry:
        lines += [""] + [f"- `{c['name']}`: {c['doc']}" for c in entry["choices"]]
    lines += ["", f"Origin: {entry['source']}. Since {entry.get('since', SINCE)}.", ""]
    return "\n".join(lines)


def doc_rules(rules):
    out = ("## Combinations that are refused\n\n"
           "Checked when an object is created or options are changed; every violated rule is\n"
           "reported with both keys.\n\n| refused when | message |\n|---|---|\n")
    for rule in rules:
        causes = " and ".join(f"`{c}`" for c in rule["refused_when"])
        out += f"| {causes} | {rule['message']} |\n"
    return out + "\n"


def doc_parents(entries):
    out = ("## Options that objects share\n\nModels, engines, trainers and pipelines have a set of "
           "options each, the one of what they are\nmade from unless another is given. These "
           "options must have the value that the parent was made\nwith; another one is "
           "`RL_CONFLICT` and names it. A buffer is made from options alone.\n\n")
    for parent in sorted(PARENTS, reverse=True):
        keys = ", ".join(f"`{e['name']}`" for e in entries if e.get("same_as") == parent)
        out += f"- of the {parent}: {keys}\n"
    return out + ("- of the model too: whether `algo.objective` is reward_model, which decides its "
                  "head\n\n")


def doc_presets(presets):
    out = ("## Presets\n\n`rl_options_apply_preset` sets all values of a preset; values that a "
           "host sets\nafterwards are kept. What is marked \"at most\" leaves smaller values as "
           "they are. A later\nversion of the library may add settings to a preset.\n\n")
    for preset in presets:
        out += f"### Preset `{preset['name']}`\n\n{preset['doc']}\n\n"
        out += "".join(f"- `{k} = {v}`{' at most' if at_most else ''}\n"
                       for k, v, at_most in preset_settings(preset)) + "\n"
    return out


def doc_file(entries, rules, presets):
    head = ("# Options of librl\n\nGenerated from `abi/options.yml`, `abi/option_rules.yml` and "
            "`abi/option_presets.yml` by\n`tools/gen_options.py`.\n\n"
            "An unknown key is an error that names the nearest keys; a value of the wrong type or\n"
            "out of range is an error that names the range; nothing is converted or clamped. As\n"
            "text, durations take `ns`, `us`, `ms`, `s`, `min` and `h`, sizes take `KiB`, `MiB`,\n"
            "`GiB` and `TiB`, and list elements are separated by commas (`\\,` `\\\\` `\\n` `\\t`\n"
            "are escapes).\n\n")
    out, group = head, None
    for entry in entries:
        first = entry["name"].split(".")[0]
        if first != group:
            out += f"## {first}\n\n"
            group = first
        out += doc_entry(entry) + "\n"
    out += doc_parents(entries) + doc_rules(rules) + doc_presets(presets)
    return out.rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    try:
        entries = load_entries()
        rules, presets = load_rules(entries), load_presets(entries)
    except (Bad, yaml.YAMLError) as error:
        print(f"abi: {error}")
        return 1
    stale = []
    for path, text in (("src/options/option_table.gen.cc", cpp_file(entries)),
                       ("src/options/option_rules.gen.cc", cpp_rules_file(rules, presets)),
                       (SETTINGS + ".h", option_settings.header_file(entries)),
                       (SETTINGS + ".cc", option_settings.source_file(entries)),
                       ("docs/options.md", doc_file(entries, rules, presets))):
        target = ROOT / path
        if target.exists() and target.read_text() == text:
            continue
        stale.append(path)
        if not check:
            target.write_text(text)
    for path in stale:
        print(("stale, run tools/gen_options.py: " if check else "wrote ") + path)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
