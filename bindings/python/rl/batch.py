"""A list of samples, as engines, buffers and conversations return it."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Iterable, Iterator, Union

from . import _raw
from ._arrays import Array, pinned
from ._handle import Handle, ask, call, make, taken_bytes
from ._scores import Score, scores_of
from .sample import Sample, SampleView


class Batch(Handle):
    """A list of samples: len(batch), batch[index], iteration. Batches can be pickled."""

    _kind = "rl_batch"

    @classmethod
    def of(cls, samples: Iterable[Union[Sample, SampleView]]) -> Batch:
        """A batch of copies of samples, all of whose arrays are checked."""
        views = [sample._view() for sample in samples]
        array = (_raw.rl_sample_view * max(1, len(views)))()
        for index, (view, _) in enumerate(views):
            array[index] = view
        made = make(cls, "rl_batch_create", array, len(views))
        del views
        return made

    @classmethod
    def concat(cls, batches: Iterable[Batch]) -> Batch:
        """The samples of batches, one after the other, with their present rewards."""
        return cls._joined([(batch, None) for batch in batches])

    @classmethod
    def from_bytes(cls, data: Any) -> Batch:
        """A batch of what to_bytes, or a buffer file, holds. Bytes may come from anywhere: they are
        checked."""
        held = pinned(data, ctypes.c_uint8)
        made = make(cls, "rl_batch_import", held.address, held.count)
        del held
        return made

    def to_bytes(self) -> bytes:
        """The samples with their present rewards, for another process or a file."""
        return taken_bytes("rl_batch_export", self)

    def select(self, indices: Array) -> Batch:
        """The samples at these indices, in any order, also repeated, with their present rewards."""
        return self._joined([(self, indices)])

    @classmethod
    def _joined(cls, parts: list[tuple[Batch, Array | None]]) -> Batch:
        array = (_raw.rl_batch_part * max(1, len(parts)))()
        held: list[object] = []
        for raw, (batch, indices) in zip(array, parts):
            token = batch._live()
            raw.struct_size, raw.batch = ctypes.sizeof(raw), token.value
            held.append(token)
            if indices is not None:
                memory = pinned(indices, ctypes.c_uint64)
                # The address of nothing: NULL would stand for all samples.
                raw.indices = memory.address or ctypes.addressof(array)
                raw.num_indices = memory.count
                held.append(memory)
        made = make(cls, "rl_batch_select", array, len(parts))
        del held
        return made

    def __reduce__(self) -> tuple[Callable[[bytes], Batch], tuple[bytes]]:
        return Batch.from_bytes, (self.to_bytes(),)

    def __len__(self) -> int:
        return int(ask("rl_batch_count", self))

    def __getitem__(self, index: int) -> SampleView:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"sample {index} of {count}")
        return SampleView._make(self, "rl_batch_sample", "rl_batch_tensor", index % count)

    def __iter__(self) -> Iterator[SampleView]:
        return (self[index] for index in range(len(self)))

    def set_reward(self, index: int, reward: float, parts: Array | None = None,
                   token_rewards: Array | None = None) -> None:
        """Sets the reward of a sample with its reward parts or token rewards, replacing earlier
        ones."""
        self.score(index, [Score(0, reward, parts, token_rewards=token_rewards)])

    def score(self, first: int, scores: Iterable[Score]) -> None:
        """Sets the rewards of samples from sample `first` on: all of them or, after a failure,
        none. The sample_id of a score is 0 or that of its sample."""
        array, count, held = scores_of(scores)
        call("rl_batch_score", self, first, array, count)
        del held
