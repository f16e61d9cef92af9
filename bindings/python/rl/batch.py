"""A list of samples, as engines, buffers and conversations return it."""
from __future__ import annotations

import ctypes
from typing import Iterator

from ._arrays import Array, pinned
from ._handle import Handle, ask, call
from .sample import SampleView


class Batch(Handle):
    """A list of samples: len(batch), batch[index], iteration."""

    _kind = "rl_batch"

    def __len__(self) -> int:
        return int(ask("rl_batch_count", self))

    def __getitem__(self, index: int) -> SampleView:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"sample {index} of {count}")
        return SampleView._make(self, "rl_batch_sample", "rl_batch_tensor", index % count)

    def __iter__(self) -> Iterator[SampleView]:
        return (self[index] for index in range(len(self)))

    def set_reward(self, index: int, reward: float) -> None:
        """Sets the reward of a sample, replacing an earlier one."""
        call("rl_batch_set_reward", self, index, reward)

    def set_reward_parts(self, index: int, parts: Array) -> None:
        """Sets the reward parts of a sample, in addition to its reward."""
        call("rl_batch_set_reward_parts", self, index, pinned(parts, ctypes.c_double))
