"""Tensors: arrays with a shape that librl and other libraries share without a copy."""
from __future__ import annotations

import ctypes
from typing import Any

from . import _dlpack, _raw
from ._arrays import shown
from ._handle import Handle, Token, filled, get, make
from .constants import Device, DType, TensorFlags
from .runtime import Runtime

_ELEMENTS = {DType.F32: ctypes.c_float, DType.I32: ctypes.c_int32, DType.BF16: ctypes.c_uint16}


def _numbers(owner: Token, address: int | None, count: int) -> tuple[int, ...]:
    """A copy of an array that lives as long as its owner."""
    return tuple((ctypes.c_int64 * count).from_address(address)) if address else ()


def tensor_request(copy: bool, device: Device, device_index: int, stream: int | None) -> Any:
    """The struct that says where the values of a tensor are wanted."""
    request = _raw.rl_tensor_request()
    request.flags = TensorFlags.COPY if copy else 0
    request.device, request.device_index, request.stream = device, device_index, stream
    return request


def _consumer_stream(device: int, stream: int | None) -> int | None:
    """The stream that the array API means: without one it is CUDA's default stream, and with -1 the
    consumer has none to order, so the values are there when the call returns."""
    if device == Device.CPU:
        if stream is not None:
            raise BufferError("the tensor is in memory of the CPU, which has no streams")
        return None
    if stream == 0:
        raise BufferError("stream 0 may be either default stream of CUDA; 1 and 2 name them")
    if stream is None:
        return _dlpack.LEGACY_STREAM
    return None if stream == -1 else stream


class Tensor(Handle):
    """An array with a shape, where it is: a weight, an array of a sample, hidden states, or values
    of the host. It keeps alive what its memory belongs to, and so does what was made of it: a
    memoryview, a numpy array (numpy.asarray), a tensor of another library (from_dlpack)."""

    _kind = "rl_tensor"

    def __init__(self, runtime: Runtime, values: Any, copy: bool = False) -> None:
        """Takes over a tensor of another library (DLPack), or float32 or int32 values of an object
        with the buffer protocol: where they are, or as a copy. Memory of CUDA must be that of the
        runtime's device; its values are read behind CUDA's default stream, behind which the other
        library puts them."""
        flags = TensorFlags.COPY if copy else 0
        managed, stream = _dlpack.taken_from(values)
        try:
            runtime._live()
        except BaseException:
            _dlpack.end(managed, _dlpack.Versioned)
            raise
        self._create("rl_tensor_import_dlpack", runtime, managed, stream, flags)

    def _info(self) -> Any:
        return filled(_raw.rl_tensor_info(), "rl_tensor_get_info", self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        token, info = self._live(), self._info()
        return _numbers(token, info.shape, info.num_dims)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distances of neighbours, in elements."""
        token, info = self._live(), self._info()
        return _numbers(token, info.strides, info.num_dims)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return DType(self._info().dtype)

    @property
    def device(self) -> Device:
        """The kind of memory that it is in."""
        return Device(self._info().device)

    @property
    def read_only(self) -> bool:
        """Whether the memory must not be written to."""
        return bool(self._info().read_only)

    def __len__(self) -> int:
        return self.shape[0]

    def retain(self) -> Tensor:
        """Another object of the same tensor."""
        return make(Tensor, "rl_tensor_retain", self)

    def memoryview(self) -> Any:
        """The elements, where they are; those of bf16 are the upper halves of float32, as integers
        of 16 bits. A tensor in another order than row-major, or in memory of a GPU, is a
        BufferError."""
        token, info = self._live(), self._info()
        if info.device != Device.CPU:
            raise BufferError(f"the tensor is in memory of the device ({info.device}, "
                              f"{info.device_index}), which only DLPack shares")
        shape, strides = _numbers(token, info.shape, info.num_dims), self.strides
        stride = 1
        for extent, step in zip(reversed(shape), reversed(strides)):
            if extent > 1 and step != stride and info.num_elements:
                raise BufferError(f"strides {strides} are not row-major for the shape {shape}")
            stride *= extent
        return shown(info.data, _ELEMENTS[DType(info.dtype)], shape, token, bool(info.read_only))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy
        view = numpy.asarray(self.memoryview()).reshape(self.shape)
        return view if dtype is None and not copy else numpy.array(view, dtype)

    def numpy(self) -> Any:
        """The elements as a numpy array, where they are, as memoryview."""
        return self.__array__()

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        here = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != here:
            raise BufferError(f"the tensor is in memory of the device {here}, not {dl_device}")
        if copy:
            raise BufferError("a copy is not made here")
        old = max_version is None or max_version[0] < 1
        if old and self.read_only:
            raise BufferError("the tensor is read-only, which DLPack before 1.0 cannot say; "
                              "numpy.asarray takes it")
        managed = get("rl_tensor_export_dlpack", self, _consumer_stream(here[0], stream),
                      kind=ctypes.c_void_p)
        return _dlpack.capsule(managed, old)

    def __dlpack_device__(self) -> tuple[int, int]:
        info = self._info()
        return info.device, info.device_index
