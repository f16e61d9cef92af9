"""Files of the host: models, data and checkpoints where the host keeps them."""
from __future__ import annotations

import abc
import ctypes
import itertools
from typing import Any, Iterable

from . import _raw
from ._record import text_at
from ._services import Service, bytes_at
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


class _Adapter(Service):
    """The functions of an rl_files for a FileSystem."""

    def __init__(self, files: FileSystem) -> None:
        super().__init__("rl_file", _FUNCTIONS)
        self.files = files
        self.open_files: dict[int, Any] = {}
        self.numbers = itertools.count(1)

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
            self.open_files[file], offset, bytes_at(data, size)))

    def write(self, _: int, file: int, data: int, size: int) -> int:
        return self._run(lambda: self.files.write(
            self.open_files[file], bytes_at(data, size).toreadonly()))

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


# The methods of an adapter, in the order of the fields of rl_files, with their types.
_FUNCTIONS = {"open": "open", "create": "create", "read": "read", "write": "write", "sync": "sync",
              "close": "close", "kind": "kind", "list": "list", "make_directories": "path",
              "rename": "rename", "remove": "path", "sync_directory": "path",
              "describe": "describe"}


def files_table(host: Any, files: FileSystem) -> tuple[Service, Any, Any]:
    """Sets the files of an rl_host: their functions, the table to fill with them, and what the
    table refers to."""
    table = _raw.rl_files()
    prefix = files.prefix.encode("utf-8", "surrogateescape")
    text = ctypes.create_string_buffer(prefix, len(prefix) + 1)
    table.prefix, table.prefix_len = ctypes.addressof(text), len(prefix)
    host.files = ctypes.addressof(table)
    return _Adapter(files), table, text
