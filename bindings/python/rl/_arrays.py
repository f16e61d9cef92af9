"""Arrays on their way to librl and back, without copies where the memory has the right type.

What librl returns is shown as a read-only memoryview: numpy.asarray(view) makes a numpy array of it
without a copy, view.tolist() a list. A view keeps alive what owns its memory."""
from __future__ import annotations

import array
import ctypes
import math
from typing import TYPE_CHECKING, Any, Iterable, Sequence, Union

if TYPE_CHECKING:
    Ints = memoryview[int]
    Floats = memoryview[float]
else:
    Ints = Floats = memoryview

# What a parameter that is an array may be: anything with the buffer protocol, which numpy arrays
# have, or numbers in an iterable. Arrays of the right type in C order are passed where they are.
Array = Union[Any, Iterable[int], Iterable[float]]

FORMATS: dict[Any, str] = {
    ctypes.c_int32: "i", ctypes.c_int64: "q", ctypes.c_uint64: "Q", ctypes.c_uint8: "B",
    ctypes.c_uint16: "H", ctypes.c_float: "f", ctypes.c_double: "d"}
_SAME = {"l": "q", "L": "Q", "?": "B"}  # other names of these formats
_FORMAT, _ND, _STRIDES = 0x4, 0x8, 0x18  # PyBUF_ flags
_CONTIGUOUS = 0x20


class _Buffer(ctypes.Structure):
    """Py_buffer."""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int),
                ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]
_release_buffer.restype = None


class Pinned:
    """The memory of an object with the buffer protocol, held in place while this lives."""

    def __init__(self, source: Any, contiguous: bool = True) -> None:
        # A memoryview lets go of the memory in C. A __del__ would run Python code after a call, and
        # a Ctrl-C that comes during the call would be raised in there and be lost.
        self._holder = memoryview(source)
        held = _Buffer()
        flags = _FORMAT | _STRIDES | (_CONTIGUOUS if contiguous else 0)
        if _get_buffer(self._holder, ctypes.byref(held), flags) != 0:  # it has raised by itself
            raise BufferError(f"{type(source).__name__} has no buffer")
        try:
            self._describe(held)
        finally:
            _release_buffer(ctypes.byref(held))

    def _describe(self, held: _Buffer) -> None:
        self.address: int | None = held.buf
        self.read_only = bool(held.readonly)
        self.shape = tuple(held.shape[:held.ndim])
        self.item_bytes = int(held.itemsize)  # 0 for items such as empty structs
        item = self.item_bytes or 1
        self.strides = tuple(held.strides[i] // item for i in range(held.ndim))
        self.count = math.prod(self.shape)
        name = (held.format or b"B").decode().lstrip("@=<")
        self.format = _SAME.get(name, name)

    def holds(self, kind: Any) -> bool:
        """Whether the items are of a ctypes type. The name of a format alone does not say so: items
        without bytes have one, and that of a C long goes by two sizes."""
        return self.format == FORMATS[kind] and self.item_bytes == ctypes.sizeof(kind)


def pinned(values: Array, kind: Any) -> Pinned:
    """An array of a ctypes type, in C order: the given one if it is that, else a copy. A number
    that the type cannot hold is an OverflowError."""
    wanted = FORMATS[kind]
    try:
        found = Pinned(values)
        if found.holds(kind):
            return found
        if found.item_bytes:
            view: Any = memoryview(values)  # type: ignore[arg-type]
            values = view.cast("B").cast(found.format).tolist()
    except (BufferError, TypeError, ValueError):
        pass  # no buffer, or one in another order: it is iterated over
    return Pinned(array.array(wanted, values))


def shown(address: int | None, kind: Any, shape: Sequence[int], owner: object,
          read_only: bool = True) -> Any:
    """An array of librl where it is, in row-major order. The view keeps the owner alive."""
    count = math.prod(shape)
    if not address or count == 0:
        return memoryview(array.array(FORMATS[kind]))
    memory = (kind * count).from_address(address)
    memory.owner = owner
    view: Any = memoryview(memory).cast("B")
    view = view.cast(FORMATS[kind], list(shape) or [1])
    return view.toreadonly() if read_only else view


def copied(address: int | None, kind: Any, count: int) -> Any:
    """A copy of an array of librl."""
    values = array.array(FORMATS[kind])
    if address and count:
        values.frombytes(ctypes.string_at(address, count * ctypes.sizeof(kind)))
    return memoryview(values).toreadonly()


def zeros(kind: Any, count: int) -> array.array[Any]:
    """An array for librl to fill in."""
    return array.array(FORMATS[kind], bytes(count * ctypes.sizeof(kind)))
