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
    token_rewards: Optional[Array] = None  # added to what each token earns
    values: Optional[Array] = None  # per token, of a critic now
    old_values: Optional[Array] = None  # per token, of the critic at sampling
    returns: Optional[Array] = None  # per token, what values are to predict
    entropies: Optional[Array] = None  # per token, nats
    weights: Optional[Array] = None  # per token, in place of those of algo.loss_agg
    total_tokens: int = 0  # that carry loss, in the whole batch; 0: those given here
    total_sequences: int = 0

    @classmethod
    def _of(cls, view: Any) -> Tokens:
        """Copies of the arrays that librl shows to a function of the host."""
        sizes = {"num_sequences": view.num_sequences, "num_tokens": view.num_tokens,
                 "num_reward_parts": view.num_reward_parts}
        arrays = {name: copied(getattr(view, name), kind, _product(length, sizes))
                  for name, (kind, length) in _ARRAYS.items() if getattr(view, name)}
        return cls(num_reward_parts=view.num_reward_parts, total_tokens=view.total_tokens,
                   total_sequences=view.total_sequences, **arrays)

    def _view(self) -> tuple[Any, list[Pinned]]:
        """The struct, and what holds its arrays in place."""
        view = _raw.rl_algo_tokens()
        held = {name: pinned(values, kind) for name, (kind, _) in _ARRAYS.items()
                if (values := getattr(self, name)) is not None}
        lengths = memoryview(_contents(held["lengths"], ctypes.c_int32))
        view.num_sequences = len(lengths)
        view.num_tokens = sum(max(0, length) for length in lengths)
        view.num_reward_parts = self.num_reward_parts
        view.total_tokens, view.total_sequences = self.total_tokens, self.total_sequences
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
    return advantages_and_returns(tokens, options)[0]


def advantages_and_returns(tokens: Tokens,
                           options: Options | None = None) -> tuple[Floats, Floats]:
    """The advantages, and the reward to go of every token, which a critic is to predict."""
    values, returns = _filled("rl_algo_advantages", tokens, options,
                              (ctypes.c_double, ctypes.c_double))
    return values, returns


def policy_loss(tokens: Tokens, options: Options | None = None) -> tuple[AlgoLoss, Floats]:
    """The loss by algo.policy_loss, and its derivative in the log-prob of each token."""
    return _loss("rl_algo_policy_loss", tokens, options)


def value_loss(tokens: Tokens, options: Options | None = None) -> tuple[AlgoLoss, Floats]:
    """The loss of a critic by algo.value_clip, and its derivative in the value of each token."""
    return _loss("rl_algo_value_loss", tokens, options)


def entropy_loss(tokens: Tokens, options: Options | None = None) -> tuple[AlgoLoss, Floats]:
    """The entropy bonus as a loss, and its derivative in the entropy of each token."""
    return _loss("rl_algo_entropy_loss", tokens, options)


def _loss(name: str, tokens: Tokens, options: Options | None) -> tuple[AlgoLoss, Floats]:
    loss = _raw.rl_algo_loss()
    gradient, = _filled(name, tokens, options, (ctypes.c_double,), loss)
    return AlgoLoss.of(loss), gradient


def pack(lengths: Array, options: Options | None = None, *, max_tokens: int = 0, min_bins: int = 1,
         divisor: int = 1, group_size: int = 1, hidden: int = 0,
         oversize_alone: bool = False) -> tuple[Ints, int]:
    """The bin of each sequence, and the number of bins; rl.h says at rl_algo_packing what the
    arguments are."""
    given, count = pinned(lengths, ctypes.c_int32), ctypes.c_uint64()
    packing = _raw.rl_algo_packing()
    packing.max_tokens, packing.min_bins, packing.divisor = max_tokens, min_bins, divisor
    packing.group_size, packing.hidden = group_size, hidden
    packing.oversize_alone = int(oversize_alone)
    bins = zeros(ctypes.c_int32, given.count)
    call("rl_algo_pack", options, given, packing, Pinned(bins), ctypes.byref(count))
    view: Any = memoryview(bins)
    return view, count.value


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
