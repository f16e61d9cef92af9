"""A store of the host for groups between processes that sample and one that trains."""
from __future__ import annotations

import abc
import ctypes
from typing import Any, Iterable

from . import _raw
from ._record import text_at
from ._services import Service, bytes_at


class Store(abc.ABC):
    """A store of groups for Buffer(options, max_samples, store), such as a queue that processes
    share. librl calls it on any thread, and it may call nothing of librl. It may deliver a group
    several times and in any order: a group is trained on once. What a method raises fails the call
    of librl as Code.IO, with its text."""

    @abc.abstractmethod
    def put(self, name: str, group: bytes) -> None:
        """Keeps a group durably; one of the same name that waits may be replaced."""

    @abc.abstractmethod
    def claim(self, max_groups: int) -> Iterable[tuple[str, bytes]]:
        """Groups that nobody has claimed, at most so many, each with the token of its delivery.
        They are claimed from then on. Does not wait for any."""

    @abc.abstractmethod
    def recover(self) -> None:
        """Makes groups that were claimed and not acknowledged claimable again, also those that
        other processes have claimed."""

    @abc.abstractmethod
    def acknowledge(self, token: str) -> None:
        """Forgets a group, which may be gone already."""

    @abc.abstractmethod
    def set_aside(self, token: str) -> None:
        """Keeps a group that cannot be read where nobody claims it; it may be gone already."""

    @abc.abstractmethod
    def read_book(self) -> bytes | None:
        """The book, which says which groups were trained on; None if there is none."""

    @abc.abstractmethod
    def write_book(self, book: bytes) -> None:
        """Keeps the book durably, in place of the one before, in one go."""


class _Adapter(Service):
    """The functions of an rl_store for a Store."""

    def __init__(self, store: Store) -> None:
        super().__init__("rl_store", _FUNCTIONS)
        self.store = store

    def put(self, _: int, name: int, name_size: int, data: int, size: int) -> int:
        return self._run(lambda: self.store.put(text_at(name, name_size),
                                                bytes(bytes_at(data, size))))

    def claim(self, _: int, max_groups: int, found: Any, context: int) -> int:
        def work() -> None:
            for token, group in self.store.claim(max_groups):
                _give(found, context, token.encode("utf-8", "surrogateescape"), group)
        return self._run(work)

    def recover(self, _: int) -> int:
        return self._run(self.store.recover)

    def acknowledge(self, _: int, token: int, size: int) -> int:
        return self._run(lambda: self.store.acknowledge(text_at(token, size)))

    def set_aside(self, _: int, token: int, size: int) -> int:
        return self._run(lambda: self.store.set_aside(text_at(token, size)))

    def read_book(self, _: int, found: Any, context: int) -> int:
        def work() -> None:
            book = self.store.read_book()
            if book is not None:
                _give(found, context, b"", book)
        return self._run(work)

    def write_book(self, _: int, data: int, size: int) -> int:
        return self._run(lambda: self.store.write_book(bytes(bytes_at(data, size))))


# The methods of an adapter that librl calls, with their types.
_FUNCTIONS = {"put": "put", "claim": "claim", "recover": "recover", "acknowledge": "token",
              "set_aside": "token", "read_book": "read_book", "write_book": "write_book",
              "describe": "describe"}


def _give(found: Any, context: int, token: bytes, data: bytes) -> None:
    """Hands a group or a book to librl, which copies it."""
    name = ctypes.create_string_buffer(token, len(token) + 1)
    held = ctypes.create_string_buffer(bytes(data), len(data) + 1)
    code = found(context, ctypes.addressof(name), len(token), ctypes.addressof(held), len(data))
    if code != 0:
        raise OSError(code, "librl did not take what the store has")


def table_of(store: Store) -> Any:
    """An rl_store with the methods of a store."""
    table = _raw.rl_store()
    _Adapter(store).fill(table)
    return table
