"""The trainer, which applies optimizer steps to the weights of a model."""
from __future__ import annotations

import ctypes
import os
from typing import Any

from ._arrays import Array, Floats, Pinned, pinned, zeros
from ._handle import Handle, call, get, make
from ._hooks import AdvantageFunction, Failures, LossFunction, advantage_hook, loss_hook
from .batch import Batch
from .constants import DType
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
        given = (None, 0) if advantages is None else (pinned(advantages, ctypes.c_double),)
        try:
            event = make(Event, "rl_trainer_step", self, batch, *given)
        except Error as error:
            raise self._failures.explained(error)
        self._failures.raise_loss()
        return event

    def publish(self) -> int:
        """Makes engines read the weights of the last step, and returns the version of these."""
        return int(get("rl_trainer_publish", self))

    def logprobs(self, ids: Array, num_prompt: int, temperature: float = 1.0) -> Floats:
        """Log-probs of ids[num_prompt:] under the weights of the last step, nats."""
        given = pinned(ids, ctypes.c_int32)
        values = zeros(ctypes.c_float, max(1, given.count - num_prompt))
        call("rl_trainer_logprobs", self, given, num_prompt, temperature, Pinned(values))
        view: Any = memoryview(values)
        return view

    def scores(self, batch: Batch) -> Floats:
        """The value at the last token of each sample, with algo.objective = reward_model."""
        values = zeros(ctypes.c_float, len(batch))
        call("rl_trainer_scores", self, batch, Pinned(values))
        view: Any = memoryview(values)
        return view

    def hidden(self, ids: Array) -> Tensor:
        """Hidden states of a sequence under the weights of the last step, a row for each id."""
        return make(Tensor, "rl_trainer_hidden", self, pinned(ids, ctypes.c_int32))

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
