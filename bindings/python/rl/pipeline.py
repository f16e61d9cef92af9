"""The pipeline: the training loop on a thread of librl, whose events the host takes and answers."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Iterable, Mapping

from . import _raw
from ._arrays import Array, pinned
from ._handle import call, filled, in_background, make, result, taken_text, waiting
from ._hooks import AdvantageFunction, Failures, LossFunction, advantage_hook, loss_hook
from ._scores import Reply, Score, replies_of, scores_of
from .constants import Code, DType
from .errors import Error, outcome
from .event import Event, EventQueue, EventSource
from .model import Model, save_flags
from .options import Options
from .records import PipelineStats
from .runtime import Plan, Profiler
from .store import Store, table_of


class Pipeline(EventSource):
    """The training loop. After start, iteration yields its events until the loop has ended; every
    EventKind.SCORE is to be answered, and every TURN and GROUP where options ask for them:

        pipeline.start()
        for event in pipeline:
            if event.kind == rl.EventKind.TURN:
                event.reply(result_of_tool(event.text))
            if event.kind == rl.EventKind.SCORE:
                event.score(reward_of(event.sample.text, event.sample.tag))

    `async for` does the same in an event loop of asyncio.
    Everything may be called from every thread."""

    _kind = "rl_pipeline"
    _ends_under_calls = True

    def __init__(self, model: Model, options: Options | None = None,
                 store: Store | None = None) -> None:
        """Reserves all memory, opens the data files and resumes as checkpoint.resume says. Without
        options those of the model hold. With a store of the host, in place of buffer.store_path,
        it is one half of a run (pipeline.role)."""
        if store is None:
            self._create("rl_pipeline_create", model, options)
        else:
            self._create("rl_pipeline_create_stored", model, options, table_of(store))
        self._failures = Failures()

    # ---- events ----

    def start(self) -> None:
        """Starts the loop."""
        call("rl_pipeline_start", self)

    def next(self, timeout: float | None = None) -> Event:
        """The next event. Timeout is raised when none came in `timeout` seconds, Interrupted by
        interrupt, Done when the loop has ended and every event was taken. A failure of the loop is
        raised once every event was taken, by every further call; what a loss function of the host
        raised is raised once, and the loop goes on."""
        self._failures.raise_loss()
        try:
            return self._taken(
                lambda slice_ns, out: result("rl_pipeline_next", self, slice_ns, out),
                timeout, self)
        except Error as error:
            raise self._failures.explained(error)

    def _queue(self) -> EventQueue:
        return self.queue()

    def interrupt(self) -> None:
        """Makes one next, the running or the next one, raise Interrupted."""
        call("rl_pipeline_interrupt", self)

    def queue(self) -> EventQueue:
        """The queue of the events, for its descriptor."""
        return make(EventQueue, "rl_pipeline_queue", self)

    # ---- rewards ----

    def score(self, sample_id: int, reward: float, parts: Array | None = None,
              token_rewards: Array | None = None) -> None:
        """Gives a sample its reward, and reward parts or what each token after the prompt earns in
        addition; in any order, until its deadline."""
        self._score([Score(sample_id, reward, parts, token_rewards=token_rewards)])

    def score_many(self, rewards: Mapping[int, float] | Iterable[Score]) -> None:
        """Gives many samples their rewards, by sample_id, or scores with all that belongs to them.
        All are tried; the error of several that were refused has a part for each, whose key is
        "scores[i]"."""
        if isinstance(rewards, Mapping):
            rewards = [Score(sample_id, reward) for sample_id, reward in rewards.items()]
        self._score(rewards)

    def fail(self, sample_id: int, reason: str) -> None:
        """Says that a sample will get no reward: its group is dropped."""
        self._score([Score(sample_id, failure=reason)])

    def _score(self, scores: Iterable[Score]) -> None:
        array, count, held = scores_of(scores)
        call("rl_pipeline_score", self, array, count, None)
        del held

    # ---- turns ----

    def reply(self, sample_id: int, text: str | None = None, *, ids: Array | None = None,
              finish: bool = False, turn: int = 0) -> None:
        """Answers the present turn of a sample, or turn `turn`, with a text, with token ids, or
        with finish: the sample has no further turn. In any order, until its deadline."""
        self.reply_many([Reply(sample_id, ids, text, finish, turn)])

    def reply_many(self, replies: Iterable[Reply]) -> None:
        """Answers many turns. All are tried; the error of several that were refused has a part for
        each."""
        array, count, held = replies_of(replies)
        call("rl_pipeline_reply", self, array, count, None)
        del held

    # ---- the feed ----

    def feed(self, row: Mapping[str, Any] | str, timeout: float | None = 0.0) -> bool:
        """Adds a row, written like one of the data file, as an object or as JSON text. False when
        the feed was full for `timeout` seconds; None waits for room without limit."""
        text = row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)
        line = ctypes.create_string_buffer(text.encode("utf-8", "surrogateescape"))
        entry = _raw.rl_feed_row()
        entry.json, entry.json_len = ctypes.addressof(line), len(line) - 1
        return self._feed(entry, timeout)

    def feed_ids(self, ids: Array, tag: str = "", timeout: float | None = 0.0) -> bool:
        """Adds a prompt of token ids with a tag; False when the feed was full for `timeout`
        seconds."""
        given = pinned(ids, ctypes.c_int32)
        text = ctypes.create_string_buffer(tag.encode("utf-8", "surrogateescape"))
        entry = _raw.rl_feed_row()
        entry.ids, entry.num_ids = given.address, given.count
        entry.tag, entry.tag_len = ctypes.addressof(text), len(text) - 1
        return self._feed(entry, timeout)

    def _feed(self, entry: _raw.rl_feed_row, timeout: float | None) -> bool:
        code = waiting(lambda slice_ns: result("rl_pipeline_feed", self, entry, slice_ns), timeout)
        return code == Code.OK

    @property
    def feed_capacity(self) -> int:
        """The most rows that the feed can hold."""
        return self.stats.feed_capacity

    def finish_feed(self) -> None:
        """Declares the feed complete: the loop ends after the last whole step."""
        call("rl_pipeline_finish_feed", self)

    # ---- the loop ----

    def pause(self) -> None:
        """Pauses the loop before its next forward, wait or update."""
        call("rl_pipeline_pause", self)

    def unpause(self) -> None:
        """Ends a pause."""
        call("rl_pipeline_unpause", self)

    def stop(self, timeout: float | None = None) -> None:
        """Ends the loop: a step in training is finished, one in rollout or scoring is abandoned.
        Timeout is raised when it is still ending after `timeout` seconds; events can still be
        taken. Ctrl-C ends the wait, not the request."""
        limit = -1 if timeout is None else int(timeout * 1e9)
        # One call: librl may take its timeout for a deadline of the step in training.
        code = in_background(lambda: result("rl_pipeline_stop", self, limit))
        if code != Code.OK:
            raise outcome(code)

    def checkpoint(self, timeout: float | None = None) -> str:
        """Writes a checkpoint at the next step boundary, or at once when the loop is not running,
        and returns its directory. Timeout is raised when it was not written in time; it will still
        be written."""
        limit = -1 if timeout is None else int(timeout * 1e9)
        return str(in_background(lambda: taken_text("rl_pipeline_checkpoint", self, limit)))

    def evaluate(self) -> None:
        """Requests an evaluation of eval.path at the next step boundary."""
        call("rl_pipeline_evaluate", self)

    def set_options(self, options: Options) -> None:
        """Applies option values that may change between steps, from the next step on."""
        call("rl_pipeline_set_options", self, options)

    def options(self) -> Options:
        """A copy of the options, as set_options has changed them."""
        return make(Options, "rl_pipeline_options", self)

    def set_advantage(self, function: AdvantageFunction | None) -> None:
        """Sets the function for algo.advantage = custom, before start. It gets the tokens, and
        fills in an advantage for each. It may call nothing of librl but module algo."""
        call("rl_pipeline_set_advantage", self, *advantage_hook(function, self._failures))

    def set_loss(self, function: LossFunction | None) -> None:
        """Sets the function for algo.policy_loss = custom, before start. It gets the tokens and
        their weights, fills in the gradient, and returns the loss."""
        call("rl_pipeline_set_loss", self, *loss_hook(function, self._failures))

    # ---- what it reports ----

    @property
    def stats(self) -> PipelineStats:
        """State and accounting of the run."""
        return PipelineStats.of(filled(_raw.rl_pipeline_stats(), "rl_pipeline_get_stats", self))

    def plan(self) -> Plan:
        """The memory plan."""
        return make(Plan, "rl_pipeline_plan", self)

    @property
    def resumed_from(self) -> str:
        """The checkpoint that the run was resumed from; empty for a fresh run."""
        return taken_text("rl_pipeline_resumed_from", self)

    def close_result(self) -> None:
        """Raises what kept the metrics file or the trace from being written completely; to be
        called after the last event."""
        call("rl_pipeline_close_result", self)

    def save_critic(self, path: str | os.PathLike[str], dtype: DType = DType.BF16,
                    replace: bool = False) -> None:
        """Saves the critic of algo.advantage = gae, like Model.save."""
        call("rl_pipeline_save_critic", self, path, dtype, save_flags(replace))

    def write_report(self, path: str | os.PathLike[str],
                     profiler: Profiler | None = None) -> None:
        """Writes a report of the run as one HTML file."""
        call("rl_pipeline_write_report", self, profiler, path)
