"""What a training step computes with samples, on arrays of the host and without a model. Options
algo.* select the algorithm; without options the defaults hold."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Optional

from . import _raw
from ._arrays import Array, Floats, Ints, Pinned, copied, pinned, zeros
from ._handle import call
from .constants import Code
from .errors import Error
from .options import Options
from .records import AlgoLoss

_ARRAYS = _raw.ARRAYS["rl_algo_tokens"]


@dataclasses.dataclass
class Tokens:
    """Sequences of tokens, packed: per-token arrays have the tokens of sequence 0, then of sequence
    1, and so on. rl.h says at rl_algo_tokens what each field is and who needs it."""

    lengths: Array  # of each sequence
    groups: Optional[Array] = None  # equal for the samples of a prompt
    mask: Optional[Array] = None  # per token: 1 where it carries loss
    truncated: Optional[Array] = None  # of each sequence: 1 where the length limit cut it
    logprobs: Optional[Array] = None  # per token, under the current policy
    old_logprobs: Optional[Array] = None  # per token, the denominator of ratios
    rollout_logprobs: Optional[Array] = None  # per token, of the sampler
    ref_logprobs: Optional[Array] = None  # per token, under the reference
    advantages: Optional[Array] = None  # per token
    rewards: Optional[Array] = None  # of each sequence
    baselines: Optional[Array] = None  # of each sequence: rewards of greedy responses
    sample_ids: Optional[Array] = None  # of each sequence
    num_reward_parts: int = 0
    reward_parts: Optional[Array] = None  # those of sequence 0 first

    @classmethod
    def _of(cls, view: Any) -> Tokens:
        """Copies of the arrays that librl shows to a function of the host."""
        sizes = {"num_sequences": view.num_sequences, "num_tokens": view.num_tokens,
                 "num_reward_parts": view.num_reward_parts}
        arrays = {name: copied(getattr(view, name), kind, _product(length, sizes))
                  for name, (kind, length) in _ARRAYS.items() if getattr(view, name)}
        return cls(num_reward_parts=view.num_reward_parts, **arrays)

    def _view(self) -> tuple[Any, list[Pinned]]:
        """The struct, and what holds its arrays in place."""
        view = _raw.rl_algo_tokens()
        held = {name: pinned(values, kind) for name, (kind, _) in _ARRAYS.items()
                if (values := getattr(self, name)) is not None}
        lengths = memoryview(_contents(held["lengths"], ctypes.c_int32))
        view.num_sequences = len(lengths)
        view.num_tokens = sum(max(0, length) for length in lengths)
        view.num_reward_parts = self.num_reward_parts
        sizes = {name: getattr(view, name)
                 for name in ("num_sequences", "num_tokens", "num_reward_parts")}
        for name, memory in held.items():
            check_length(f"tokens.{name}", memory, _product(_ARRAYS[name][1], sizes))
            setattr(view, name, memory.address)
        return view, list(held.values())


def _contents(memory: Pinned, kind: Any) -> Any:
    return copied(memory.address, kind, memory.count)


def _product(length: str, sizes: dict[str, int]) -> int:
    """The value of a length such as "num_sequences * num_reward_parts"."""
    count = 1
    for factor in length.split(" * "):
        count *= sizes[factor]
    return count


def check_length(field: str, memory: Pinned, wanted: int) -> None:
    """Refuses an array that is shorter or longer than what librl will read."""
    if memory.count != wanted:
        raise Error(Code.INVALID_ARGUMENT,
                    f"{field} has {memory.count} entries, expected {wanted}", key=field)


def _filled(name: str, tokens: Tokens, options: Options | None, kinds: tuple[Any, ...],
            *more: Any) -> list[Any]:
    """Calls a function that fills in arrays with one entry per token."""
    view, held = tokens._view()
    arrays = [zeros(kind, view.num_tokens) for kind in kinds]
    call(name, options, view, *(Pinned(values) for values in arrays), *more)
    del held
    return [memoryview(values) for values in arrays]


def advantages(tokens: Tokens, options: Options | None = None) -> Floats:
    """The advantage of every token from the rewards, by algo.advantage."""
    return _filled("rl_algo_advantages", tokens, options, (ctypes.c_double,))[0]


def policy_loss(tokens: Tokens, options: Options | None = None) -> tuple[AlgoLoss, Floats]:
    """The loss by algo.policy_loss, and its derivative in the log-prob of each token."""
    loss = _raw.rl_algo_loss()
    gradient, = _filled("rl_algo_policy_loss", tokens, options, (ctypes.c_double,), loss)
    return AlgoLoss.of(loss), gradient


def corrections(tokens: Tokens, options: Options | None = None) -> tuple[Floats, Ints]:
    """The factors of the token losses by algo.correction.*, and 1 for each token that carries loss
    after all rejections."""
    weights, keep = _filled("rl_algo_corrections", tokens, options,
                            (ctypes.c_double, ctypes.c_uint8))
    return weights, keep


def weights(tokens: Tokens, options: Options | None = None) -> Floats:
    """The weight of each token by algo.loss_agg."""
    return _filled("rl_algo_weights", tokens, options, (ctypes.c_double,))[0]


def kl(tokens: Tokens, options: Options | None = None) -> tuple[Floats, Floats]:
    """The KL of each token by algo.kl.estimator, and its derivative in the log-prob."""
    values, gradient = _filled("rl_algo_kl", tokens, options, (ctypes.c_double, ctypes.c_double))
    return values, gradient
