"""What every object has: a handle of librl that ends exactly once, and calls with it.

An object ends with close(), at the end of a `with` block, or when nothing refers to it any more. A
closed object raises ClosedError. Calls of other threads and views of an object's memory keep the
handle itself alive until they end, except where rl.h lets the object end under a call that waits
(pipelines, engines, trainers, buffers, conversations, profilers): there close() takes effect at
once."""
from __future__ import annotations

import atexit
import collections
import ctypes
import os
import threading
import time
import weakref
from types import TracebackType
from typing import Any, Callable, ClassVar, TypeVar

from . import _raw
from ._arrays import Pinned, shown
from ._library import lib
from ._record import text_at
from .constants import Code
from .errors import ClosedError, failure, outcome

T = TypeVar("T", bound="Handle")
H = TypeVar("H", bound="Handle")
SLICE_S = 0.1  # how long a wait keeps Python from running signal handlers

_inside = threading.local()  # .callback: this thread runs a function that librl has called
_postponed: collections.deque[Token] = collections.deque()
# What ends the wait or the run of a user, raised where librl had called: for the next call outside.
_interrupts: collections.deque[BaseException] = collections.deque()
_busy: weakref.WeakSet[Handle] = weakref.WeakSet()  # objects that may call functions of the host


class callback:  # noqa: N801  (a context manager)
    """While a function of the host runs that librl has called: ending a handle has no effect there,
    so it is postponed to the next call outside."""

    def __enter__(self) -> None:
        self._before = getattr(_inside, "callback", False)
        _inside.callback = True

    def __exit__(self, *raised: object) -> None:
        _inside.callback = self._before


class Token:
    """A handle of librl, which ends with the last reference to this."""

    __slots__ = ("value", "_end")

    def __init__(self, kind: str, value: int) -> None:
        self.value = value
        self._end = getattr(lib, _raw.ENDS[kind])

    def end(self) -> None:
        """Ends the handle, once."""
        if self.value and getattr(_inside, "callback", False):
            _postponed.append(Token._moved(self))
        elif self.value:
            value, self.value = self.value, 0
            self._end(value)

    def _moved(self) -> Token:
        other = Token.__new__(Token)
        other._end, other.value, self.value = self._end, self.value, 0
        return other

    def __del__(self) -> None:
        try:
            self.end()
        except KeyboardInterrupt as raised:  # Python ignores what leaves a __del__
            _interrupts.append(raised)
            self.end()


def _end_postponed() -> None:
    while _postponed:
        try:
            _postponed.popleft().end()
        except IndexError:  # another thread took the last one
            return


def watch(thing: Handle) -> None:
    """Has an object end before the interpreter does, since it may call functions of the host."""
    _busy.add(thing)


class Handle:
    """An object of librl."""

    _kind: ClassVar[str]  # the handle's type in rl.h
    _ends_under_calls: ClassVar[bool] = False
    _token: Token | None = None

    @classmethod
    def _adopt(cls: type[T], token: Token) -> T:
        """The object of a handle that librl has returned."""
        made = cls.__new__(cls)
        made._own(token)
        return made

    def _own(self, token: Token) -> None:
        self._token = token
        if self._ends_under_calls:
            watch(self)

    def _create(self, name: str, *arguments: Any) -> None:
        """Makes the object, by a function whose result is a handle."""
        self._own(_returned(self._kind, call, name, *arguments))

    def _live(self) -> Token:
        token = self._token
        if token is None:
            raise ClosedError(type(self).__name__)
        return token

    @property
    def closed(self) -> bool:
        """Whether the object was closed."""
        return self._token is None

    def close(self) -> None:
        """Ends the object. A second call has no effect."""
        token, self._token = self._token, None
        if token is not None and self._ends_under_calls:
            token.end()

    def _at_exit(self) -> None:
        self.close()

    def __enter__(self: T) -> T:
        self._live()
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rl.{type(self).__name__}{' (closed)' if self.closed else ''}>"


def interrupt_later(raised: BaseException) -> None:
    """Keeps a KeyboardInterrupt or the like, which must not leave a function that librl has called,
    until that call of librl ends."""
    _interrupts.append(raised)


def _raise_interrupt() -> None:
    if threading.current_thread() is threading.main_thread():
        try:
            raised = _interrupts.popleft()
        except IndexError:
            return
        raise raised


@atexit.register
def _end_all() -> None:
    """Before the interpreter ends, while functions of the host can still be called."""
    for thing in list(_busy):
        thing._at_exit()


def _words(argument: Any, held: list[object]) -> tuple[Any, ...]:
    """An argument as C has it: a text and an array are an address and a length each."""
    if isinstance(argument, Handle):
        token = argument._live()
        held.append(token)
        return (token.value,)
    if isinstance(argument, os.PathLike):
        argument = os.fspath(argument)
    if isinstance(argument, str):
        argument = argument.encode("utf-8", "surrogateescape")
    if isinstance(argument, bytes):
        return argument, len(argument)
    if isinstance(argument, Pinned):
        return argument.address, argument.count
    if isinstance(argument, _raw.Struct):
        return (ctypes.byref(argument),)
    return (argument,)


def result(name: str, *arguments: Any) -> Code:
    """Calls a function whose last parameter is rl_error**. A failure is raised; the code of a
    result, such as Code.TIMEOUT, is returned."""
    if _postponed and not getattr(_inside, "callback", False):
        _end_postponed()
    function = getattr(lib, name)
    held: list[object] = []
    words = [word for argument in arguments for word in _words(argument, held)]
    record = ctypes.c_void_p()
    if len(words) + 1 != len(function.argtypes):
        raise TypeError(f"{name} takes {len(function.argtypes)} arguments: "
                        f"{', '.join(_raw.FUNCTIONS[name][1])}")
    status = function(*words, ctypes.byref(record))
    if _interrupts and not getattr(_inside, "callback", False):
        _raise_interrupt()
    if error := failure(status, record.value):
        raise error
    return Code(status)


def call(name: str, *arguments: Any) -> None:
    """Calls such a function; whatever is not RL_OK is raised."""
    code = result(name, *arguments)
    if code != Code.OK:
        raise outcome(code)


def get(name: str, *arguments: Any, kind: Any = ctypes.c_uint64) -> Any:
    """Calls a function with one result parameter of this ctypes type."""
    out = kind()
    call(name, *arguments, ctypes.byref(out))
    return out.value


def _returned(kind: str, how: Callable[..., Any], name: str, *arguments: Any) -> Token:
    """Calls a function whose result is a handle. No handle is lost if the call is interrupted."""
    out = ctypes.c_void_p()
    try:
        how(name, *arguments, ctypes.byref(out))
    except BaseException:
        Token(kind, out.value or 0).end()
        raise
    return Token(kind, out.value or 0)


def make(cls: type[H], name: str, *arguments: Any) -> H:
    """Calls a function whose result is a handle."""
    return cls._adopt(_returned(cls._kind, call, name, *arguments))


def maybe(cls: type[H], name: str, *arguments: Any) -> H | None:
    """Calls a function whose result is a handle; None when there is nothing to return now."""
    token = _returned(cls._kind, result, name, *arguments)
    return cls._adopt(token) if token.value else None


def ask(name: str, thing: Handle) -> Any:
    """Calls a function without a status, such as one that counts; the handle lives until it
    returns."""
    token = thing._live()
    answer = getattr(lib, name)(token.value)
    del token
    return answer


def filled(view: Any, name: str, *arguments: Any) -> Any:
    """Calls a function that fills in a struct, and returns the struct."""
    call(name, *arguments, view)
    return view


# ---- bytes made by librl ----


def taken_array(name: str, *arguments: Any, kind: Any = ctypes.c_int32) -> Any:
    """Calls a function whose result is rl_bytes; its elements, where they are."""
    token = _returned("rl_bytes", call, name, *arguments)
    count = lib.rl_bytes_size(token.value) // ctypes.sizeof(kind)
    return shown(lib.rl_bytes_data(token.value), kind, [count], token)


def taken_bytes(name: str, *arguments: Any) -> bytes:
    """Calls a function whose result is rl_bytes; a copy."""
    return bytes(taken_array(name, *arguments, kind=ctypes.c_uint8))


def taken_text(name: str, *arguments: Any) -> str:
    """Calls a function whose result is rl_bytes with a text."""
    return taken_bytes(name, *arguments).decode("utf-8", "surrogateescape")


def texts_of(name: str, *arguments: Any, count: int = 1) -> list[str]:
    """Calls a function whose results are texts of an owner; copies of them."""
    outs = [ctypes.c_void_p() for _ in range(count)]
    call(name, *arguments, *(ctypes.byref(out) for out in outs))
    return [text_at(out.value) for out in outs]


# ---- waiting ----


def waiting(call_once: Callable[[int], Code], timeout: float | None) -> Code:
    """Repeats a call that takes a timeout in nanoseconds until it ends with something else than
    RL_TIMEOUT. It waits in slices, between which Python runs signal handlers, so that Ctrl-C ends
    it."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = SLICE_S if end is None else min(SLICE_S, max(0.0, end - time.monotonic()))
        code = call_once(int(left * 1e9))
        if code != Code.TIMEOUT or (end is not None and time.monotonic() >= end):
            return code


def in_background(call_once: Callable[[], Any]) -> Any:
    """Makes a call that cannot be repeated on a thread of its own and waits for it. Ctrl-C ends the
    wait, not the call."""
    results: list[Any] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call_once())
        except BaseException as raised:  # noqa: B902  (it is raised below)
            failures.append(raised)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(SLICE_S)
    if failures:
        raise failures[0]
    return results[0]
