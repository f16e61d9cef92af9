"""Engines, which generate samples, and conversations, whose tokens come alternately from the model
and from an environment."""
from __future__ import annotations

import ctypes
from typing import Any, Iterator, Union

from . import _raw
from ._arrays import Array, pinned
from ._handle import Handle, call, filled, get, in_background, make, maybe, result, waiting
from .batch import Batch
from .constants import AbortFlags, Code, Period
from .errors import Error, outcome
from .event import EventQueue
from .model import Model
from .options import Options
from .records import ConversationInfo, EngineStats
from .sample import Sample, SampleView

Resumable = Union[Sample, SampleView]


class Engine(Handle):
    """Generates samples by continuous batching on the caller's thread: submit requests, run, take
    what has finished."""

    _kind = "rl_engine"
    _ends_under_calls = True

    def __init__(self, model: Model, options: Options | None = None) -> None:
        """Reserves the KV pool and the workspace. Without options those of the model hold."""
        self._create("rl_engine_create", model, options)

    def submit(self, prompt: Array | None = None, num_samples: int = 1, *,
               sampling: Options | None = None, priority: int = 0,
               resume: Resumable | None = None, tag: str = "", ordinal: int | None = None,
               sample_id: int = 0, slot: int = 0) -> int:
        """Queues a request and returns the sample_id of its first sample; each further one has one
        more. It has a prompt of token ids, or a sample to go on from. `sampling` has options
        sampling.* for this request. The library chooses ordinal and sample_id if they are not
        given; `slot` is that of the first sample."""
        request = _raw.rl_request()
        request.num_samples, request.priority = num_samples, priority
        request.sample_id, request.slot = sample_id, slot
        held: list[object] = [_identify(request, tag, ordinal)]
        if prompt is not None:
            ids = pinned(prompt, ctypes.c_int32)
            request.prompt, request.num_prompt = ids.address, ids.count
            held.append(ids)
        if sampling is not None:
            held.append(sampling._live())
            request.sampling = sampling._live().value
        if resume is not None:
            view, kept = resume._view()
            request.resume = ctypes.addressof(view)
            held += [view, *kept]
        out = ctypes.c_uint64()
        call("rl_engine_submit", self, request, ctypes.byref(out))
        return out.value

    def step(self) -> bool:
        """Computes one forward; False when there is nothing to do. A pause raises Paused."""
        code = result("rl_engine_step", self)
        if code not in (Code.OK, Code.IDLE):
            raise outcome(code)
        return code == Code.OK

    def run(self) -> None:
        """Steps until nothing is left to do, or with engine.thread waits until its thread has.
        Ctrl-C ends it between two forwards, and a pause raises Paused; requests stay queued
        then."""
        try:
            while self.step():
                pass
        except Error as error:
            if error.key != "engine.thread":
                raise
            code = in_background(lambda: result("rl_engine_run", self))
            if code != Code.OK:
                raise outcome(code) from None

    def set_queue(self, queue: EventQueue | None, source: int = 0) -> None:
        """Sends the engine's events to a queue from now on, with the number `source`; None:
        nowhere."""
        call("rl_engine_set_queue", self, queue, source)

    def options(self) -> Options:
        """A copy of the options that the engine was created with."""
        return make(Options, "rl_engine_options", self)

    def batches(self) -> Iterator[Batch]:
        """Steps until nothing is left to do, and yields samples as they finish."""
        busy = True
        while busy:
            busy = self.step()
            if (batch := self.take()) is not None:
                yield batch

    def take(self) -> Batch | None:
        """The samples that finished since the last call; None when none has."""
        return maybe(Batch, "rl_engine_take", self)

    def pause(self) -> None:
        """Once a forward in progress has ended nothing is computed until unpause."""
        call("rl_engine_pause", self)

    def unpause(self) -> None:
        """Ends a pause and a drain."""
        call("rl_engine_unpause", self)

    def drain(self, timeout: float | None = None) -> None:
        """Lets no sample start, and steps until those that have started are finished. Timeout is
        raised when they are not in `timeout` seconds; the drain stays in force until unpause."""
        code = waiting(lambda slice_ns: result("rl_engine_drain", self, slice_ns), timeout)
        if code != Code.OK:
            raise outcome(code)

    def abort(self, sample_id: int | None = None) -> None:
        """Aborts all requests, or the one that a sample belongs to; take returns their samples."""
        if sample_id is None:
            call("rl_engine_abort", self, 0, None)
        else:
            call("rl_engine_abort_request", self, sample_id)

    def abort_sparing(self) -> int:
        """Aborts all requests but those aborted pipeline.partial_rollout_max_aborts times; returns
        how many samples continue."""
        return int(get("rl_engine_abort", self, AbortFlags.SPARE))

    def sleep(self, level: int = 1) -> None:
        """Releases memory to the system until wake: level 1 the engine's, level 2 also the packed
        weights of the model."""
        call("rl_engine_sleep", self, level)

    def wake(self) -> None:
        """Reserves the memory again."""
        call("rl_engine_wake", self)

    def stats(self, replica: int | None = None) -> EngineStats:
        """State and counts since the engine was created: of all replicas, or of one."""
        return self._stats(-1 if replica is None else replica, Period.TOTAL)

    def interval(self, replica: int = 0) -> EngineStats:
        """State and counts of a replica over its last interval of engine.stats_interval_ns;
        WouldBlock is raised before the first one has ended."""
        return self._stats(replica, Period.INTERVAL)

    def _stats(self, replica: int, period: Period) -> EngineStats:
        return EngineStats.of(filled(_raw.rl_engine_stats(), "rl_engine_get_stats", self, replica,
                                     period))


_NEXT = (1 << 64) - 1  # an ordinal that the library chooses


def _identify(raw: Any, tag: str, ordinal: int | None) -> object:
    """Sets tag and ordinal of a struct; returns what holds the tag in place."""
    raw.ordinal = _NEXT if ordinal is None else ordinal
    if not tag:
        return None
    text = ctypes.create_string_buffer(tag.encode("utf-8", "surrogateescape"))
    raw.tag, raw.tag_len = ctypes.addressof(text), len(text) - 1
    return text


def _content(ids: Array, tag: str = "", ordinal: int | None = None,
             sample_id: int = 0) -> tuple[Any, object]:
    """What a conversation takes, and what holds its memory in place."""
    given, content = pinned(ids, ctypes.c_int32), _raw.rl_content()
    content.ids, content.num_ids = given.address, given.count
    content.sample_id = sample_id
    return content, (given, _identify(content, tag, ordinal))


class Conversation(Handle):
    """A sample with turns of the model and of an environment: generate, run the engine, look at the
    sample, append."""

    _kind = "rl_conversation"
    _ends_under_calls = True

    def __init__(self, engine: Engine, ids: Array, *, tag: str = "", ordinal: int | None = None,
                 sample_id: int = 0) -> None:
        """Starts with a prompt of token ids. The library chooses ordinal and sample_id if they are
        not given."""
        content, held = _content(ids, tag, ordinal, sample_id)
        self._create("rl_conversation_create", engine, content)
        del held

    def fork(self) -> Conversation:
        """Another conversation with the tokens so far, in the next slot of the group."""
        return make(Conversation, "rl_conversation_fork", self)

    def append(self, ids: Array) -> None:
        """Appends tokens of the environment."""
        content, held = _content(ids)
        call("rl_conversation_append", self, content)
        del held

    def generate(self, sampling: Options | None = None, priority: int = 0) -> None:
        """Queues a turn of the model; Engine.run generates it."""
        turn = _raw.rl_turn()
        turn.priority = priority
        held = None
        if sampling is not None:
            held = sampling._live()
            turn.sampling = held.value
        call("rl_conversation_generate", self, turn)
        del held

    @property
    def info(self) -> ConversationInfo:
        """The present state."""
        return ConversationInfo.of(filled(_raw.rl_conversation_info(),
                                          "rl_conversation_get_info", self))

    def sample(self) -> Batch:
        """A copy of the sample so far, as a batch of one."""
        return make(Batch, "rl_conversation_sample", self)
