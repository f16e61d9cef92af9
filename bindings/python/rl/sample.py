"""Samples: a prompt and the tokens generated after it. With G = len(ids) - num_prompt, every
per-token array has G entries: entry i belongs to ids[num_prompt + i]. rl.h says at rl_sample_view
what each field is."""
from __future__ import annotations

import ctypes
import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import _raw
from ._arrays import Array, Floats, Ints, Pinned, copied, pinned
from ._handle import Handle, filled, make
from .algo import check_length
from .constants import Finish, Purpose, SampleArray
from .records import SampleFields
from .tensor import Tensor

_ARRAYS = _raw.ARRAYS["rl_sample_view"]
_NUMBERS = ("sample_id", "ordinal", "slot", "attempt", "data_row", "purpose", "finish",
            "num_prompt", "reward", "temperature", "scored", "submitted_ns", "admitted_ns",
            "first_token_ns", "finished_ns", "num_top", "num_aborts", "preemptions")


@dataclasses.dataclass
class Sample:
    """A sample of the host's own making: for Buffer.put, and for Engine.submit to go on from.
    Arrays that rl.h calls optional may be None."""

    ids: Array
    num_prompt: int
    sample_id: int = 0
    ordinal: int = 0
    slot: int = 0
    attempt: int = 0
    data_row: int = -1
    purpose: Purpose = Purpose.TRAIN
    finish: Finish = Finish.NONE
    logprobs: Optional[Array] = None
    logprobs_sampled: Optional[Array] = None
    versions: Optional[Array] = None
    loss_mask: Optional[Array] = None
    reward: float = 0.0
    temperature: float = 1.0
    scored: bool = False
    tag: str = ""
    submitted_ns: int = 0
    admitted_ns: int = 0
    first_token_ns: int = 0
    finished_ns: int = 0
    num_top: int = 0
    top_ids: Optional[Array] = None
    top_logprobs: Optional[Array] = None
    num_aborts: int = 0
    preemptions: int = 0
    mixed_kv: Optional[Array] = None
    reward_parts: Optional[Array] = None
    token_rewards: Optional[Array] = None
    prompt_logprobs: Optional[Array] = None

    def _view(self) -> tuple[Any, list[object]]:
        """The struct, and what holds its arrays in place."""
        view = _raw.rl_sample_view()
        tag = self.tag.encode("utf-8", "surrogateescape")
        held: dict[str, Pinned] = {
            name: pinned(values, kind) for name, (kind, _) in _ARRAYS.items()
            if (values := getattr(self, name)) is not None}
        for name in _NUMBERS:
            setattr(view, name, getattr(self, name))
        view.num_ids, view.tag_len = held["ids"].count, len(tag)
        view.tag = ctypes.cast(ctypes.c_char_p(tag), ctypes.c_void_p).value
        generated = view.num_ids - view.num_prompt
        for name, memory in held.items():
            if name == "reward_parts":
                view.num_reward_parts = memory.count
            elif name == "prompt_logprobs":
                check_length(f"sample.{name}", memory, view.num_prompt)
            elif name != "ids":
                per_token = view.num_top if name.startswith("top_") else 1
                check_length(f"sample.{name}", memory, max(0, generated) * per_token)
            setattr(view, name, memory.address)
        return view, [tag, *held.values()]


class SampleView(SampleFields):
    """A sample of a batch or an event. Numbers and texts are copies; an array is read when it is
    asked for, and keeps what owns its memory. Once batch or event is closed, arrays that were not
    asked for raise ClosedError."""

    if TYPE_CHECKING:  # set by _make
        _owner: Handle

        def _read(self) -> Any: ...

        def _tensor(self, array: int) -> Tensor: ...

    @classmethod
    def _make(cls, owner: Handle, function: str, tensor_function: str,
              *index: int) -> SampleView:
        token = owner._live()  # keeps the texts until they are copied

        def read() -> Any:
            return filled(_raw.rl_sample_view(), function, owner, *index)

        made = cls.of(read())
        for name, value in (("_owner", owner), ("_read", read), ("_tensor", lambda array: make(
                Tensor, tensor_function, owner, *index, array, None))):
            object.__setattr__(made, name, value)  # the fields of a record do not change
        del token
        return made

    @property
    def num_generated(self) -> int:
        """Number of tokens after the prompt."""
        return self.num_ids - self.num_prompt

    def tensor(self, array: SampleArray) -> Tensor:
        """An array of the sample as a tensor, without a copy."""
        return self._tensor(array)

    def _shown(self, name: str, array: SampleArray) -> Any:
        token, view = self._owner._live(), self._read()
        present = bool(getattr(view, name))
        del token
        return self.tensor(array).memoryview() if present else None

    def _copied(self, name: str, count: Callable[[Any], int]) -> Any:
        token, view = self._owner._live(), self._read()
        address = getattr(view, name)
        values = copied(address, _ARRAYS[name][0], count(view)) if address else None
        del token
        return values

    @cached_property
    def ids(self) -> Ints:
        """The token ids of prompt and response."""
        return self.tensor(SampleArray.IDS).memoryview()

    @property
    def prompt_ids(self) -> Ints:
        """The token ids of the prompt."""
        return self.ids[:self.num_prompt]

    @property
    def response_ids(self) -> Ints:
        """The token ids of the response."""
        return self.ids[self.num_prompt:]

    @cached_property
    def logprobs(self) -> Optional[Floats]:
        """Log-probs at the sample's temperature, nats."""
        return self._shown("logprobs", SampleArray.LOGPROBS)

    @cached_property
    def logprobs_sampled(self) -> Optional[Floats]:
        """Log-probs under the distribution that was sampled from."""
        return self._shown("logprobs_sampled", SampleArray.LOGPROBS_SAMPLED)

    @cached_property
    def top_ids(self) -> Optional[Ints]:
        """The most probable ids of each token, num_top of them."""
        return self._shown("top_ids", SampleArray.TOP_IDS)

    @cached_property
    def top_logprobs(self) -> Optional[Floats]:
        """Log-probs of top_ids."""
        return self._shown("top_logprobs", SampleArray.TOP_LOGPROBS)

    @cached_property
    def versions(self) -> Optional[Ints]:
        """The version of the weights that generated each token."""
        return self._copied("versions", _generated)

    @cached_property
    def loss_mask(self) -> Optional[Ints]:
        """1 where a token is trained on; None: all are."""
        return self._copied("loss_mask", _generated)

    @cached_property
    def mixed_kv(self) -> Optional[Ints]:
        """1 where keys and values were of older weights; None: nowhere."""
        return self._copied("mixed_kv", _generated)

    @property
    def reward_parts(self) -> Optional[Floats]:
        """Reward parts in addition to the reward."""
        return self._copied("reward_parts", lambda view: int(view.num_reward_parts))

    @property
    def token_rewards(self) -> Optional[Floats]:
        """What each token after the prompt earns in addition to the reward; None: nothing."""
        return self._copied("token_rewards", _generated)

    @cached_property
    def prompt_logprobs(self) -> Optional[Floats]:
        """Log-probs of the tokens of the prompt; None: not measured (sampling.prompt_logprobs)."""
        return self._copied("prompt_logprobs", lambda view: int(view.num_prompt))

    def copy(self) -> Sample:
        """A sample of the host's own with the same contents, to change and to keep."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return Sample(tag=self.tag, **numbers, **arrays)

    def _view(self) -> tuple[Any, list[object]]:
        """The struct itself, which the owner's handle keeps."""
        token = self._owner._live()
        return self._read(), [token]


def _generated(view: Any) -> int:
    return int(view.num_ids - view.num_prompt)
