"""The configuration of librl: a set of options with one value each, and the table that describes
them."""
from __future__ import annotations

import ctypes
import functools
import numbers
import operator
import os
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple, Union

from . import _raw
from ._arrays import pinned
from ._handle import Handle, call, filled, get, make, taken_bytes, taken_text, texts_of
from ._library import lib
from .constants import OptionFormat, OptionType
from .records import OptionInfo

Value = Union[bool, int, float, str, "os.PathLike[str]", Sequence[str], Sequence[int]]
_LISTS = (OptionType.STRING_LIST, OptionType.I64_LIST)


def find_option(key: str) -> OptionInfo:
    """The row of the option table with this key."""
    return OptionInfo.of(filled(_raw.rl_option_info(), "rl_option_find", key))


def option_infos() -> Iterator[OptionInfo]:
    """The option table, in the order of keys."""
    for index in range(lib.rl_option_count()):
        yield OptionInfo.of(filled(_raw.rl_option_info(), "rl_option_at", index))


def option_choices(key: str) -> Dict[str, str]:
    """The choices of an ENUM option, with what each means."""
    count = find_option(key).num_choices
    rows = (texts_of("rl_option_choice", key, index, count=2) for index in range(count))
    return {name: doc for name, doc in rows}


def presets() -> Dict[str, Tuple[str, Dict[str, str]]]:
    """The presets by name: the purpose of each, and what it sets, as texts."""
    found = {}
    for index in range(lib.rl_preset_count()):
        name, purpose = texts_of("rl_preset_at", index, count=2)
        lines = Options(preset=name).dump(only_changed=True).splitlines()
        found[name] = (purpose, dict(line.split("=", 1) for line in lines))
    return found


def _items(text: str) -> List[str]:
    """The elements of a list, from its text."""
    items, escaped = [""], False
    for letter in text:
        if escaped:
            items[-1] += {"n": "\n", "t": "\t"}.get(letter, letter)
            escaped = False
        elif letter == ",":
            items.append("")
        elif letter == "\\":
            escaped = True
        else:
            items[-1] += letter
    return items


@functools.lru_cache(maxsize=None)
def _type_of(key: str) -> OptionType:
    return find_option(key).type


class Options(Handle):
    """One value for each option, at first the defaults; docs/options.md lists them.

    options[key] is the value, a Python value of the option's type. options[key] = value sets it: a
    text for an option of another type is parsed, as in "30s" or "2GiB", and a path is a text;
    nothing else is converted but an integer for a number. What has no such option, another type or
    a value outside the range is an Error."""

    _kind = "rl_options"

    def __init__(self, values: Mapping[str, Value] = {}, *,  # noqa: B006  (it is only read)
                 preset: str = "") -> None:
        self._create("rl_options_create")
        if preset:
            self.apply_preset(preset)
        self.update(values)

    # ---- values ----

    def __setitem__(self, key: str, value: Value) -> None:
        kind = _type_of(key)
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, str):
            self._set_str(kind, key, value)
        elif isinstance(value, bool):
            call("rl_options_set_bool", self, key, int(value))
        elif isinstance(value, numbers.Integral) and kind != OptionType.F64:
            self._set_int(key, operator.index(value))
        elif isinstance(value, numbers.Real):
            call("rl_options_set_f64", self, key, float(value))
        else:
            self._set_list(kind, key, list(value))  # type: ignore[arg-type]

    def _set_str(self, kind: OptionType, key: str, value: str) -> None:
        whole = kind in (OptionType.STRING, OptionType.ENUM)
        name = "rl_options_set_string" if whole else "rl_options_set_text"
        call(name, self, key, value)

    def _set_int(self, key: str, value: int) -> None:
        kinds = ((-1 << 63, 1 << 63, "rl_options_set_i64"), (0, 1 << 64, "rl_options_set_u64"))
        name = next((name for low, high, name in kinds if low <= value < high), None)
        if name is None:
            raise OverflowError(f"{key}: {value} does not fit into 64 bits")
        call(name, self, key, value)

    def _set_list(self, kind: OptionType, key: str, values: List[Any]) -> None:
        if kind == OptionType.I64_LIST or (values and isinstance(values[0], numbers.Integral)):
            call("rl_options_set_i64_list", self, key, pinned(values, ctypes.c_int64))
            return
        texts = [value.encode("utf-8", "surrogateescape") for value in values]
        starts = (ctypes.c_char_p * len(texts))(*texts)
        sizes = (ctypes.c_size_t * len(texts))(*map(len, texts))
        call("rl_options_set_string_list", self, key, starts, sizes, len(texts))

    def __getitem__(self, key: str) -> Any:
        value, text = self._get(key)
        kind = OptionType(value.type)
        if kind in _LISTS:
            items = _items(text) if value.num_items else []
            return items if kind == OptionType.STRING_LIST else [int(item) for item in items]
        if kind in (OptionType.STRING, OptionType.ENUM):
            return text
        if kind == OptionType.BOOL:
            return bool(value.i64)
        if kind == OptionType.F64:
            return value.f64
        return value.u64 if kind in (OptionType.U64, OptionType.BYTES) else value.i64

    def _get(self, key: str) -> Tuple[Any, str]:
        """The value of an option as librl gives it, and its text."""
        value = _raw.rl_option_value()
        return value, taken_text("rl_options_get", self, key, value)

    def update(self, values: Mapping[str, Value]) -> None:
        """Sets several options."""
        for key, value in values.items():
            self[key] = value

    def __iter__(self) -> Iterator[str]:
        return (info.key for info in option_infos())

    def __len__(self) -> int:
        return int(lib.rl_option_count())

    def items(self) -> Iterator[Tuple[str, Any]]:
        """Every option with its value."""
        return ((key, self[key]) for key in self)

    # ---- texts ----

    def set_text(self, key: str, text: str) -> None:
        """Sets an option of any type from text, as on a command line."""
        call("rl_options_set_text", self, key, text)

    def assign(self, text: str) -> None:
        """Sets an option from one text "key=value"."""
        key, separator, value = text.partition("=")
        if not separator:
            raise ValueError(f"{text!r} is not of the form key=value")
        self.set_text(key, value)

    def get_text(self, key: str) -> str:
        """The value of an option of any type as text."""
        return self._get(key)[1]

    # ---- the set ----

    def clone(self) -> Options:
        """An independent copy."""
        return make(Options, "rl_options_clone", self)

    def is_default(self, key: str) -> bool:
        """Whether an option has its default."""
        return bool(self._get(key)[0].is_default)

    def unset(self, key: str) -> None:
        """Sets an option back to its default."""
        call("rl_options_unset", self, key)

    def apply_preset(self, name: str) -> None:
        """Sets all values of a preset, or none."""
        call("rl_options_apply_preset", self, name)

    def validate(self) -> None:
        """Checks combinations of options; every violation is a part of the error."""
        call("rl_options_validate", self)

    def dump(self, only_changed: bool = False) -> str:
        """Lines "key=value"."""
        return taken_text("rl_options_export", self, OptionFormat.TEXT, int(only_changed))

    def export_json(self, only_changed: bool = False) -> str:
        """The set as a JSON document."""
        return taken_text("rl_options_export", self, OptionFormat.JSON, int(only_changed))

    def export_flatbuffer(self, only_changed: bool = False) -> bytes:
        """The set as a FlatBuffers document."""
        return taken_bytes("rl_options_export", self, OptionFormat.FLATBUFFER, int(only_changed))

    def import_json(self, document: str) -> None:
        """Sets options from a document of export_json: all or none."""
        call("rl_options_import", self, OptionFormat.JSON, document)

    def import_flatbuffer(self, document: bytes) -> None:
        """Sets options from a document of export_flatbuffer: all or none."""
        call("rl_options_import", self, OptionFormat.FLATBUFFER, document)

    @property
    def identity(self) -> int:
        """A hash of the options that the bits of a run depend on."""
        return int(get("rl_options_identity", self))
