#!/usr/bin/env python3
"""Compares librl with transformers on models that one of them saved, and prints a table.

For maintainers; no test runs it. It needs torch, transformers and a built librl.so, uses rl.h
alone, and writes only into a temporary directory. docs/interop.md says what each column means and
holds the figures of the last run.

    tools/check_with_transformers.py --lib build/release/src/abi/librl.so MODEL...

A MODEL is a directory, such as those of tests/fixtures/models, or a GGUF file.
"""
import argparse
import ctypes
import json
import pathlib
import sys
import tempfile

import numpy
import torch
import transformers

# A row of log-probs over a whole vocabulary costs one call per token: small vocabularies only.
LARGEST_FULL_ROW = 512
SEQUENCE_LENGTHS = (5, 12, 29)
HARD_TEXTS = (
    "", " ", "a", "Hello world", "  two  spaces   and a tab\tend \n\n\r\n  \n",
    "\u00a0no-break\u2003em\u3000wide\u200bzero",
    "It's we'RE they'Ll I'd 'tis ''",
    "1 12 123 1234 12345 3.14e-5 \u0967\u0968\u0969 \u2167 \u00b2\u00bd",
    "caf\u00e9 cafe\u0301 \u00c5 \u212b \ufb01 \u1e9b\u0323",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd "
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea "
    "\U0001f44d\U0001f3fd \U0001d54f",
    "\ufeffbom \u0000nul \u001dgroup \u007fdel \ufffd \uffff",
    "def f(x):\n\treturn {'a': [x**2, -x]}  # \u2192 <b>&amp;</b>\\n",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><|im_start",
    "<|begin_of_text|>x<|eot_id|> <s></s> [INST]",
    "x" * 300 + " " * 70 + "\n" * 40 + "." * 33,
    "\u202eright to left\u202c e\u0300\u0301\u0302\u0303\u0304",
)
CHATS = (
    [("user", "Hi")],
    [("system", "Be brief."), ("user", "  What is 2 + 3?\n"), ("assistant", "5"),
     ("user", "\u4f60\u597d \U0001f44d")],
    [("user", "one"), ("assistant", "two")],
)


class Library:
    """The functions of rl.h that this tool uses; a failure is RuntimeError with the error's
    summary."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(str(path))
        for name in ("rl_bytes_data", "rl_error_text"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.rl_bytes_size.restype = ctypes.c_size_t
        self.lib.rl_abi_version.restype = ctypes.c_uint32

    def call(self, name, *arguments):
        error = ctypes.c_void_p()
        status = getattr(self.lib, name)(*arguments, ctypes.byref(error))
        if status == 0:
            return
        summary = ctypes.string_at(self.lib.rl_error_text(error, self.constant("RL_ERROR_SUMMARY"),
                                                          None)).decode()
        self.lib.rl_error_release(error)
        raise RuntimeError(f"{summary}")

    def constant(self, name):
        value = ctypes.c_int64()
        if self.lib.rl_constant(name.encode(), ctypes.c_size_t(len(name)), ctypes.byref(value),
                                None) != 0:
            raise RuntimeError(f"rl.h has no {name}")
        return value.value

    def make(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def take_bytes(self, handle):
        out = ctypes.string_at(self.lib.rl_bytes_data(handle), self.lib.rl_bytes_size(handle))
        self.lib.rl_bytes_release(handle)
        return out

    def take_ids(self, handle):
        return numpy.frombuffer(self.take_bytes(handle), dtype=numpy.int32).tolist()


def counted(text):
    data = text.encode("utf-8")
    return data, ctypes.c_size_t(len(data))


def id_array(ids):
    return (ctypes.c_int32 * len(ids))(*ids), ctypes.c_size_t(len(ids))


class Forward(ctypes.Structure):
    """rl_forward."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("output", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("batch", ctypes.c_void_p), ("ids", ctypes.c_void_p),
                ("num_ids", ctypes.c_size_t), ("num_prompt", ctypes.c_size_t),
                ("temperature", ctypes.c_float), ("reserved2", ctypes.c_uint32)]


class TensorInfo(ctypes.Structure):
    """rl_tensor_info."""
    _fields_ = [("struct_size", ctypes.c_size_t), ("data", ctypes.c_void_p),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("num_dims", ctypes.c_uint64), ("num_elements", ctypes.c_uint64),
                ("dtype", ctypes.c_int32), ("device", ctypes.c_int32),
                ("read_only", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class Model:
    """A librl model in fp32, with a trainer to compute log-probs of given ids."""

    def __init__(self, library, path, use="RL_USE_TRAIN"):
        self.library = library
        self.trainer = None
        options = library.make("rl_options_create")
        for key, value in (("model.path", str(path)), ("model.dtype", "fp32"),
                           ("engine.max_model_len", "64"), ("sampling.max_new_tokens", "16"),
                           ("trainer.max_tokens_per_device", "1024")):
            library.call("rl_options_set_text", options, *counted(key), *counted(value))
        self.runtime = library.make("rl_runtime_create", library.lib.rl_abi_version(), options)
        self.model = library.make("rl_model_open", self.runtime, options, library.constant(use))
        if use == "RL_USE_TRAIN":
            self.trainer = library.make("rl_trainer_create", self.model, None)
        library.lib.rl_options_destroy(options)

    def close(self):
        self.library.lib.rl_trainer_destroy(self.trainer)
        self.library.lib.rl_model_destroy(self.model)
        self.library.lib.rl_runtime_destroy(self.runtime)

    def save(self, directory, dtype):
        self.library.call("rl_model_save", self.model, *counted(str(directory)),
                          ctypes.c_int32(self.library.constant(dtype)), ctypes.c_uint64(0))

    def digest(self):
        out = ctypes.c_uint64()
        self.library.call("rl_model_digest", self.model, ctypes.byref(out))
        return out.value

    def eos_ids(self):
        return self.library.take_ids(self.library.make("rl_model_eos_ids", self.model))

    def logprobs(self, ids, num_prompt):
        sequence = id_array(ids)[0]
        wanted, info = Forward(), TensorInfo()
        size = ctypes.c_size_t(ctypes.sizeof(wanted))
        self.library.lib.rl_forward_init(ctypes.byref(wanted), size)
        wanted.ids, wanted.num_ids = ctypes.addressof(sequence), len(ids)
        wanted.num_prompt = num_prompt
        tensor = self.library.make("rl_trainer_forward", self.trainer, ctypes.byref(wanted))
        info.struct_size = ctypes.sizeof(info)
        self.library.call("rl_tensor_get_info", tensor, ctypes.byref(info))
        out = numpy.array((ctypes.c_float * info.num_elements).from_address(info.data))
        self.library.lib.rl_tensor_release(tensor)
        return out

    def flags(self, names):
        return ctypes.c_uint64(sum(self.library.constant("RL_TEXT_" + n) for n in names))

    def encode(self, text, *flags):
        return self.library.take_ids(
            self.library.make("rl_model_encode", self.model, *counted(text), self.flags(flags)))

    def decode(self, ids, *flags):
        text = self.library.make("rl_model_decode", self.model, *id_array(ids), self.flags(flags))
        return self.library.take_bytes(text).decode("utf-8")

    def encode_chat(self, messages, *flags):
        chat = json.dumps({"messages": [{"role": r, "content": c} for r, c in messages]})
        return self.library.take_ids(
            self.library.make("rl_model_encode_chat", self.model, *counted(chat),
                              self.flags(flags)))


def open_in_transformers(path):
    """A Hugging Face directory, or a GGUF file through transformers' own reader of that format."""
    place = {"gguf_file": path.name} if path.is_file() else {}
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent if place else path, dtype=torch.float32, attn_implementation="eager",
        output_loading_info=True, **place)
    kinds = ("missing_keys", "unexpected_keys", "mismatched_keys")
    wrong = {k: v for k, v in loading.items() if v and k in kinds}
    if wrong:
        raise RuntimeError(f"transformers opened {path} with {wrong}")
    return model.eval()


def reference_logprobs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), dim=-1).numpy()


def compare_logprobs(ours, theirs, vocab):
    """The largest differences: over sequence tokens, and over whole rows of the distribution."""
    random = numpy.random.default_rng(7)
    tokens = rows = 0.0
    for length in SEQUENCE_LENGTHS:
        ids = random.integers(3, vocab, length).tolist()
        want = reference_logprobs(theirs, ids)
        got = ours.logprobs(ids, 1)
        tokens = max(tokens, max(abs(got[t - 1] - want[t - 1][ids[t]]) for t in range(1, length)))
        if vocab > LARGEST_FULL_ROW:
            candidates = numpy.argsort(-want[-1])[:20]
        else:
            candidates = range(vocab)
        rows = max(rows, max(abs(ours.logprobs(ids + [int(v)], length)[0] - want[-1][v])
                             for v in candidates))
    return tokens, rows


class Count:
    """Counts cases that agree; prints each mismatch at once."""

    def __init__(self, name):
        self.name, self.right, self.all = name, 0, 0

    def check(self, what, ours, theirs):
        self.all += 1
        self.right += ours == theirs
        if ours != theirs:
            print(f"{self.name}: {what!r}\n  librl        {ours}\n  transformers {theirs}")

    def __str__(self):
        return f"{self.right}/{self.all}" if self.all else "-"


def compare_texts(name, ours, tokenizer):
    ids, decoded = Count(name), Count(name)
    for text in HARD_TEXTS:
        plain = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        parsed = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids.check(text, ours.encode(text), plain)
        ids.check(text, ours.encode(text, "ALLOW_SPECIAL"), parsed)
        ids.check(text, ours.encode(text, "ALLOW_SPECIAL", "ADD_SPECIAL"),
                  tokenizer(text)["input_ids"])
        for flags, skip in (((), False), (("SKIP_SPECIAL",), True)):
            want = tokenizer.decode(parsed, skip_special_tokens=skip,
                                    clean_up_tokenization_spaces=False)
            decoded.check(parsed, ours.decode(parsed, *flags), want)
    return ids, decoded


def compare_chats(name, ours, tokenizer):
    count = Count(name)
    for messages in CHATS if tokenizer.chat_template else ():
        turns = [{"role": role, "content": content} for role, content in messages]
        for flags, prompt in (((), False), (("GENERATION_PROMPT",), True)):
            want = tokenizer.apply_chat_template(turns, add_generation_prompt=prompt,
                                                 return_dict=False)
            count.check(messages, ours.encode_chat(messages, *flags), want)
    return count


def check_weights_equal(a, b):
    """Two transformers models hold the same parameters, bit for bit."""
    left, right = a.state_dict(), b.state_dict()
    if left.keys() != right.keys():
        lone = sorted(left.keys() ^ right.keys())
        raise RuntimeError(f"the parameters {lone} are in one model only")
    for key, value in left.items():
        if not torch.equal(value, right[key]):
            raise RuntimeError(f"parameter {key} differs")


def check_generation(ours, theirs):
    ids = theirs.generation_config.eos_token_id
    ids = [ids] if isinstance(ids, int) else ids or []
    if not set(ids) <= set(ours.eos_ids()):
        raise RuntimeError(f"transformers stops at {ids}, librl at {ours.eos_ids()}")


def check_bf16(ours, work):
    directory = work / "bf16"
    ours.save(directory, "RL_DTYPE_BF16")
    rounded = open_in_transformers(directory).state_dict()
    exact = open_in_transformers(work / "saved").state_dict()
    for key, value in exact.items():
        if not torch.equal(value.bfloat16().float(), rounded[key]):
            raise RuntimeError(f"parameter {key} is not rounded to nearest in the bf16 copy")


def check_way_back(library, ours, theirs, tokenizer, work):
    """Round trip. A model saved by transformers, in one file and in shards, must open in librl with
    the same weights and ids; saved again by librl, it must open in transformers with the same
    tokenizer and generation settings."""
    theirs.generation_config.update(do_sample=True, temperature=0.7, top_k=11)
    for kind, limit in (("whole", "50GB"),
                        ("shards", "100KB" if theirs.num_parameters() < 10**7 else "100MB")):
        directory, twice = work / kind, work / f"{kind}_twice"
        theirs.save_pretrained(directory, max_shard_size=limit)
        if (kind == "shards") != (directory / "model.safetensors.index.json").exists():
            raise RuntimeError(f"transformers did not write {kind}")
        if tokenizer is not None:
            tokenizer.save_pretrained(directory)
        again = Model(library, directory, "RL_USE_MODEL")
        if again.digest() != ours.digest():
            raise RuntimeError(f"the weights that librl read from {kind} differ")
        again.save(twice, "RL_DTYPE_F32")
        settings = transformers.GenerationConfig.from_pretrained(twice)
        if settings.to_diff_dict() != theirs.generation_config.to_diff_dict():
            raise RuntimeError(f"generation settings became {settings}")
        if tokenizer is not None:
            check_same_tokenizer(ours, again, tokenizer,
                                 transformers.AutoTokenizer.from_pretrained(twice))
        again.close()


def check_same_tokenizer(ours, again, tokenizer, twice):
    for text in HARD_TEXTS:
        if again.encode(text, "ALLOW_SPECIAL") != ours.encode(text, "ALLOW_SPECIAL"):
            raise RuntimeError(f"ids of {text!r} differ after transformers saved the tokenizer")
        if twice(text)["input_ids"] != tokenizer(text)["input_ids"]:
            raise RuntimeError(f"ids of {text!r} differ after librl saved transformers' tokenizer")
    for field in ("special_tokens_map", "chat_template", "model_max_length"):
        if getattr(twice, field) != getattr(tokenizer, field):
            raise RuntimeError(f"{field} became {getattr(twice, field)}")


def make_model(tokenizer_json, directory):
    """Saves a small random transformers model with the tokenizer of a NAME.tokenizer.json file."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_json))
    torch.manual_seed(5)
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), hidden_size=64,
                                      intermediate_size=96, num_hidden_layers=1,
                                      num_attention_heads=4, num_key_value_heads=2,
                                      max_position_embeddings=64, bos_token_id=None, eos_token_id=0)
    transformers.LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def check_model(library, source, work):
    path = make_model(source, work / "made") if source.name.endswith(".tokenizer.json") else source
    ours = Model(library, path)
    saved = work / "saved"
    ours.save(saved, "RL_DTYPE_F32")
    theirs = open_in_transformers(saved)
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    check_weights_equal(theirs, open_in_transformers(path))
    tokens, rows = compare_logprobs(ours, theirs, config["vocab_size"])
    check_generation(ours, theirs)
    check_bf16(ours, work)
    tokenizer, texts, decoded, chats = None, "-", "-", "-"
    if (saved / "tokenizer.json").exists():
        tokenizer = transformers.AutoTokenizer.from_pretrained(saved)
        texts, decoded = compare_texts(source.name, ours, tokenizer)
        chats = compare_chats(source.name, ours, tokenizer)
    check_way_back(library, ours, theirs, tokenizer, work)
    # Both sides are fp32. Against float64 the goldens allow each 2e-5, or 1e-4 at full size.
    limit = 2e-4 if theirs.num_parameters() > 10**7 else 5e-5
    good = max(tokens, rows) <= limit and all(
        c.right == c.all for c in (texts, decoded, chats) if isinstance(c, Count))
    ours.close()
    return [source.name, config["model_type"], f"{theirs.num_parameters():,}", f"{tokens:.1e}",
            f"{rows:.1e}", f"{limit:.0e}", str(texts), str(decoded), str(chats),
            "yes" if good else "NO"]


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for i, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if i == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", type=pathlib.Path, required=True, help="librl.so")
    parser.add_argument("models", nargs="+", type=pathlib.Path,
                        help="Hugging Face directories, GGUF files, and NAME.tokenizer.json files")
    arguments = parser.parse_args()
    library = Library(arguments.lib.resolve())
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    rows = [["model", "type", "parameters", "tokens", "rows", "limit", "ids", "texts", "chats",
             "good"]]
    failed = 0
    for path in arguments.models:
        with tempfile.TemporaryDirectory() as work:
            try:
                rows.append(check_model(library, path, pathlib.Path(work)))
                failed += rows[-1][-1] != "yes"
            except RuntimeError as e:
                print(f"{path.name}: {e}")
                failed += 1
    print_table(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
