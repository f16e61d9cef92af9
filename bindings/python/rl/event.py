"""Events of pipelines and trainers."""
from __future__ import annotations

import asyncio
import collections
import ctypes
from functools import cached_property
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, Optional

from . import _raw
from ._arrays import Array
from ._handle import Handle, Token, ask, call, filled, get, result, waiting
from ._record import text_at
from .constants import Code, EventKind
from .errors import Done, Error, Timeout, outcome
from .records import EventView
from .sample import SampleView

if TYPE_CHECKING:
    from .pipeline import Pipeline


class EventSource(Handle):
    """What events are taken from: by next, by iteration, which waits for each, or by `async for`,
    which leaves the event loop of asyncio to others meanwhile. Both end with the pipeline, if there
    is one.

    Ctrl-C ends a wait. An event that was taken by then is kept for the next call, without a sign at
    the descriptor: call next before you wait for that again. Python may also raise between the
    return of next and the assignment of its result; a host that must not lose that event either
    handles SIGINT by itself."""

    def _own(self, token: Token) -> None:
        super()._own(token)
        self._kept: Deque[Event] = collections.deque()  # taken, and not returned

    def next(self, timeout: float | None = None) -> Event:
        """The next event. Timeout is raised when none came in `timeout` seconds, Interrupted by
        interrupt, Done when there will be no other one."""
        raise NotImplementedError

    def _queue(self) -> EventQueue:
        """Whose descriptor tells of events."""
        raise NotImplementedError

    def _taken(self, call_once: Callable[[int, Any], Code], timeout: float | None,
               pipeline: Pipeline | None = None) -> Event:
        """The event that a call returns, which takes a timeout and where to put the event."""
        try:
            return self._kept.popleft()
        except IndexError:
            pass
        out, token = ctypes.c_void_p(), Token("rl_event", 0)
        event = Event._adopt(token)  # made in advance: nothing is to be done once it has come
        event._pipeline = pipeline
        try:
            code = waiting(lambda slice_ns: call_once(slice_ns, ctypes.byref(out)), timeout)
            if code != Code.OK:
                raise outcome(code)
            token.value = out.value
            return event
        except BaseException:  # such as KeyboardInterrupt: the event, if there is one, is kept
            if out.value:
                token.value = out.value
                self._kept.append(event)
            raise

    def __iter__(self) -> Iterator[Event]:
        while True:
            try:
                event = self.next()
            except Done:
                return
            yield event

    def __aiter__(self) -> AsyncEvents:
        """One such iteration at a time."""
        return AsyncEvents(self, self._queue())


class AsyncEvents:
    """Iterator of `async for`. A wait that is cancelled, as by asyncio.wait_for, loses no event,
    and the iteration goes on with the next one."""

    def __init__(self, source: EventSource, queue: EventQueue) -> None:
        self._source, self._queue = source, queue

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Event:
        while True:
            try:
                return self._source.next(timeout=0)
            except Timeout:
                await self._readable()
            except Done:
                raise StopAsyncIteration from None

    async def _readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        held, descriptor = self._queue._live(), self._queue.fileno()
        loop.add_reader(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)
            del held  # a queue that is closed meanwhile keeps its descriptor until here


class EventQueue(EventSource):
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
        return self._taken(lambda slice_ns, out: result("rl_event_queue_next", self, slice_ns, out),
                           timeout)

    def _queue(self) -> EventQueue:
        return self

    def interrupt(self) -> None:
        """Makes one next, the running or the next one, raise Interrupted."""
        call("rl_event_queue_interrupt", self)

    def fileno(self) -> int:
        """The descriptor."""
        return int(ask("rl_event_queue_fd", self))

    def __len__(self) -> int:
        return int(ask("rl_event_queue_size", self)) + len(self._kept)


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
