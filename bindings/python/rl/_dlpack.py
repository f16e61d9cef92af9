"""DLPack 1.x, as dlpack.h of that project lays it out: tensors of librl as capsules, and capsules
and buffers of others as tensors that librl takes over. Libraries that know only DLPack before 1.0,
which cannot mark a tensor as read-only, are served too."""
from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

from ._arrays import Pinned
from .constants import Device, DType

NEW, OLD = b"dltensor_versioned", b"dltensor"
READ_ONLY = 1
LEGACY_STREAM = 1  # cudaStreamLegacy, and what the array API calls the default stream of CUDA
# (code, bits) of element types.
KINDS = {DType.F32: (2, 32), DType.BF16: (4, 16), DType.I32: (0, 32)}
SHARED = {ctypes.c_float: DType.F32, ctypes.c_int32: DType.I32}
_deleter: Any = CFUNCTYPE(None, c_void_p)
_destructor: Any = ctypes.PYFUNCTYPE(None, c_void_p)


class DLTensor(ctypes.Structure):
    """An array with a shape."""
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p),
                ("deleter", c_void_p), ("flags", c_uint64), ("tensor", DLTensor)]


class Managed(ctypes.Structure):
    """DLManagedTensor, which DLPack had before 1.0."""
    _fields_ = [("tensor", DLTensor), ("manager", c_void_p), ("deleter", c_void_p)]


def _python_api(name: str, result: Any, *parameters: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    # A type of its own: others of the process may declare the same function in another way.
    address: Any = ctypes.cast(function, c_void_p).value
    return ctypes.PYFUNCTYPE(result, *parameters)(address)


# The capsule of a destructor is not counted as an object any more, so it is passed as an address.
_new_capsule = _python_api("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)
_is_valid = _python_api("PyCapsule_IsValid", ctypes.c_int, c_void_p, c_char_p)
_pointer = _python_api("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_set_name = _python_api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, c_char_p)
_USED = {NEW: ctypes.c_char_p(b"used_dltensor_versioned"),
         OLD: ctypes.c_char_p(b"used_dltensor")}  # capsules keep the address of their name
_NAMES = {name: ctypes.c_char_p(name) for name in (NEW, OLD)}


def end(address: int, kind: Any) -> None:
    """Calls the deleter of a tensor that nobody has taken."""
    deleter = kind.from_address(address).deleter
    if deleter:
        _deleter(deleter)(address)


@_destructor
def _end_untaken(capsule: int) -> None:
    for name, kind in ((NEW, Versioned), (OLD, Managed)):
        if _is_valid(capsule, name):
            end(_pointer(capsule, name), kind)


_end_untaken_address = ctypes.cast(_end_untaken, c_void_p)

# What keeps the memory of a struct made here alive, by the struct's address, until its deleter is
# called. The functions that librl and others call live as long as the process.
_alive: dict[int, Any] = {}


@_deleter
def _drop(address: int) -> None:
    _alive.pop(address, None)


@_deleter
def _drop_old(address: int) -> None:
    held = _alive.pop(address, None)
    if held is not None:
        end(held[1], Versioned)


@_deleter
def _drop_from_old(address: int) -> None:
    held = _alive.pop(address, None)
    if held is not None:
        end(held[1], Managed)


ctypes.pythonapi.Py_IncRef(ctypes.py_object(_drop))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_drop_old))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_drop_from_old))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_end_untaken))


def capsule(address: int, old: bool) -> Any:
    """A capsule of a DLManagedTensorVersioned, which it owns until somebody takes it."""
    if not old:
        return _new_capsule(address, _NAMES[NEW], _end_untaken_address)
    managed = Managed(tensor=Versioned.from_address(address).tensor,
                      deleter=ctypes.cast(_drop_old, c_void_p).value)
    _alive[ctypes.addressof(managed)] = (managed, address)
    return _new_capsule(ctypes.addressof(managed), _NAMES[OLD], _end_untaken_address)


def _take(taken: Any, name: bytes) -> int:
    address = _pointer(id(taken), name)
    _set_name(taken, _USED[name])
    return int(address)


def _versioned(held: Any, tensor: DLTensor, flags: int, deleter: Any) -> int:
    made = Versioned(major=1, minor=0, flags=flags, tensor=tensor,
                     deleter=ctypes.cast(deleter, c_void_p).value)
    _alive[ctypes.addressof(made)] = (made, *held)
    return ctypes.addressof(made)


def from_capsule(taken: Any) -> int:
    """The DLManagedTensorVersioned of a capsule, which the caller owns from now on."""
    if _is_valid(id(taken), NEW):
        return _take(taken, NEW)
    if not _is_valid(id(taken), OLD):
        raise TypeError("not a DLPack capsule, or one that was taken before")
    address = _take(taken, OLD)
    return _versioned((address,), Managed.from_address(address).tensor, 0, _drop_from_old)


def from_buffer(source: Any) -> int:
    """A DLManagedTensorVersioned of the memory of an object with the buffer protocol."""
    memory = Pinned(source, contiguous=False)
    dtype = next((dtype for kind, dtype in SHARED.items() if memory.holds(kind)), None)
    if dtype is None:
        raise TypeError(f"elements of format {memory.format!r}; float32 and int32 can be shared")
    code, bits = KINDS[dtype]
    dims = len(memory.shape)
    shape, strides = (c_int64 * dims)(*memory.shape), (c_int64 * dims)(*memory.strides)
    tensor = DLTensor(data=memory.address, device_type=Device.CPU, ndim=dims, code=code, bits=bits,
                      lanes=1, shape=ctypes.cast(shape, POINTER(c_int64)),
                      strides=ctypes.cast(strides, POINTER(c_int64)))
    return _versioned((memory, shape, strides), tensor, READ_ONLY * memory.read_only, _drop)


def _shared(source: Any, **stream: int) -> int:
    try:
        return from_capsule(source.__dlpack__(max_version=(1, 0), **stream))
    except TypeError:  # it knows DLPack before 1.0 alone
        pass
    try:
        return from_capsule(source.__dlpack__(**stream))
    except BufferError:  # it is read-only, which that cannot say; the buffer of a CPU's tensor can
        if stream:
            raise
        return from_buffer(source)


def taken_from(source: Any) -> tuple[int, int | None]:
    """A DLManagedTensorVersioned of whatever can be shared: DLPack if the object has it, else its
    buffer. And the stream behind whose work its values are there: None for memory of the CPU."""
    if not hasattr(source, "__dlpack__"):
        return from_buffer(source), None
    kind, index = source.__dlpack_device__()
    if kind == Device.CPU:
        return _shared(source), None
    if kind == Device.CUDA:
        return _shared(source, stream=LEGACY_STREAM), LEGACY_STREAM
    raise BufferError(f"memory of the device ({int(kind)}, {index}) cannot be shared, only that of "
                      "the CPU and of CUDA")
