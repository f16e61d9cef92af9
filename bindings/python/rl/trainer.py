"""The trainer, which applies optimizer steps to the weights of a model."""
from __future__ import annotations

import ctypes
import os
from typing import Any

from . import _raw
from ._arrays import Array, Floats, pinned
from ._handle import Handle, call, get, make
from ._hooks import AdvantageFunction, Failures, LossFunction, advantage_hook, loss_hook
from .batch import Batch
from .constants import DType, Output
from .errors import Error
from .event import Event
from .model import Model, save_flags
from .options import Options
from .tensor import Tensor


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
        step = _raw.rl_step()
        held: list[Any] = [batch._live()]
        step.batch = held[0].value
        if advantages is not None:
            held.append(pinned(advantages, ctypes.c_double))
            step.advantages, step.num_advantages = held[1].address, held[1].count
        try:
            event = make(Event, "rl_trainer_step", self, step)
        except Error as error:
            raise self._failures.explained(error)
        self._failures.raise_loss()
        return event

    def publish(self) -> int:
        """Makes engines read the weights of the last step, and returns the version of these."""
        return int(get("rl_trainer_publish", self))

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

    def _forward(self, output: Output, batch: Batch | None = None, ids: Array | None = None,
                 num_prompt: int = 0, temperature: float = 1.0) -> Tensor:
        wanted = _raw.rl_forward()
        wanted.output, wanted.num_prompt, wanted.temperature = output, num_prompt, temperature
        held: list[Any] = []
        if batch is not None:
            held.append(batch._live())
            wanted.batch = held[-1].value
        if ids is not None:
            held.append(pinned(ids, ctypes.c_int32))
            wanted.ids, wanted.num_ids = held[-1].address, held[-1].count
        return make(Tensor, "rl_trainer_forward", self, wanted)

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
