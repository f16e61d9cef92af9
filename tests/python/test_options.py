"""Options take and return Python's values, and nothing is lost between the two."""
import pathlib

import pytest

import rl


def test_every_option_takes_its_own_value():
    options = rl.Options()
    assert len(options) == len(list(options)) > 100
    for key, value in options.items():
        text = options.get_text(key)
        options[key] = value
        assert options[key] == value and options.get_text(key) == text, key


@pytest.mark.parametrize("key, given, value", [
    ("engine.block_size", 64, 64),
    ("optimizer.lr", 1, 1.0),
    ("optimizer.lr", "3e-6", 3e-6),
    ("data.shuffle", False, False),
    ("pipeline.reward_timeout_ns", "30s", 30_000_000_000),
    ("sampling.stop", ["a,b", "c"], ["a,b", "c"]),
    ("sampling.stop_token_ids", (3, 4), [3, 4]),
    ("sampling.stop_token_ids", [], []),
    ("model.path", pathlib.Path("/some/where"), "/some/where"),
    ("algo.advantage", "rloo", "rloo"),
    ("data.path", "1", "1"),
])
def test_values_of_each_type(key, given, value):
    options = rl.Options({key: given})
    assert options[key] == value and type(options[key]) is type(value)
    assert rl.Options({key: options.get_text(key)})[key] == value


def test_a_set_is_copied_and_compared():
    options = rl.Options({"runtime.seed": 9}, preset="low_memory")
    settings = rl.presets()["low_memory"][1]
    assert settings and all(options.get_text(key) == text for key, text in settings.items())
    other = options.clone()
    assert other.dump() == options.dump() and other.identity == options.identity
    other.assign("runtime.seed=10")
    assert options["runtime.seed"] == 9 and other.identity != options.identity
    with pytest.raises(ValueError, match="key=value"):
        other.assign("runtime.seed")
    other.unset("runtime.seed")
    assert other.is_default("runtime.seed")


def test_documents_carry_a_set():
    options, other, third = rl.Options({"runtime.seed": 9}), rl.Options(), rl.Options()
    other.import_json(options.export_json(only_changed=True))
    third.import_flatbuffer(options.export_flatbuffer())
    assert other.dump() == third.dump() == options.dump()
    assert options.dump(only_changed=True) == "runtime.seed=9\n"


def test_the_table_describes_every_option():
    rows = list(rl.option_infos())
    assert [row.key for row in rows] == sorted(row.key for row in rows)
    row = rl.find_option("engine.block_size")
    assert row.type is rl.OptionType.I64 and row.flags & rl.OptionFlags.POWER_OF_TWO and row.doc
    assert "rloo" in rl.option_choices("algo.advantage")
    purpose, settings = rl.presets()["low_memory"]
    assert purpose and all(rl.find_option(key) for key in settings)
