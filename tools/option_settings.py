"""Writes the typed records of src/pipeline/config/settings.gen.h for tools/gen_options.py.

A group of keys is a struct, a sub-group a member of it, and a key a field: algo.kl.coef becomes
AlgoSettings::kl.coef. An enum has the C++ enum that its entry names in `cpp`, or else one of its
own, whose enumerators are its choices in their order.
"""
CPP_TYPES = {
    "bool": ("bool", "get_bool"), "i64": ("int64_t", "get_i64"), "u64": ("uint64_t", "get_u64"),
    "f64": ("double", "get_f64"), "string": ("std::string", "get_string"),
    "duration_ns": ("int64_t", "get_i64"), "bytes": ("uint64_t", "get_u64"),
    "string_list": ("std::vector<std::string>", "get_string_list"),
    "i64_list": ("std::vector<int64_t>", "get_i64_list"),
}
CPP_FIELDS = {"type", "parse", "header"}
ORIGIN = ("// Generated from abi/options.yml by tools/gen_options.py; edit the former and run the "
          "latter.\n")
ABOUT = """\
//
// Options as typed fields: settings.algo.kl.coef is the value of algo.kl.coef. Objects are made
// with Settings and read its fields; only the conversion from an OptionSet names keys. No field is
// changed by itself: to change an option, change a copy of `set` and convert that.
"""
INTO_SETTINGS = """\
struct Settings {
  // Implicit, so that an option set can be given to whatever reads settings.
  Settings(const OptionSet& options);

  OptionSet set;  // the values by key: for texts, digests and comparisons
"""
CHOICE_OF = """\
// The choice with the option's value; enumerators are numbered as the choices are.
template <typename E>
E choice_of(const OptionSet& options, const char* key) {
  const OptionInfo& info = require_option(key);
  const std::string& name = options.get_string(key);
  size_t index = 0;
  while (index < info.num_choices && name != info.choices[index].name) ++index;
  RL_CHECK(index < info.num_choices);
  return static_cast<E>(index);
}
"""


def camel(text):
    return "".join(part[:1].upper() + part[1:] for part in text.replace(".", "_").split("_"))


class Group:
    """The keys below one prefix, and the groups below it."""

    def __init__(self, path):
        self.path, self.entries, self.groups = path, [], {}

    def add(self, entry, parts):
        if len(parts) == 1:
            self.entries.append(entry)
            return
        path = f"{self.path}.{parts[0]}".lstrip(".")
        self.groups.setdefault(parts[0], Group(path)).add(entry, parts[1:])

    def type_name(self):
        return camel(self.path) + "Settings"

    def all(self):
        """The groups below, each after those that it contains."""
        for group in self.groups.values():
            yield from group.all()
            yield group


def tree_of(entries):
    root = Group("")
    for entry in entries:
        root.add(entry, entry["name"].split("."))
    return root


def cpp_type(entry):
    if entry["type"] != "enum":
        return CPP_TYPES[entry["type"]][0]
    return entry["cpp"]["type"] if "cpp" in entry else camel(entry["name"])


def read_of(entry):
    """The expression that reads an option from a set."""
    key = f'"{entry["name"]}"'
    if entry["type"] != "enum":
        return f"options.{CPP_TYPES[entry['type']][1]}({key})"
    if "cpp" in entry:
        return f"{entry['cpp']['parse']}(options.get_string({key}))"
    return f"choice_of<{cpp_type(entry)}>(options, {key})"


def field_of(entry):
    return entry["name"].rsplit(".", 1)[-1]


def enum_text(entry):
    names = ", ".join("k" + camel(c["name"]) for c in entry["choices"])
    return f"enum class {cpp_type(entry)} : uint8_t {{ {names} }};\n"


def members_of(group):
    unit = {e["name"]: f"  // {e['unit']}" if "unit" in e else "" for e in group.entries}
    fields = [f"  {cpp_type(e)} {field_of(e)};{unit[e['name']]}\n" for e in group.entries]
    return "".join(fields + [f"  {g.type_name()} {name};\n" for name, g in group.groups.items()])


def struct_text(group):
    name = group.type_name()
    return (f"// {group.path}.*\nstruct {name} {{\n  explicit {name}(const OptionSet& options);\n\n"
            f"{members_of(group)}}};\n")


def constructor(name, inits):
    lines = ",\n      ".join(inits)
    return f"{name}::{name}(const OptionSet& options)\n    : {lines} {{}}\n"


def inits_of(group):
    return ([f"{field_of(e)}({read_of(e)})" for e in group.entries] +
            [f"{name}(options)" for name in group.groups])


def header_file(entries):
    root = tree_of(entries)
    headers = sorted({e["cpp"]["header"] for e in entries if "cpp" in e} | {"options/options.h"})
    enums = "".join(enum_text(e) for e in entries if e["type"] == "enum" and "cpp" not in e)
    structs = "\n".join(struct_text(g) for g in root.all())
    includes = "".join(f'#include "{h}"\n' for h in headers)
    return (ORIGIN + ABOUT + "#pragma once\n#include <cstdint>\n#include <string>\n"
            "#include <vector>\n\n" + includes + "\nnamespace rl {\n\n" + enums + "\n" + structs +
            "\n// All options of an object.\n" + INTO_SETTINGS + members_of(root) +
            "};\n\n}  // namespace rl\n")


def source_file(entries):
    root = tree_of(entries)
    bodies = [constructor(g.type_name(), inits_of(g)) for g in root.all()]
    bodies.append(constructor("Settings", ["set(options)"] + inits_of(root)))
    return (ORIGIN + '#include "pipeline/config/settings.gen.h"\n\n#include "core/error.h"\n\n'
            "namespace rl {\nnamespace {\n\n" + CHOICE_OF + "\n}  // namespace\n\n" +
            "\n".join(bodies) + "\n}  // namespace rl\n")
