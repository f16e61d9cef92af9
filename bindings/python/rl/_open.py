"""The base of the enumerations: a number that a newer librl may have added is a member too."""
from __future__ import annotations

import enum


class OpenEnum(enum.IntEnum):
    """An enumeration in which every number has a member, called UNKNOWN_number if need be."""

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"UNKNOWN_{value}", value
        return cls._value2member_map_.setdefault(value, member)  # type: ignore[return-value]
