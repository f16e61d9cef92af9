"""The runtime, which owns compute threads, memory budget and log; the plan of memory; the
profiler."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import logging
import time
from typing import Any, Iterator, NamedTuple

from . import _raw
from ._handle import Handle, ask, watch, call, filled, get, make, taken_text
from ._hooks import LogFunction, LogLine, log_hook
from .constants import KnobEffect, LogLevel, Use
from .files import FileSystem, files_table
from .options import Options
from .records import Clock, Knob, Machine, PlanInfo, PlanItem, RuntimeInfo, StepTime
from .transport import Transport, transport_table

_LEVELS = {LogLevel.ERROR: logging.ERROR, LogLevel.WARN: logging.WARNING,
           LogLevel.INFO: logging.INFO, LogLevel.DEBUG: logging.DEBUG}


class Runtime(Handle):
    """Compute threads, memory budget and log of all objects made from it. The runtime itself lives
    until the last of these ends."""

    _kind = "rl_runtime"

    def __init__(self, options: Options | None = None, files: FileSystem | None = None,
                 transport: Transport | None = None) -> None:
        """With files of the host, all objects made from it read and write theirs through them. With
        a transport it is one of the ranks of a run with comm.backend = host."""
        if files is None and transport is None:
            self._create("rl_runtime_create", _raw.ABI_VERSION, options)
            return
        host, tables = _raw.rl_host(), []
        if files is not None:
            tables.append(files_table(host, files))
        if transport is not None:
            tables.append(transport_table(host, transport))
        for service, table, *_ in tables:  # librl ends what it is given, whatever happens
            service.fill(table)
        self._create("rl_runtime_create_hosted", _raw.ABI_VERSION, options, host)

    def options(self) -> Options:
        """A copy of the options that the runtime was created with."""
        return make(Options, "rl_runtime_options", self)

    def set_log(self, sink: LogFunction | logging.Logger | None) -> None:
        """Sets the one sink of the log: a function of a LogLine, or a logger of Python's, whose
        children the components are, with the fields as attribute `fields` of its records; None
        silences it. The option runtime.log_level says how much comes. It is called on any thread,
        never on two at once, and may call nothing of librl."""
        if sink is not None:
            watch(self)
        if isinstance(sink, logging.Logger):
            call("rl_runtime_set_log", self, *log_hook(_to_logger(sink)))
        else:
            call("rl_runtime_set_log", self, *log_hook(sink))

    def _at_exit(self) -> None:
        if not self.closed:
            self.set_log(None)

    def create_rank(self, rank: int) -> Runtime:
        """Another rank of this runtime's run, which has the option parallel.data of them. Each rank
        works on a thread of its own."""
        return make(Runtime, "rl_runtime_create_rank", self, rank)

    def clock(self) -> Clock:
        """Both clocks at one moment: all times of librl are nanoseconds of steady_ns."""
        return Clock.of(filled(_raw.rl_clock(), "rl_runtime_get_clock", self))

    def probe(self) -> Machine:
        """Measures the machine with the runtime's threads, in a fraction of a second."""
        return Machine.of(filled(_raw.rl_machine(), "rl_runtime_probe", self))

    def trace_span(self, lane: str, name: str, start_ns: int, end_ns: int, arg_name: str = "",
                   arg_value: int = 0) -> None:
        """Adds work of the host to what is recorded now, by Clock.steady_ns."""
        texts = [text.encode("utf-8") for text in (lane, name, arg_name)]
        held = [ctypes.create_string_buffer(text, len(text) + 1) for text in texts]
        span = _raw.rl_span()
        span.lane, span.name, span.arg_name = (ctypes.addressof(text) for text in held)
        span.lane_len, span.name_len, span.arg_name_len = (len(text) for text in texts)
        span.start_ns, span.end_ns, span.arg_value = start_ns, end_ns, arg_value
        call("rl_runtime_trace_span", self, span)

    @contextlib.contextmanager
    def span(self, name: str, lane: str = "host") -> Iterator[None]:
        """Adds the work of a `with` block to what is recorded when it ends."""
        start_ns = time.monotonic_ns()  # the clock of librl
        try:
            yield
        finally:
            self.trace_span(lane, name, start_ns, time.monotonic_ns())

    @property
    def threads(self) -> int:
        """Number of compute threads, the calling thread included."""
        return self._info().threads

    @property
    def reserved_bytes(self) -> int:
        """Bytes that the arenas of all objects made from the runtime hold now."""
        return self._info().reserved_bytes

    def _info(self) -> RuntimeInfo:
        return RuntimeInfo.of(filled(_raw.rl_runtime_info(), "rl_runtime_get_info", self))


def _to_logger(logger: logging.Logger) -> LogFunction:
    def log(line: LogLine) -> None:
        child, level = logger.getChild(line.component), _LEVELS.get(line.level, logging.INFO)
        child.log(level, "%s", line.message, extra={"fields": line.fields})
    return log


class Plan(Handle):
    """How much memory a use of model.path takes, before any of it is allocated. Iteration is over
    its items."""

    _kind = "rl_plan"

    def __init__(self, options: Options | None, use: Use, runtime: Runtime | None = None) -> None:
        """With a runtime the model is read through its files, and options may be None."""
        if runtime is None:
            self._create("rl_plan_create", options, use)
        else:
            self._create("rl_plan_create_hosted", runtime, options, use)

    @classmethod
    def fit(cls, runtime: Runtime, options: Options | None, use: Use,
            machine: Machine | None = None,
            most: KnobEffect = KnobEffect.ROUNDING) -> tuple[Plan, StepTime]:
        """A plan with the fastest setting that fits the budget, and the estimated time of a step.
        Without options those of the runtime hold; without rates the machine is probed. Knobs that
        change more than `most` are not turned."""
        rates = None
        if machine is not None:
            rates = _raw.rl_machine()
            for field in dataclasses.fields(machine):
                setattr(rates, field.name, getattr(machine, field.name))
        time_ = _raw.rl_step_time()
        plan = make(cls, "rl_plan_fit", runtime, options, use, rates, most, time_)
        return plan, StepTime.of(time_)

    def options(self) -> Options:
        """A copy of the options that the plan was made for."""
        return make(Options, "rl_plan_options", self)

    @property
    def info(self) -> PlanInfo:
        """The totals of the plan and the sizes that it chose."""
        return PlanInfo.of(filled(_raw.rl_plan_info(), "rl_plan_get_info", self))

    def __len__(self) -> int:
        return int(ask("rl_plan_count", self))

    def __getitem__(self, index: int) -> PlanItem:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        token = self._live()  # keeps the texts until they are copied
        view = filled(_raw.rl_plan_item(), "rl_plan_at", self, index % len(self))
        item = PlanItem.of(view)
        del token
        return item

    def __iter__(self) -> Iterator[PlanItem]:
        return (self[index] for index in range(len(self)))

    def knobs(self) -> tuple[Knob, ...]:
        """What saves memory, in the order to turn them."""
        token = self._live()  # keeps the texts until they are copied
        knobs = tuple(Knob.of(filled(_raw.rl_knob(), "rl_plan_knob_at", self, index))
                      for index in range(int(ask("rl_plan_knob_count", self))))
        del token
        return knobs

    def __str__(self) -> str:
        return taken_text("rl_plan_text", self)


class ProfilerCount(NamedTuple):
    """Spans and counters recorded so far, and those dropped because the record was full."""

    records: int
    dropped: int


class Profiler(Handle):
    """Records what the objects of a runtime do, from its creation to its end."""

    _kind = "rl_profiler"
    _ends_under_calls = True

    def __init__(self, runtime: Runtime) -> None:
        self._create("rl_profiler_create", runtime)

    def write_trace(self, path: Any) -> None:
        """Writes the record so far as a Chrome trace."""
        call("rl_profiler_write_trace", self, path)

    def count(self) -> ProfilerCount:
        """The size of the record."""
        records, dropped = ctypes.c_uint64(), ctypes.c_uint64()
        call("rl_profiler_count", self, ctypes.byref(records), ctypes.byref(dropped))
        return ProfilerCount(records.value, dropped.value)

    def summary(self) -> str:
        """Time by span name, as lines "name count total_ns longest_ns"."""
        return taken_text("rl_profiler_summary", self)
