"""A buffer, which collects scored samples into groups on their way to a trainer."""
from __future__ import annotations

import ctypes
import os
from typing import Union

from . import _raw
from ._arrays import Array, pinned
from ._handle import Handle, Token, call, filled, get, make, result, waiting
from .batch import Batch
from .constants import Code
from .errors import outcome
from .event import EventQueue
from .model import Model, save_flags
from .options import Options
from .records import BufferFileInfo, BufferStats
from .runtime import Runtime
from .sample import Sample, SampleView
from .store import Store, table_of

Path = Union[str, "os.PathLike[str]"]
_ALL = (1 << 64) - 1


def buffer_file_info(path: Path, runtime: Runtime | None = None) -> BufferFileInfo:
    """The description at the beginning of a buffer file, read through the files of a runtime if
    there is one."""
    view = _raw.rl_buffer_file_info()
    if runtime is None:
        filled(view, "rl_buffer_get_file_info", os.fspath(path))
    else:
        filled(view, "rl_buffer_get_hosted_file_info", runtime, os.fspath(path))
    return BufferFileInfo.of(view)


class Buffer(Handle):
    """Scored samples, grouped by ordinal. A group is whole when it has
    pipeline.samples_per_prompt samples."""

    _kind = "rl_buffer"
    _ends_under_calls = True

    def __init__(self, options: Options | None = None, max_samples: int = 1024,
                 store: Store | None = None) -> None:
        """With a store of the host, whole groups go there, and take() claims them."""
        if store is None:
            self._create("rl_buffer_create", options, max_samples)
        else:
            self._create("rl_buffer_create_stored", options, max_samples, table_of(store))

    def put(self, samples: Batch | Sample | SampleView) -> None:
        """Copies a sample, or every sample of a batch or none, into the buffer."""
        if isinstance(samples, Batch):
            call("rl_buffer_put_batch", self, samples)
        else:
            view, held = samples._view()
            call("rl_buffer_put", self, view)
            del held

    def take(self, max_groups: int = _ALL, *, min_groups: int = 1, version: int = 0,
             step: int = 0, timeout: float | None = 0) -> Batch | None:
        """Removes whole groups, those of buffer.policy first, and returns their samples. Waits
        `timeout` seconds for min_groups, without one until they are there; None when they did not
        come. Groups that are more than buffer.max_staleness behind `version` are removed instead.
        With a store they are taken for the training step `step`. Done is raised when the
        buffer was closed meanwhile."""
        wanted = _raw.rl_take()
        wanted.min_groups, wanted.max_groups, wanted.version = min_groups, max_groups, version
        wanted.step = step
        out = ctypes.c_void_p()
        try:
            code = waiting(lambda slice_ns: result("rl_buffer_take", self, wanted, slice_ns,
                                                   ctypes.byref(out)), timeout)
        except BaseException:  # such as KeyboardInterrupt: what was taken goes back
            if out.value and step == 0:  # a store gives it again after resume
                self.put(Batch._adopt(Token("rl_batch", out.value)))
            raise
        if code == Code.OK:
            return Batch._adopt(Token("rl_batch", out.value))
        if code == Code.TIMEOUT:
            return None
        raise outcome(code)

    def acknowledge(self, step: int) -> None:
        """The weights of a training step are durable: the groups that were taken for it and for
        earlier steps leave the store."""
        call("rl_buffer_acknowledge", self, step)

    def resume(self, step: int) -> None:
        """Training goes on after a step, that of a checkpoint or 0: groups that were taken for
        later ones come again."""
        call("rl_buffer_resume", self, step)

    def drop(self, ordinals: Array | None = None, *, below_version: int = 0,
             incomplete_only: bool = False) -> int:
        """Removes groups, whole or not, and returns the number of their samples: those of the given
        ordinals, of an older version, that are not whole; without arguments all of them."""
        wanted = _raw.rl_drop()
        wanted.below_version, wanted.incomplete_only = below_version, incomplete_only
        held = None
        if ordinals is not None:
            held = pinned(ordinals, ctypes.c_uint64)
            if held.count == 0:
                return 0
            wanted.ordinals, wanted.num_ordinals = held.address, held.count
        count = int(get("rl_buffer_drop", self, wanted))
        del held
        return count

    def options(self) -> Options:
        """A copy of the options that the buffer was created with."""
        return make(Options, "rl_buffer_options", self)

    def set_queue(self, queue: EventQueue | None, source: int = 0) -> None:
        """Sends the buffer's events to a queue from now on, with the number `source`; None:
        nowhere. An EventKind.GROUPS says that whole groups wait: take them without waiting, until
        there are none. An EventKind.GROUP_DROPPED says which group was removed, and why."""
        call("rl_buffer_set_queue", self, queue, source)

    def stats(self) -> BufferStats:
        """What the buffer holds, and counts of samples since it was created."""
        return BufferStats.of(filled(_raw.rl_buffer_stats(), "rl_buffer_get_stats", self))

    def save(self, path: Path, model: Model | None = None, replace: bool = False) -> None:
        """Writes every sample to a buffer file, which names the digest of a model."""
        call("rl_buffer_save", self, os.fspath(path), model, save_flags(replace))

    def set_runtime(self, runtime: Runtime | None) -> None:
        """From now on files are those of a runtime; None: those of the system."""
        call("rl_buffer_set_runtime", self, runtime)

    def load(self, path: Path, model: Model | None = None) -> int:
        """Adds every sample of a buffer file, and returns their number. With a model the file must
        say that training starts from its weights."""
        return int(get("rl_buffer_load", self, os.fspath(path), model))
