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
from ._handle import (Handle, call, filled, get, make, taken_bytes, taken_text, texts_of)
from ._library import lib
from .constants import OptionType
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
    """The presets by name: the purpose of each, and its settings as texts."""
    found = {}
    for index in range(lib.rl_preset_count()):
        name, doc, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        call("rl_preset_at", index, *map(ctypes.byref, (name, doc, count)))
        title, purpose = texts_of_pointers(name, doc)
        rows = (texts_of("rl_preset_setting", title, i, count=2) for i in range(count.value))
        found[title] = (purpose, {key: value for key, value in rows})
    return found


def texts_of_pointers(*pointers: ctypes.c_void_p) -> List[str]:
    """Copies of texts of the library."""
    return [(ctypes.string_at(p.value) if p.value else b"").decode() for p in pointers]


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
        kind = _type_of(key)
        if kind in _LISTS:
            return self._list(kind, key)
        if kind in (OptionType.STRING, OptionType.ENUM):
            return taken_text("rl_options_get_string", self, key)
        if kind == OptionType.BOOL:
            return bool(get("rl_options_get_bool", self, key, kind=ctypes.c_uint32))
        if kind == OptionType.F64:
            return get("rl_options_get_f64", self, key, kind=ctypes.c_double)
        if kind in (OptionType.U64, OptionType.BYTES):
            return get("rl_options_get_u64", self, key)
        return get("rl_options_get_i64", self, key, kind=ctypes.c_int64)

    def _list(self, kind: OptionType, key: str) -> List[Any]:
        count = get("rl_options_get_list_size", self, key, kind=ctypes.c_size_t)
        if kind == OptionType.STRING_LIST:
            return [taken_text("rl_options_get_list_string", self, key, i) for i in range(count)]
        return [get("rl_options_get_list_i64", self, key, i, kind=ctypes.c_int64)
                for i in range(count)]

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
        call("rl_options_set_assignment", self, text)

    def get_text(self, key: str) -> str:
        """The value of an option of any type as text."""
        return taken_text("rl_options_get_text", self, key)

    # ---- the set ----

    def clone(self) -> Options:
        """An independent copy, which is not frozen."""
        return make(Options, "rl_options_clone", self)

    def is_default(self, key: str) -> bool:
        """Whether an option has its default."""
        return bool(get("rl_options_is_default", self, key, kind=ctypes.c_uint32))

    def unset(self, key: str) -> None:
        """Sets an option back to its default."""
        call("rl_options_unset", self, key)

    def apply_preset(self, name: str) -> None:
        """Sets all values of a preset, or none."""
        call("rl_options_apply_preset", self, name)

    def freeze(self) -> None:
        """From now on the set cannot be changed."""
        call("rl_options_freeze", self)

    @property
    def frozen(self) -> bool:
        """Whether the set can no longer be changed."""
        return bool(get("rl_options_is_frozen", self, kind=ctypes.c_uint32))

    def validate(self) -> None:
        """Checks combinations of options; every violation is a part of the error."""
        call("rl_options_validate", self)

    def dump(self, only_changed: bool = False) -> str:
        """Lines "key=value"."""
        return taken_text("rl_options_dump", self, int(only_changed))

    def diff(self, other: Options) -> str:
        """Lines "key=value" for what differs, with the values of `other`."""
        return taken_text("rl_options_diff", self, other)

    def export_json(self, only_changed: bool = False) -> str:
        """The set as a JSON document."""
        return taken_text("rl_options_export_json", self, int(only_changed))

    def export_flatbuffer(self, only_changed: bool = False) -> bytes:
        """The set as a FlatBuffers document."""
        return taken_bytes("rl_options_export_flatbuffer", self, int(only_changed))

    def import_json(self, document: str) -> None:
        """Sets options from a document of export_json: all or none."""
        call("rl_options_import_json", self, document)

    def import_flatbuffer(self, document: bytes) -> None:
        """Sets options from a document of export_flatbuffer: all or none."""
        call("rl_options_import_flatbuffer", self, document)

    @property
    def hash(self) -> int:
        """A hash of all values."""
        return int(get("rl_options_hash", self))

    @property
    def identity(self) -> int:
        """A hash of the options that the bits of a run depend on."""
        return int(get("rl_options_identity", self))
