"""Functions of the host that librl calls. An exception never reaches librl: it is kept, and raised
by the call of the host that its failure belongs to."""
from __future__ import annotations

import ctypes
import itertools
import logging
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from . import _raw
from ._arrays import Floats, copied, zeros
from ._handle import callback, interrupt_later
from ._record import text_at
from .algo import Tokens
from .constants import Code, FieldKind, LogLevel
from .errors import CallbackError, Error

LogFunction = Callable[["LogLine"], None]
AdvantageFunction = Callable[[Tokens, Floats], None]
LossFunction = Callable[[Tokens, Floats, Floats], float]


class LogLine(NamedTuple):
    """A line of the log: a message for people, and its facts as fields for programs."""

    level: LogLevel
    component: str  # the part of librl that logs, such as "engine"
    message: str
    time: float  # seconds since 1970
    steady_ns: int  # the same moment by Clock.steady_ns
    fields: Dict[str, Union[str, int]]


# By the number that librl hands back as user_data: what it calls, until it says that it is done.
_held: dict[int, object] = {}
_numbers = itertools.count(1)


def _forget(number: int) -> None:
    _held.pop(number, None)


_drop = _raw.rl_destroy_fn(_forget)


def hook(kind: Any, function: Optional[Callable[..., Any]]) -> tuple[Any, Any, Any]:
    """The arguments fn, user_data and destroy of a setter, with this as the function that librl
    calls; None removes the present one."""
    if function is None:
        return kind(), None, _raw.rl_destroy_fn()
    called = kind(function)
    return (called, *hold(called))


def hold(thing: object) -> tuple[int, Any]:
    """A number to pass as user_data, which keeps a thing alive until librl calls the function
    beside it."""
    number = next(_numbers)
    _held[number] = thing
    return number, _drop


class Failures:
    """Exceptions of the host's functions of one object, until the host is told."""

    def __init__(self) -> None:
        self.advantage: BaseException | None = None
        self.loss: BaseException | None = None

    def explained(self, error: Error) -> BaseException:
        """A step's failure, with the exception of an advantage function that was its cause. A
        KeyboardInterrupt or the like takes its place."""
        raised, self.advantage = self.advantage, None
        if raised is None or error.code != Code.CANCELLED:
            return error
        if not isinstance(raised, Exception):
            return raised
        told = CallbackError(error.code, f"{error.message} ({raised!r})", key=error.key)
        told.__cause__ = raised
        return told

    def raise_loss(self) -> None:
        """Raises what a loss function has raised, once."""
        raised, self.loss = self.loss, None
        if raised is not None and not isinstance(raised, Exception):
            raise raised
        if raised is not None:
            raise CallbackError(
                Code.CANCELLED, "a loss function of the host has raised, and its optimizer step "
                f"was skipped ({raised!r})") from raised


def _line(record: Any) -> LogLine:
    def addresses(field: int) -> Any:
        return (ctypes.c_void_p * record.num_fields).from_address(field) if field else ()

    kinds = copied(record.field_kinds, ctypes.c_int32, record.num_fields)
    fields: Dict[str, Union[str, int]] = {}
    for name, value, kind in zip(addresses(record.field_names), addresses(record.field_values),
                                 kinds):
        text = text_at(value)
        fields[text_at(name)] = int(text) if kind == FieldKind.NUMBER else text
    return LogLine(LogLevel(record.level), text_at(record.component, record.component_len),
                   text_at(record.message, record.message_len), record.unix_ns / 1e9,
                   record.time_ns, fields)


def log_hook(function: LogFunction | None) -> tuple[Any, Any, Any]:
    """A log sink. What it raises goes to Python's logger "rl"."""
    if function is None:
        return hook(_raw.rl_log_fn, None)

    def line(_: int, record: Any) -> None:
        with callback():
            try:
                function(_line(record.contents))
            except Exception:
                logging.getLogger("rl").exception("the log function of a runtime has raised")
            except BaseException as raised:
                interrupt_later(raised)

    return hook(_raw.rl_log_fn, line)


def advantage_hook(function: AdvantageFunction | None,
                   failures: Failures) -> tuple[Any, Any, Any]:
    """A function that computes advantages; it sees copies."""
    if function is None:
        return hook(_raw.rl_advantage_fn, None)

    def advantage(_: int, tokens: Any, advantages: int) -> int:
        with callback():
            try:
                view = tokens.contents
                values = zeros(ctypes.c_double, view.num_tokens)
                advantages_view: Any = memoryview(values)
                function(Tokens._of(view), advantages_view)
                ctypes.memmove(advantages, values.tobytes(), 8 * view.num_tokens)
            except BaseException as raised:
                failures.advantage = raised
                return 1
            return 0

    return hook(_raw.rl_advantage_fn, advantage)


def loss_hook(function: LossFunction | None, failures: Failures) -> tuple[Any, Any, Any]:
    """A function that computes the policy loss; it sees copies."""
    if function is None:
        return hook(_raw.rl_loss_fn, None)

    def policy_loss(_: int, tokens: Any, weights: int, loss: int, gradient: int) -> int:
        with callback():
            try:
                view = tokens.contents
                values = zeros(ctypes.c_double, view.num_tokens)
                gradient_view: Any = memoryview(values)
                total = function(Tokens._of(view),
                                 copied(weights, ctypes.c_double, view.num_tokens), gradient_view)
                ctypes.c_double.from_address(loss).value = total
                ctypes.memmove(gradient, values.tobytes(), 8 * view.num_tokens)
            except BaseException as raised:
                failures.loss = raised
                return 1
            return 0

    return hook(_raw.rl_loss_fn, policy_loss)
