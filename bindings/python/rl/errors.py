"""What calls of librl raise: an Error when they fail, an Outcome when they end without the result
that was asked for."""
from __future__ import annotations

import ctypes
from typing import Any, Callable

from . import _raw
from ._library import lib
from ._record import text_at
from .constants import RESULTS, Code, ErrorField
from .records import Knob


class _Portable(Exception):
    """Exceptions that go to other processes by pickle, with all but their causes."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[_Portable], args: tuple[Any, ...], fields: dict[str, Any]) -> _Portable:
    made = kind.__new__(kind, *args)  # __init__ takes other arguments
    made.__dict__.update(fields)
    return made


class Error(_Portable):
    """A failure of librl. str() is all that librl says of it, for a log; what caused it is
    __cause__."""

    def __init__(self, code: Code, message: str, *, key: str = "", expected: str = "",
                 location: str = "", other_key: str = "", summary: str = "",
                 nearest: tuple[str, ...] = (), system_code: int = 0,
                 parts: tuple[Error, ...] = (), knobs: tuple[Knob, ...] = ()) -> None:
        super().__init__(summary or f"RL_{code.name}: {message}")
        self.code = code
        self.message = message  # one sentence: what failed, the limit and the value seen
        self.key = key  # the option key, parameter or tensor concerned
        self.expected = expected  # the valid type, range or choices
        self.location = location  # file and byte offset, line and column, or JSON pointer
        self.other_key = other_key  # the second option of a conflict
        self.nearest = nearest  # valid names similar to an unknown one, nearest first
        self.system_code = system_code  # errno or the code of a backend; 0 if neither is involved
        self.parts = parts  # of an error that reports several failures at once
        self.knobs = knobs  # if memory is short: what makes it fit, in the order to turn them


class ClosedError(Error, ValueError):
    """An object was used after it was closed."""

    def __init__(self, what: str) -> None:
        super().__init__(Code.STALE_HANDLE, f"the {what} is closed")


class CallbackError(Error):
    """A function of the host that librl called has raised; its exception is __cause__."""


class Outcome(_Portable):
    """A call ended without a failure and without what was asked for."""

    code: Code

    def __init__(self, code: Code) -> None:
        super().__init__(f"RL_{code.name}")
        self.code = code


class Timeout(Outcome, TimeoutError):
    """Nothing came within the timeout."""


class Done(Outcome):
    """Nothing more will come."""


class Interrupted(Outcome):
    """Pipeline.interrupt ended the call."""


class WouldBlock(Outcome):
    """There is nothing yet; a later call may have it."""


class Idle(Outcome):
    """There is nothing to do until new work is given."""


class Paused(Outcome):
    """The engine is paused."""


_OUTCOMES = {Code.TIMEOUT: Timeout, Code.DONE: Done, Code.INTERRUPTED: Interrupted,
             Code.WOULD_BLOCK: WouldBlock, Code.IDLE: Idle, Code.PAUSED: Paused}


def outcome(code: Code) -> Outcome:
    """The exception of a result that the caller did not expect."""
    return _OUTCOMES.get(code, Outcome)(code)


def _text(record: int, field: ErrorField) -> str:
    size = ctypes.c_size_t()
    address = lib.rl_error_text(record, field, ctypes.byref(size))
    return text_at(address, size.value)


def _nearest(record: int) -> tuple[str, ...]:
    names: list[str] = []
    while address := lib.rl_error_nearest(record, len(names)):
        names.append(text_at(address))
    return tuple(names)


def _parts(record: int) -> tuple[Error, ...]:
    parts: list[Error] = []
    while part := lib.rl_error_part(record, len(parts)):
        parts.append(take(part))
    return tuple(parts)


def _knobs(record: int) -> tuple[Knob, ...]:
    knobs: list[Knob] = []
    for index in range(lib.rl_error_knob_count(record)):
        view = _raw.rl_knob()
        lib.rl_error_knob_at(record, index, view, None)
        knobs.append(Knob.of(view))
    return tuple(knobs)


def take(record: int) -> Error:
    """Copies a record of librl with its parts and causes, and releases it."""
    try:
        error = Error(
            Code(lib.rl_error_code(record)), _text(record, ErrorField.MESSAGE),
            key=_text(record, ErrorField.KEY), expected=_text(record, ErrorField.EXPECTED),
            location=_text(record, ErrorField.LOCATION),
            other_key=_text(record, ErrorField.OTHER_KEY),
            summary=_text(record, ErrorField.SUMMARY), nearest=_nearest(record),
            system_code=lib.rl_error_system_code(record), parts=_parts(record),
            knobs=_knobs(record))
        if cause := lib.rl_error_cause(record):
            error.__cause__ = take(cause)
    finally:
        lib.rl_error_release(record)
    return error


def failure(status: int, record: int | None) -> Error | None:
    """The error of a call; None if it did not fail."""
    code = Code(status)
    if code in RESULTS:
        return None
    if record:
        return take(record)
    return Error(code, text_at(lib.rl_status_name(status)))
