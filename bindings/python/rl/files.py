"""Files of the host: models, data and checkpoints where the host keeps them."""
from __future__ import annotations

import abc
import ctypes
import errno
import itertools
import threading
from typing import Any, Callable, Iterable

from . import _raw
from ._handle import callback, interrupt_later
from ._hooks import hold
from ._record import text_at
from .constants import FileKind


class FileSystem(abc.ABC):
    """A file system of the host, for Runtime(options, files). librl calls it on any thread, several
    at once, and it may call nothing of librl. FileNotFoundError means that there is no such file;
    whatever else a method raises fails the call of librl as Code.IO, with its text. librl writes
    important files under another name and renames them once they are whole."""

    prefix: str = ""  # paths that begin with it are these files; "": all paths

    @abc.abstractmethod
    def open(self, path: str) -> tuple[Any, int]:
        """Opens an existing file to read: any object for it, and its size in bytes."""

    @abc.abstractmethod
    def create(self, path: str, append: bool) -> Any:
        """Opens a file to write, empty or at its end: any object for it."""

    @abc.abstractmethod
    def read(self, file: Any, offset: int, into: memoryview) -> None:
        """Fills all of `into` from an offset."""

    @abc.abstractmethod
    def write(self, file: Any, data: memoryview) -> None:
        """Adds data at the end; the memory is librl's and must be copied."""

    def sync(self, file: Any) -> None:
        """Makes durable what was written."""

    @abc.abstractmethod
    def close(self, file: Any, discard: bool) -> None:
        """Ends a file; its contents are not needed if discard is true."""

    @abc.abstractmethod
    def kind(self, path: str) -> FileKind:
        """What a path names."""

    @abc.abstractmethod
    def list(self, path: str) -> Iterable[str]:
        """The names in a directory."""

    @abc.abstractmethod
    def make_directories(self, path: str) -> None:
        """Makes a directory and those above it; no failure if it exists."""

    @abc.abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Renames a file or a directory in one go; a file of that name is replaced."""

    @abc.abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a directory with all in it; no failure if nothing is there."""

    def sync_directory(self, path: str) -> None:
        """Makes durable which entries a directory has."""


class _Adapter:
    """The functions of an rl_files for a FileSystem."""

    def __init__(self, files: FileSystem) -> None:
        self.files = files
        self.open_files: dict[int, Any] = {}
        self.numbers = itertools.count(1)
        self.last = threading.local()  # .text: of the last exception on this thread
        self.functions = [getattr(_raw, f"rl_file_{kind}_fn")(getattr(self, name))
                          for name, kind in _FUNCTIONS.items()]

    def _run(self, work: Callable[[], None]) -> int:
        """Runs a method of the host's; the code that librl gets."""
        with callback():
            try:
                work()
                return 0
            except FileNotFoundError as raised:
                self.last.text = str(raised)
                return errno.ENOENT
            except BaseException as raised:
                self.last.text = f"{type(raised).__name__}: {raised}"
                if not isinstance(raised, Exception):
                    interrupt_later(raised)
                code = raised.errno if isinstance(raised, OSError) else None
                return code if code and code != errno.ENOENT else errno.EIO

    def _keep(self, place: int, file: Any) -> None:
        number = next(self.numbers)
        self.open_files[number] = file
        ctypes.c_void_p.from_address(place).value = number

    def open(self, _: int, path: int, size: int, place: int, size_place: int) -> int:
        def work() -> None:
            file, length = self.files.open(text_at(path, size))
            self._keep(place, file)
            ctypes.c_uint64.from_address(size_place).value = length
        return self._run(work)

    def create(self, _: int, path: int, size: int, append: int, place: int) -> int:
        return self._run(lambda: self._keep(
            place, self.files.create(text_at(path, size), bool(append))))

    def read(self, _: int, file: int, offset: int, data: int, size: int) -> int:
        return self._run(lambda: self.files.read(
            self.open_files[file], offset, _bytes_at(data, size)))

    def write(self, _: int, file: int, data: int, size: int) -> int:
        return self._run(lambda: self.files.write(
            self.open_files[file], _bytes_at(data, size).toreadonly()))

    def sync(self, _: int, file: int) -> int:
        return self._run(lambda: self.files.sync(self.open_files[file]))

    def close(self, _: int, file: int, discard: int) -> int:
        return self._run(lambda: self.files.close(self.open_files.pop(file), bool(discard)))

    def kind(self, _: int, path: int, size: int, place: int) -> int:
        def work() -> None:
            kind = int(self.files.kind(text_at(path, size)))
            ctypes.c_int32.from_address(place).value = kind
        return self._run(work)

    def list(self, _: int, path: int, size: int, found: Any, context: int) -> int:
        def work() -> None:
            for name in self.files.list(text_at(path, size)):
                text = name.encode("utf-8", "surrogateescape")
                held = ctypes.create_string_buffer(text, len(text) + 1)
                if found(context, ctypes.addressof(held), len(text)) != 0:
                    raise MemoryError("librl has no memory for the name")
        return self._run(work)

    def make_directories(self, _: int, path: int, size: int) -> int:
        return self._run(lambda: self.files.make_directories(text_at(path, size)))

    def rename(self, _: int, source: int, source_size: int, target: int, target_size: int) -> int:
        return self._run(lambda: self.files.rename(text_at(source, source_size),
                                                   text_at(target, target_size)))

    def remove(self, _: int, path: int, size: int) -> int:
        return self._run(lambda: self.files.remove(text_at(path, size)))

    def sync_directory(self, _: int, path: int, size: int) -> int:
        return self._run(lambda: self.files.sync_directory(text_at(path, size)))

    def describe(self, _: int, code: int, text: int, text_size: int) -> None:
        told = getattr(self.last, "text", "").encode("utf-8", "replace")[:text_size - 1]
        told = told.decode("utf-8", "ignore").encode("utf-8").replace(b"\0", b" ")
        ctypes.memmove(text, told + b"\0", len(told) + 1)


# The methods of an adapter, in the order of the fields of rl_files, with their types.
_FUNCTIONS = {"open": "open", "create": "create", "read": "read", "write": "write", "sync": "sync",
              "close": "close", "kind": "kind", "list": "list", "make_directories": "path",
              "rename": "rename", "remove": "path", "sync_directory": "path",
              "describe": "describe"}


def _bytes_at(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def host_of(files: FileSystem) -> tuple[Any, Any]:
    """An rl_host with these files, and what has to live until it was given to librl."""
    adapter, table, host = _Adapter(files), _raw.rl_files(), _raw.rl_host()
    prefix = files.prefix.encode("utf-8", "surrogateescape")
    text = ctypes.create_string_buffer(prefix, len(prefix) + 1)
    for name, function in zip(_FUNCTIONS, adapter.functions):
        setattr(table, name, ctypes.cast(function, ctypes.c_void_p).value)
    table.user_data, destroy = hold(adapter)
    table.destroy = ctypes.cast(destroy, ctypes.c_void_p).value
    table.prefix, table.prefix_len = ctypes.addressof(text), len(prefix)
    host.files = ctypes.addressof(table)
    return host, (table, text)
