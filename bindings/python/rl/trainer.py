"""The trainer, which applies optimizer steps to the weights of a model."""
from __future__ import annotations

import ctypes
import os
from typing import Any

from . import _raw
from ._arrays import Array, Floats, pinned
from ._handle import Handle, call, get, make, taken_text
from ._hooks import AdvantageFunction, Failures, LossFunction, advantage_hook, loss_hook
from .batch import Batch
from .constants import Device, DType, Output
from .errors import Error
from .event import Event, EventQueue
from .model import Model, forward_input, save_flags
from .options import Options
from .tensor import Tensor, tensor_request


def _step(batch: Batch, advantages: Array | None) -> tuple[Any, list[Any]]:
    """The struct of a step, and what it points to."""
    step = _raw.rl_step()
    held: list[Any] = [batch._live()]
    step.batch = held[0].value
    if advantages is not None:
        held.append(pinned(advantages, ctypes.c_double))
        step.advantages, step.num_advantages = held[1].address, held[1].count
    return step, held


class Trainer(Handle):
    """Optimizer steps on the fp32 weights of a model, opened for Use.TRAIN or Use.PARTS. A call
    that computes cannot be interrupted: Ctrl-C takes effect at its end."""

    _kind = "rl_trainer"
    _ends_under_calls = True

    def __init__(self, model: Model, options: Options | None = None) -> None:
        """Reserves gradients, optimizer states and workspace. Without options those of the model
        hold."""
        self._create("rl_trainer_create", model, options)
        self._failures = Failures()

    def step(self, batch: Batch, advantages: Array | None = None) -> Event:
        """One training step over the batch. The advantages, one per sample, are computed from the
        rewards if they are not given. The event is an EventKind.STEP with the metrics of the
        step."""
        step, held = _step(batch, advantages)
        try:
            event = make(Event, "rl_trainer_step", self, step)
        except Error as error:
            raise self._failures.explained(error)
        del held
        self._failures.raise_loss()
        return event

    def backward(self, batch: Batch, advantages: Array | None = None, total_tokens: int = 0,
                 total_sequences: int = 0) -> None:
        """Computes the gradients of an optimizer step on the batch, which apply makes. If the batch
        is a part of one that processes share, the counts are those of the whole: tokens that carry
        loss, and samples with such tokens."""
        step, held = _step(batch, advantages)
        step.total_tokens, step.total_sequences = total_tokens, total_sequences
        try:
            call("rl_trainer_backward", self, step)
        except Error as error:
            raise self._failures.explained(error)
        del held
        self._failures.raise_loss()

    def gradient(self, name: str = "", copy: bool = False, device: Device = Device.CPU,
                 device_index: int = 0, stream: int | None = None) -> Tensor:
        """The gradient of a weight, or without a name of all in one row: where the trainer computes
        it, which may be written to until apply, or a copy. Of a runtime on a GPU that is its
        memory, device Device.CUDA, with a stream as in Model.weight; in that of the CPU it is a
        copy, which apply reads back."""
        request = tensor_request(copy, device, device_index, stream)
        return make(Tensor, "rl_trainer_gradient", self, name, request)

    def apply(self) -> Event:
        """Makes the optimizer step with the gradients as they are now. The event is as that of
        step."""
        return make(Event, "rl_trainer_apply", self)

    def cancel(self) -> None:
        """Ends the step or backward that another thread runs, which raises Cancelled there."""
        call("rl_trainer_cancel", self)

    def set_options(self, options: Options) -> None:
        """Applies option values that may change between steps, from the next step on."""
        call("rl_trainer_set_options", self, options)

    def options(self) -> Options:
        """A copy of the options, as set_options has changed them."""
        return make(Options, "rl_trainer_options", self)

    def set_queue(self, queue: EventQueue | None, source: int = 0) -> None:
        """Sends the trainer's events to a queue from now on, with the number `source`; None:
        nowhere. Steps, publications and checkpoints are told, with the metrics of steps."""
        call("rl_trainer_set_queue", self, queue, source)

    def save(self, path: str | os.PathLike[str], state: str = "", keep_last: int = 0,
             replace: bool = False) -> str:
        """Saves a checkpoint with a text of the host in a directory of them, of which the newest
        keep_last are kept (0: all), and returns its own directory."""
        wanted = _raw.rl_checkpoint()
        texts = [ctypes.create_string_buffer(os.fspath(path).encode()),
                 ctypes.create_string_buffer(state.encode())]
        wanted.dir, wanted.dir_len = ctypes.addressof(texts[0]), len(texts[0]) - 1
        wanted.state, wanted.state_len = ctypes.addressof(texts[1]), len(texts[1]) - 1
        wanted.keep_last, wanted.flags = keep_last, save_flags(replace)
        return str(taken_text("rl_trainer_save", self, wanted))

    def load(self, path: str | os.PathLike[str]) -> str:
        """Goes on from a checkpoint, or from the newest one of a directory of them, and returns the
        text of the host."""
        return str(taken_text("rl_trainer_load", self, path))

    def publish(self) -> int:
        """Makes engines read the weights of the last step, and returns the version of these."""
        return int(get("rl_trainer_publish", self))

    def sleep(self) -> None:
        """Gives memory back between steps until wake(): optimizer states, averages and held
        gradients move to the host's memory."""
        call("rl_trainer_sleep", self)

    def wake(self) -> None:
        """Brings everything back, bit for bit."""
        call("rl_trainer_wake", self)

    def logprobs(self, ids: Array, num_prompt: int, temperature: float = 1.0) -> Floats:
        """Log-probs of ids[num_prompt:] under the weights of the last step, nats."""
        return self._forward(Output.LOGPROBS, None, ids, num_prompt, temperature).memoryview()

    def batch_logprobs(self, batch: Batch) -> Floats:
        """Those of every token after the prompts of a batch, one sample after the other."""
        return self._forward(Output.LOGPROBS, batch).memoryview()

    def scores(self, batch: Batch) -> Floats:
        """The value at the last token of each sample, with algo.objective = reward_model."""
        return self._forward(Output.SCORES, batch).memoryview()

    def hidden(self, ids: Array) -> Tensor:
        """Hidden states of a sequence under the weights of the last step, a row for each id."""
        return self._forward(Output.HIDDEN, None, ids)

    def forward(self, output: Output, batch: Batch, rows: Array | None = None) -> Tensor:
        """An output of the samples of a batch under the weights of the last step: of hidden states
        and logits the rows, which count the ids of all samples, or all of them."""
        wanted, held = forward_input(output, batch, rows=rows)
        try:
            return make(Tensor, "rl_trainer_forward", self, wanted)
        finally:
            del held

    def _forward(self, output: Output, batch: Batch | None = None, ids: Array | None = None,
                 num_prompt: int = 0, temperature: float = 1.0) -> Tensor:
        wanted, held = forward_input(output, batch, ids)
        wanted.num_prompt, wanted.temperature = num_prompt, temperature
        try:
            return make(Tensor, "rl_trainer_forward", self, wanted)
        finally:
            del held

    def save_critic(self, path: str | os.PathLike[str], dtype: DType = DType.BF16,
                    replace: bool = False) -> None:
        """Saves the critic of algo.advantage = gae, like Model.save."""
        call("rl_trainer_save_critic", self, path, dtype, save_flags(replace))

    def set_advantage(self, function: AdvantageFunction | None) -> None:
        """Sets the function for algo.advantage = custom. It gets the tokens, and fills in an
        advantage for each. It may call nothing of librl but module algo."""
        call("rl_trainer_set_advantage", self, *advantage_hook(function, self._failures))

    def set_loss(self, function: LossFunction | None) -> None:
        """Sets the function for algo.policy_loss = custom. It gets the tokens and their weights,
        fills in the gradient, and returns the loss."""
        call("rl_trainer_set_loss", self, *loss_hook(function, self._failures))
