"""A buffer, which collects scored samples into groups on their way to a trainer."""
from __future__ import annotations

import ctypes
import os
from typing import NamedTuple, Union

from . import _raw
from ._handle import Handle, call, filled, get, maybe
from .batch import Batch
from .model import Model, save_flags
from .options import Options
from .records import BufferFileInfo
from .runtime import Runtime
from .sample import Sample, SampleView

Path = Union[str, "os.PathLike[str]"]
_ALL = (1 << 63) - 1


class BufferCount(NamedTuple):
    """What a buffer holds."""

    samples: int
    whole_groups: int


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

    def __init__(self, options: Options | None = None, max_samples: int = 1024) -> None:
        self._create("rl_buffer_create", options, max_samples)

    def put(self, samples: Batch | Sample | SampleView) -> None:
        """Copies a sample, or every sample of a batch or none, into the buffer."""
        if isinstance(samples, Batch):
            call("rl_buffer_put_batch", self, samples)
        else:
            view, held = samples._view()
            call("rl_buffer_put", self, view)
            del held

    def take(self, max_groups: int = _ALL) -> Batch | None:
        """Removes the whole groups of lowest ordinals and returns their samples; None when no group
        is whole."""
        return maybe(Batch, "rl_buffer_take", self, max_groups)

    def count(self) -> BufferCount:
        """What the buffer holds."""
        samples, groups = ctypes.c_uint64(), ctypes.c_uint64()
        call("rl_buffer_count", self, ctypes.byref(samples), ctypes.byref(groups))
        return BufferCount(samples.value, groups.value)

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
