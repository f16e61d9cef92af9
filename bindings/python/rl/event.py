"""Events of pipelines and trainers."""
from __future__ import annotations

import ctypes
from functools import cached_property
from typing import TYPE_CHECKING, Dict, List, Optional

from . import _raw
from ._arrays import Array
from ._handle import Handle, Token, ask, call, filled, get, result, waiting
from ._record import text_at
from .constants import Code, EventKind
from .errors import Error, outcome
from .records import EventView
from .sample import SampleView

if TYPE_CHECKING:
    from .pipeline import Pipeline


class EventQueue(Handle):
    """A queue of events, for select, poll and event loops: fileno is readable when next would not
    wait. Never read or close that descriptor. A pipeline has one (Pipeline.queue), and set_queue of
    engines, buffers and trainers puts their events into one: that of a pipeline, or one made
    here."""

    _kind = "rl_event_queue"

    def __init__(self) -> None:
        """A queue for engines, buffers and trainers."""
        self._create("rl_event_queue_create")

    def next(self, timeout: float | None = None) -> Event:
        """The next event. Timeout is raised when none came in `timeout` seconds, Interrupted by
        interrupt, Done when the pipeline of the queue has ended and every event was taken."""
        out = ctypes.c_void_p()
        code = waiting(
            lambda slice_ns: result("rl_event_queue_next", self, slice_ns, ctypes.byref(out)),
            timeout)
        if code != Code.OK:
            raise outcome(code)
        return Event._adopt(Token("rl_event", out.value))

    def interrupt(self) -> None:
        """Makes one next, the running or the next one, raise Interrupted."""
        call("rl_event_queue_interrupt", self)

    def fileno(self) -> int:
        """The descriptor."""
        return int(ask("rl_event_queue_fd", self))

    def __len__(self) -> int:
        return int(ask("rl_event_queue_size", self))


class Event(Handle):
    """A report of a pipeline, a trainer, an engine or a buffer. The kind says which of the fields
    are used: see RL_EVENT_* in rl.h. Fields stay readable after the event is closed."""

    _kind = "rl_event"
    _pipeline: Optional[Pipeline] = None

    @cached_property
    def view(self) -> EventView:
        """All fields of the event."""
        token = self._live()  # keeps the text until it is copied
        view = EventView.of(filled(_raw.rl_event_view(), "rl_event_get_view", self))
        del token
        return view

    @property
    def kind(self) -> EventKind:
        """What the event reports."""
        return self.view.kind

    @property
    def step(self) -> int:
        """Training steps done."""
        return self.view.step

    @property
    def text(self) -> str:
        """A checkpoint's path, why a group was dropped, or what the model generated in a turn."""
        return self.view.text

    @cached_property
    def sample(self) -> SampleView:
        """The sample of an EventKind.SCORE or an EventKind.TURN, and the first one of an
        EventKind.GROUP."""
        return self._sample(0)

    @cached_property
    def samples(self) -> List[SampleView]:
        """The samples of such an event, by slot."""
        count = self.view.count if self.kind == EventKind.GROUP else 1
        return [self._sample(index) for index in range(count)]

    def _sample(self, index: int) -> SampleView:
        return SampleView._make(self, "rl_event_sample", "rl_event_tensor", index)

    @cached_property
    def metrics(self) -> Dict[str, float]:
        """The metrics by name, as docs/metrics.md lists them."""
        token, found = self._live(), {}
        name, value = ctypes.c_void_p(), ctypes.c_double()
        for index in range(self.view.num_metrics):
            call("rl_event_metric", self, index, ctypes.byref(name), ctypes.byref(value))
            found[text_at(name.value)] = value.value
        del token
        return found

    def metric(self, name: str) -> float:
        """One metric; without the others it is the faster way."""
        return float(get("rl_event_metric_named", self, name, kind=ctypes.c_double))

    # ---- answers to an EventKind.SCORE or an EventKind.TURN ----

    def score(self, reward: float, parts: Array | None = None,
              token_rewards: Array | None = None) -> None:
        """Gives the sample its reward, and reward parts or token rewards in addition."""
        self._answerable().score(self.sample.sample_id, reward, parts, token_rewards)

    def reply(self, text: str | None = None, *, ids: Array | None = None) -> None:
        """Answers the turn with a text or with token ids, after which the model goes on."""
        self._answerable().reply(self.sample.sample_id, text, ids=ids, turn=self.view.count)

    def finish(self) -> None:
        """Answers that the sample has no further turn: it waits for its reward from now on."""
        self._answerable().reply(self.sample.sample_id, finish=True, turn=self.view.count)

    def fail(self, reason: str) -> None:
        """Says that the sample will get no reward or reply: its group is dropped."""
        self._answerable().fail(self.sample.sample_id, reason)

    def _answerable(self) -> Pipeline:
        if self._pipeline is None:
            raise Error(Code.FAILED_PRECONDITION, "only an event of a pipeline is answered")
        return self._pipeline
