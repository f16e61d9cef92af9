"""A list of samples, as engines, buffers and conversations return it."""
from __future__ import annotations

from typing import Iterator

from ._arrays import Array
from ._handle import Handle, ask, call
from ._scores import Score, scores_of
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

    def set_reward(self, index: int, reward: float, parts: Array | None = None) -> None:
        """Sets the reward of a sample with its reward parts, replacing earlier ones."""
        array, count, held = scores_of([Score(0, reward, parts)])
        call("rl_batch_score", self, index, array, count)
        del held
