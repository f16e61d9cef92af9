"""A model: weights, tokenizer and chat format, which the engines, trainers and pipelines made from
it share."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Mapping

from . import _raw
from ._arrays import Array, Ints, pinned
from ._handle import Handle, ask, call, filled, get, make, taken_array, taken_text, texts_of
from .batch import Batch
from .constants import Device, DType, Output, SaveFlags, TextFlags, Use
from .options import Options
from .records import ModelInfo
from .runtime import Runtime
from .tensor import Tensor, tensor_request

# A chat: its messages, or an object as rl.h describes it at rl_model_encode_chat, with the
# member "messages" and others, as a mapping or as JSON text.
Chat = Any


def _chat_text(chat: Chat) -> str:
    if isinstance(chat, str):
        return chat
    whole = chat if isinstance(chat, Mapping) else {"messages": list(chat)}
    return json.dumps(whole, ensure_ascii=False)


def save_flags(replace: bool) -> int:
    """Flags of functions that write files."""
    return SaveFlags.REPLACE if replace else 0


def forward_input(output: Output, batch: Batch | None, ids: Array | None = None,
                  rows: Array | None = None) -> tuple[Any, list[Any]]:
    """The struct of a forward, and what it points to."""
    wanted = _raw.rl_forward()
    wanted.output, wanted.temperature = output, 1.0
    held: list[Any] = []
    if batch is not None:
        held.append(batch._live())
        wanted.batch = held[-1].value
    if ids is not None:
        held.append(pinned(ids, ctypes.c_int32))
        wanted.ids, wanted.num_ids = held[-1].address, held[-1].count
    if rows is not None:
        held.append(pinned(rows, ctypes.c_uint64))
        wanted.rows, wanted.num_rows = held[-1].address, held[-1].count
    return wanted, held


class Model(Handle):
    """The model at model.path. It lives until the last object made from it ends."""

    _kind = "rl_model"

    def __init__(self, runtime: Runtime, options: Options | None = None,
                 use: Use = Use.PIPELINE) -> None:
        """Opens the model for a use, whose memory plan is checked first. Without options those of
        the runtime hold."""
        self._create("rl_model_open", runtime, options, use)
        self._runtime = runtime

    def options(self) -> Options:
        """A copy of the options that the model was opened with."""
        return make(Options, "rl_model_options", self)

    @property
    def info(self) -> ModelInfo:
        """Family, shape, compute dtype and special ids."""
        return ModelInfo.of(filled(_raw.rl_model_info(), "rl_model_get_info", self))

    def save(self, path: str | os.PathLike[str], dtype: DType = DType.BF16,
             replace: bool = False) -> None:
        """Saves the model as a Hugging Face directory, complete or not at all."""
        call("rl_model_save", self, path, dtype, save_flags(replace))

    # ---- text ----

    def encode(self, text: str, *, add_special: bool = False,
               allow_special: bool = False) -> Ints:
        """The token ids of a text."""
        flags = (TextFlags.ADD_SPECIAL * add_special) | (TextFlags.ALLOW_SPECIAL * allow_special)
        return taken_array("rl_model_encode", self, text, flags)

    def decode(self, ids: Array, *, skip_special: bool = False) -> str:
        """The text of token ids."""
        return taken_text("rl_model_decode", self, pinned(ids, ctypes.c_int32),
                          TextFlags.SKIP_SPECIAL * skip_special)

    def encode_chat(self, chat: Chat, *, generation_prompt: bool = True) -> Ints:
        """The token ids of a chat in the model's chat format."""
        return taken_array("rl_model_encode_chat", self, _chat_text(chat),
                           TextFlags.GENERATION_PROMPT * generation_prompt)

    def render_chat(self, chat: Chat, *, generation_prompt: bool = True) -> str:
        """The text of a chat in the model's chat format."""
        return taken_text("rl_model_render_chat", self, _chat_text(chat),
                          TextFlags.GENERATION_PROMPT * generation_prompt)

    @property
    def eos_ids(self) -> list[int]:
        """Token ids that end a response."""
        ids: list[int] = taken_array("rl_model_eos_ids", self).tolist()
        return ids

    # ---- forwards ----

    def forward(self, output: Output, batch: Batch, rows: Array | None = None) -> Tensor:
        """An output of a forward, as Trainer.forward, of a model that was opened for
        Use.FORWARD."""
        wanted, held = forward_input(output, batch, rows=rows)
        try:
            return make(Tensor, "rl_model_forward", self, wanted)
        finally:
            del held

    # ---- weights ----

    @property
    def version(self) -> int:
        """The version of the weights: 0 as loaded, one more with each publication."""
        return int(get("rl_model_version", self))

    @property
    def digest(self) -> int:
        """A hash of all fp32 parameters: equal weights have equal digests."""
        return int(get("rl_model_digest", self))

    @property
    def weight_names(self) -> list[str]:
        """The names of all weights, as in a Hugging Face directory."""
        token = self._live()  # keeps the texts until they are copied
        names = [texts_of("rl_model_weight_name", self, index)[0]
                 for index in range(ask("rl_model_weight_count", self))]
        del token
        return names

    def weight(self, name: str, copy: bool = False, device: Device = Device.CPU,
               device_index: int = 0, stream: int | None = None) -> Tensor:
        """A weight: the live fp32 values, read-only, or a copy of those of now. Read live values
        only while none of them is trained or set. Of a runtime on a GPU the live ones are in its
        memory, device Device.CUDA; in that of the CPU they are a copy. A stream of the GPU gets
        the values behind its later work; without one they are there at once."""
        request = tensor_request(copy, device, device_index, stream)
        return make(Tensor, "rl_model_weight", self, name, request)

    def set_weights(self, weights: Mapping[str, Any], as_version: int = 0,
                    stream: int | None = None) -> int:
        """Sets weights by name, all or none, and returns their version: as_version, or with 0 the
        next one. A value is a Tensor, or what a Tensor can be made of. With a stream of the
        runtime's GPU the values are read behind its work."""
        tensors = [value if isinstance(value, Tensor) else Tensor(self._runtime, value)
                   for value in weights.values()]
        tokens = [tensor._live() for tensor in tensors]
        texts = [ctypes.create_string_buffer(name.encode()) for name in weights]
        array = (_raw.rl_weight * len(tensors))()
        for raw, text, token in zip(array, texts, tokens):
            raw.struct_size = ctypes.sizeof(raw)
            raw.name, raw.name_len = ctypes.addressof(text), len(text) - 1
            raw.tensor = token.value
        version = ctypes.c_uint64()
        call("rl_model_set_weights", self, array, len(tensors), stream, as_version,
             ctypes.byref(version))
        return version.value
