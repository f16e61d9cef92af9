"""The base of the generated records: copies of what librl reports in a struct. Nothing in a record
refers to memory of librl."""
from __future__ import annotations

import ctypes
import dataclasses
import functools
from typing import Any, Callable, TypeVar

R = TypeVar("R", bound="Record")
Read = Callable[[Any], Any]


def text_at(address: int | None, size: int = -1) -> str:
    """A copy of a text of librl, which ends with NUL if no size is given."""
    if not address:
        return ""
    return ctypes.string_at(address, size).decode("utf-8", "surrogateescape")


def _reader(name: str, kind: Any, sized: bool) -> Read:
    if kind is str and sized:
        return lambda view: text_at(getattr(view, name), getattr(view, name + "_len"))
    if kind is str:
        return lambda view: text_at(getattr(view, name))
    if kind in (int, float):
        return lambda view: getattr(view, name)
    return lambda view: kind(getattr(view, name))


@functools.lru_cache(maxsize=None)
def _readers(record: Any, view: Any) -> list[tuple[str, Read]]:
    return [(f.name, _reader(f.name, f.type, hasattr(view, f.name + "_len")))
            for f in dataclasses.fields(record)]


@dataclasses.dataclass(frozen=True)
class Record:
    """What librl reports in a struct, copied."""

    @classmethod
    def of(cls: type[R], view: ctypes.Structure) -> R:
        """The record of a struct that librl has filled in."""
        record: Any = cls
        return cls(**{name: read(view) for name, read in _readers(record, type(view))})
