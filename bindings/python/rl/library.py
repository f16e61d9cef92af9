"""What the loaded librl is."""
from __future__ import annotations

import ctypes
from typing import Iterator, NamedTuple

from . import _raw
from ._handle import call, filled, get, taken_text
from ._library import lib
from ._record import text_at
from .records import DeviceInfo


class Feature(NamedTuple):
    """A feature, and why it does not work here; `reason` is empty when it does."""

    name: str
    available: bool
    reason: str


def version() -> str:
    """The release of librl, such as "0.1.0"."""
    return text_at(lib.rl_version_string())


def abi_version() -> tuple[int, int]:
    """The version of its C interface: major and minor number."""
    number = lib.rl_abi_version()
    return number >> 16, number & 0xFFFF


def build_info() -> dict[str, str]:
    """How librl was built."""
    lines = taken_text("rl_build_info").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def feature(name: str) -> Feature:
    """Whether a feature works in this build on this machine."""
    available, reason = ctypes.c_uint32(), ctypes.c_void_p()
    call("rl_feature", name, ctypes.byref(available), ctypes.byref(reason))
    return Feature(name, available.value == 1, text_at(reason.value))


def features() -> Iterator[Feature]:
    """All features."""
    index = 0
    while name := lib.rl_feature_name(index):
        yield feature(text_at(name))
        index += 1


def devices() -> Iterator[DeviceInfo]:
    """The GPUs that runtime.device_index counts; none where the feature "cuda" does not work."""
    for index in range(int(get("rl_device_count", kind=ctypes.c_size_t))):
        yield DeviceInfo.of(filled(_raw.rl_device_info(), "rl_device_get", index))


def constant(name: str) -> int:
    """A constant of rl.h by its name there, such as "RL_EVENT_SCORE"."""
    return int(get("rl_constant", name, kind=ctypes.c_int64))
