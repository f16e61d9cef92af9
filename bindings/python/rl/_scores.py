"""What a host says of samples, as librl takes it."""
from __future__ import annotations

import ctypes
from typing import Any, Iterable, NamedTuple

from . import _raw
from ._arrays import Array, pinned
from .constants import TextFlags


class Score(NamedTuple):
    """The reward of a sample, its parts and what each token after the prompt earns in addition, or
    why it gets none."""
    sample_id: int = 0
    reward: float = 0.0
    parts: Array | None = None
    failure: str | None = None
    token_rewards: Array | None = None


class Reply(NamedTuple):
    """An answer to a turn of the model: token ids, a text, or finish. turn is the turn that it
    answers, `count` of its event; 0 is the present one."""
    sample_id: int
    ids: Array | None = None
    text: str | None = None
    finish: bool = False
    turn: int = 0
    add_special: bool = False
    allow_special: bool = False


def replies_of(replies: Iterable[Reply]) -> tuple[Any, int, list[object]]:
    """An array of rl_reply, its length, and what holds the memory it refers to."""
    entries = list(replies)
    array = (_raw.rl_reply * max(1, len(entries)))()
    held: list[object] = []
    for raw, reply in zip(array, entries):
        raw.struct_size = ctypes.sizeof(_raw.rl_reply)
        raw.sample_id, raw.turn, raw.finish = reply.sample_id, reply.turn, reply.finish
        raw.flags = (TextFlags.ADD_SPECIAL * reply.add_special
                     | TextFlags.ALLOW_SPECIAL * reply.allow_special)
        if reply.ids is not None:
            ids = pinned(reply.ids, ctypes.c_int32)
            raw.ids, raw.num_ids = ids.address, ids.count
            held.append(ids)
        if reply.text is not None:
            text = ctypes.create_string_buffer(reply.text.encode("utf-8", "surrogateescape"))
            raw.text, raw.text_len = ctypes.addressof(text), len(text) - 1
            held.append(text)
    return array, len(entries), held


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
        if score.token_rewards is not None:
            tokens = pinned(score.token_rewards, ctypes.c_double)
            raw.token_rewards, raw.num_token_rewards = tokens.address, tokens.count
            held.append(tokens)
        if score.failure is not None:
            text = ctypes.create_string_buffer(score.failure.encode("utf-8", "surrogateescape"))
            raw.failure, raw.failure_len = ctypes.addressof(text), len(text) - 1
            held.append(text)
    return array, len(entries), held
