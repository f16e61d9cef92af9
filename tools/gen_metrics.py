#!/usr/bin/env python3
"""Writes docs/metrics.md and tests/support/metric_table.gen.h from abi/metrics.yml, which is
described at its top.

With --check nothing is written; if files are stale, they are named and the exit status is 1.
Exit status 77 means that python3-yaml is missing.
"""
import argparse
import itertools
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELDS = {"name", "unit", "meaning", "formula", "in"}
NAME = re.compile(r"^[a-z0-9_]+(/([a-z0-9_]+|\{[a-z]+\}))*$")
PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
# Words in a text that may be an option key or a metric name.
KEY = re.compile(r"\b[a-z]+(?:\.[a-z0-9_]+)+(?:\.\*)?")
PATH = re.compile(r"(?<![\w.])[a-z_]+(?:/[a-z0-9_]+)+")


class Bad(Exception):
    pass


class Registry:
    """abi/metrics.yml, and the option keys that its texts may name."""

    def __init__(self, text, options):
        table = yaml.safe_load(text)
        wanted = ["events", "conditions", "placeholders", "units", "notation", "metrics"]
        if list(table) != wanted:
            raise Bad(f"its sections are {list(table)}, expected {wanted}")
        self.events, self.conditions, self.placeholders = (table[part] for part in wanted[:3])
        self.units, self.notation, self.metrics = (table[part] for part in wanted[3:])
        self.options = options
        self.option_groups = {key.split(".")[0] for key in options}
        for metric in self.metrics:
            self.check_metric(metric)
        self.groups = {group_of(metric) for metric in self.metrics}
        self.names = {name for _, name, _ in self.rows()}
        self.check_names()
        self.check_uses()

    def check_metric(self, metric):
        name = metric.get("name", "?")
        if set(metric) - FIELDS or FIELDS - {"formula"} - set(metric):
            raise Bad(f"{name}: its fields are {sorted(metric)}")
        if not NAME.match(name) or not set(PLACEHOLDER.findall(name)) <= set(self.placeholders):
            raise Bad(f"{name}: not a valid name, or an unknown placeholder")
        if metric["unit"] not in self.units:
            raise Bad(f"{name}: {metric['unit']} is not a unit")
        if not metric["in"] or not set(metric["in"]) <= set(self.events):
            raise Bad(f"{name}: its events are {sorted(metric['in'])}")
        for condition in sum(metric["in"].values(), []):
            if condition not in self.conditions:
                raise Bad(f"{name}: {condition} is not a condition")

    def check_names(self):
        """Each name occurs once per event, and the names of a group are adjacent."""
        rows = [(event, name) for event, name, _ in self.rows()]
        twice = sorted({row for row in rows if rows.count(row) > 1})
        if twice:
            raise Bad(f"{twice} occur twice")
        order = [group for group, _ in itertools.groupby(self.metrics, group_of)]
        if len(set(order)) != len(order):
            raise Bad("the metrics of a group are not adjacent")

    def check_uses(self):
        used = {"units": {m["unit"] for m in self.metrics}, "events": set(), "conditions": set(),
                "placeholders": set()}
        for metric in self.metrics:
            used["events"] |= set(metric["in"])
            used["conditions"] |= set(sum(metric["in"].values(), []))
            used["placeholders"] |= set(PLACEHOLDER.findall(metric["name"]))
        for part, names in used.items():
            idle = sorted(set(getattr(self, part)) - names)
            if idle:
                raise Bad(f"{part}: no metric uses {idle}")

    def rows(self):
        """(event, name, conditions), with every placeholder in all its values."""
        for metric in self.metrics:
            keys = PLACEHOLDER.findall(metric["name"])
            for values in itertools.product(*(self.placeholders[k]["values"] for k in keys)):
                chosen = dict(zip(keys, values))
                for event, conditions in metric["in"].items():
                    yield event, filled(metric["name"], chosen), [filled(c, chosen)
                                                                  for c in conditions]

    def linked(self, text):
        """Formats the options and metrics in a text as code, options as links. They must exist."""
        return KEY.sub(lambda m: self.option(m.group()),
                       PATH.sub(lambda m: self.metric(m.group()), text))

    def option(self, word):
        if word.split(".")[0] not in self.option_groups:
            return word
        if word in self.options:
            return f"[`{word}`](options.md#{word.replace('.', '')})"
        if not word.endswith(".*") or not any(key.startswith(word[:-1]) for key in self.options):
            raise Bad(f"{word} is not an option")
        return f"`{word}`"

    def metric(self, word):
        if word.split("/")[0] not in self.groups:
            return word
        if not any(name == word or name.startswith(word + "/") for name in self.names):
            raise Bad(f"{word} is not a metric")
        return f"`{word}`"


def group_of(metric):
    return metric["name"].split("/")[0]


def filled(pattern, chosen):
    return PLACEHOLDER.sub(lambda m: chosen[m.group(1)], pattern)


def header_file(registry):
    rows = "".join(f'    {{"{event}", "{name}", "{" ".join(conditions)}"}},\n'
                   for event, name, conditions in registry.rows())
    return ("// Generated from abi/metrics.yml by tools/gen_metrics.py; edit the former and run "
            "the latter.\n"
            "#pragma once\n\nnamespace rl::testing {\n\n"
            "// A metric of an event, which has it if all conditions (separated by spaces) hold.\n"
            "struct MetricRow {\n  const char *event, *name, *conditions;\n};\n\n"
            "inline constexpr MetricRow kMetricTable[] = {\n" + rows +
            "};\n\n}  // namespace rl::testing\n")


def where(registry, conditions):
    if not conditions:
        return ""
    texts = [registry.linked(registry.conditions[c]) for c in conditions]
    return " where " + ", and ".join(texts)


def doc_entry(registry, metric):
    places = "; ".join(f"in {registry.events[event]}{where(registry, conditions)}"
                       for event, conditions in metric["in"].items())
    lines = [f"### `{metric['name']}`", "", f"Unit: {metric['unit']}; {places}.", "",
             registry.linked(metric["meaning"])]
    if "formula" in metric:
        registry.linked(metric["formula"])  # only to check the names
        lines += ["", "```text", metric["formula"], "```"]
    return "\n".join(lines) + "\n"


def cell(text):
    return text.replace("|", "\\|")


def doc_table(registry, title, rows):
    lines = [f"| {title} | meaning |", "|---|---|"]
    lines += [f"| {name} | {cell(registry.linked(text))} |" for name, text in rows]
    return "\n".join(lines) + "\n"


HEAD = """# Metrics of librl

Generated from `abi/metrics.yml` by `tools/gen_metrics.py`. A test compares it with what runs emit,
in both directions.

Events of `RL_EVENT_STEP`, `RL_EVENT_EVAL` and `RL_EVENT_ENGINE_STATS` (the end of an interval of
[`engine.stats_interval_ns`](options.md#enginestats_interval_ns)) have metrics, which
[`rl_event_metric`](reference/events.md#rl_event_metric) reads. The lines of the files
[`metrics.jsonl`](options.md#metricsjsonl) and
[`metrics.eval_jsonl`](options.md#metricseval_jsonl) and the events of TensorBoard have the same
names; a value that is not finite is null in a line.

Metrics under `timing_s/`, `timing_per_token_ms/` and `perf/` are times or derived from times, and
vary from run to run. All others are the same in every run of one configuration. The policy is not
updated in the steps of [`algo.critic_warmup_steps`](options.md#algocritic_warmup_steps), nor in a
pipeline step without samples.

"""


def doc_file(registry):
    placeholders = [(f"`{{{name}}}`: " + ", ".join(f"`{v}`" for v in p["values"]), p["meaning"])
                    for name, p in registry.placeholders.items()]
    units = [(unit, text) for unit, text in registry.units.items() if text]
    symbols = [(f"`{symbol}`", text) for symbol, text in registry.notation.items()]
    out = "".join([HEAD, "A name in braces stands for each of several: `critic/rewards/{stat}`\n"
                   "for `critic/rewards/mean`, `critic/rewards/max` and `critic/rewards/min`.\n\n",
                   doc_table(registry, "in a name", placeholders),
                   "\nUnits:\n\n", doc_table(registry, "unit", units),
                   "\nSymbols of the formulas:\n\n", doc_table(registry, "symbol", symbols), "\n"])
    for group, metrics in itertools.groupby(registry.metrics, group_of):
        out += f"## {group}\n\n" + "".join(doc_entry(registry, m) + "\n" for m in metrics)
    return out.rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    try:
        options = {e["name"] for e in yaml.safe_load((ROOT / "abi/options.yml").read_text())}
        registry = Registry((ROOT / "abi/metrics.yml").read_text(), options)
        files = {"docs/metrics.md": doc_file(registry),
                 "tests/support/metric_table.gen.h": header_file(registry)}
    except (Bad, yaml.YAMLError) as error:
        print(f"abi/metrics.yml: {error}")
        return 1
    stale = [path for path, text in files.items()
             if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
    for path in stale:
        if not check:
            (ROOT / path).write_text(files[path])
        print(("stale, run tools/gen_metrics.py: " if check else "wrote ") + path)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
