"""What a host says of samples, as librl takes it."""
from __future__ import annotations

import ctypes
from typing import Any, Iterable, NamedTuple

from . import _raw
from ._arrays import Array, pinned


class Score(NamedTuple):
    """The reward of a sample with its parts, or why it gets none."""
    sample_id: int = 0
    reward: float = 0.0
    parts: Array | None = None
    failure: str | None = None


def scores_of(scores: Iterable[Score]) -> tuple[Any, int, list[object]]:
    """An array of rl_score, its length, and what holds the memory it refers to."""
    entries = list(scores)
    array = (_raw.rl_score * max(1, len(entries)))()
    held: list[object] = []
    for raw, score in zip(array, entries):
        raw.struct_size = ctypes.sizeof(_raw.rl_score)
        raw.sample_id, raw.reward = score.sample_id, score.reward
        if score.parts is not None:
            parts = pinned(score.parts, ctypes.c_double)
            raw.parts, raw.num_parts = parts.address, parts.count
            held.append(parts)
        if score.failure is not None:
            text = ctypes.create_string_buffer(score.failure.encode("utf-8", "surrogateescape"))
            raw.failure, raw.failure_len = ctypes.addressof(text), len(text) - 1
            held.append(text)
    return array, len(entries), held
