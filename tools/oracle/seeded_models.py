#!/usr/bin/env python3
"""Makes tests/fixtures/seeded: configurations of unusual shapes, and what transformers computes on
them.

No weights are stored. They are computed from the tensor name and the element index (weight_rule
below), here and in tests/support/seeded_model.h; golden.json has the exact sum of every tensor, so
that the two cannot diverge.

    python3 tools/oracle/seeded_models.py --out tests/fixtures/seeded [NAME...]

README.md in this folder describes requirements, file contents and how weights are made.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import torch
import transformers as hf
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
hf.utils.logging.set_verbosity_error()
hf.utils.logging.disable_progress_bar()

LENS = (19, 5, 34)  # below, inside and across KV blocks of 16
MASK = (1 << 64) - 1


def fnv1a(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def uniform(key, count):
    """Odd multiples of 2^-8 in (-1, 1), exact in bf16: the top byte of splitmix64's output number
    i."""
    with np.errstate(over="ignore"):
        z = np.uint64(key) + np.arange(1, count + 1,
                                       dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    top = (z >> np.uint64(56)).astype(np.int64)
    return (2 * top - 255).astype(np.float64) / 256


def weight_rule(name, shape, minus_one):
    """The weights of one tensor. minus_one: norms store their weight minus one."""
    u = uniform(fnv1a(name), int(np.prod(shape)))
    if len(shape) == 1:
        return u / 4 if name.endswith("bias") or minus_one else 1 + u / 4
    if "embed_tokens" in name or "lm_head" in name:
        return (u / 4).reshape(shape)
    scale = 1.0  # the largest power of two that is at most 2 / sqrt(columns)
    while scale * scale * shape[1] > 4:
        scale /= 2
    return (u * scale).reshape(shape)


def direction(name, shape):
    """The factors that a tensor's gradient is multiplied with, element by element, for `dot`."""
    return uniform(fnv1a(name + ".dot"), int(np.prod(shape))).reshape(shape)


def sampled_row(name, rows):
    return fnv1a(name + ".row") % rows


BASE = dict(vocab_size=301, num_hidden_layers=2, max_position_embeddings=128, rms_norm_eps=1e-5,
            bos_token_id=1, eos_token_id=2, pad_token_id=0, attention_dropout=0.0)


def rope(theta=10000.0, **more):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta) | more)


def shape(hidden, ffn, heads, kv_heads, head_dim, **more):
    return BASE | dict(hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads,
                       num_key_value_heads=kv_heads, head_dim=head_dim) | more


def llama(*sizes, theta=10000.0, tied=False, scaling=None, **more):
    return hf.LlamaForCausalLM, hf.LlamaConfig(**shape(*sizes, tie_word_embeddings=tied, **more),
                                               **rope(theta, **(scaling or {})))


def mistral(*sizes, **more):
    return hf.MistralForCausalLM, hf.MistralConfig(**shape(*sizes, tie_word_embeddings=False,
                                                           sliding_window=6, **more),
                                                   **rope())


def qwen2(hidden, ffn, heads, kv_heads, head_dim, **more):
    assert hidden == heads * head_dim
    return hf.Qwen2ForCausalLM, hf.Qwen2Config(**shape(hidden, ffn, heads, kv_heads, head_dim,
                                                       tie_word_embeddings=True,
                                                       use_sliding_window=False, **more),
                                               **rope(1e6))


def qwen3(*sizes, **more):
    return hf.Qwen3ForCausalLM, hf.Qwen3Config(**shape(*sizes, tie_word_embeddings=True,
                                                       attention_bias=False,
                                                       use_sliding_window=False, **more),
                                               **rope(1e6))


def gemma3(*sizes, scalar, **more):
    return hf.Gemma3ForCausalLM, hf.Gemma3TextConfig(
        **shape(*sizes, tie_word_embeddings=True, sliding_window=8, query_pre_attn_scalar=scalar,
                layer_types=["sliding_attention", "full_attention"], attn_logit_softcapping=None,
                final_logit_softcapping=None, attention_bias=False, **more))


YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)

# NAME: hidden, ffn, heads, kv heads, head size
MODELS = {
    "llama_8": lambda: llama(72, 77, 9, 3, 8),
    "llama_20": lambda: llama(75, 61, 5, 1, 20, tied=True),
    "llama_24": lambda: llama(120, 133, 5, 5, 24, scaling=LLAMA3),
    "llama_40": lambda: llama(90, 75, 6, 3, 40, scaling=YARN),
    "llama_48": lambda: llama(288, 155, 6, 6, 48, tied=True, num_hidden_layers=1),
    # The last vocabulary tile has one column.
    "llama_100": lambda: llama(75, 133, 3, 1, 100, vocab_size=513),
    "llama_128": lambda: llama(96, 133, 3, 3, 128, theta=500000.0, vocab_size=1100),
    "mistral_72": lambda: mistral(88, 77, 6, 2, 72),
    "mistral_90": lambda: mistral(70, 51, 5, 5, 90),
    "qwen2_12": lambda: qwen2(84, 77, 7, 7, 12),
    "qwen2_22": lambda: qwen2(110, 133, 5, 1, 22),
    "qwen2_40": lambda: qwen2(280, 77, 7, 1, 40, num_hidden_layers=1),
    "qwen2_48": lambda: qwen2(240, 133, 5, 5, 48, num_hidden_layers=1),
    "qwen2_80": lambda: qwen2(240, 99, 3, 1, 80, num_hidden_layers=1, vocab_size=1100),
    "qwen3_6": lambda: qwen3(66, 77, 7, 7, 6),
    "qwen3_36": lambda: qwen3(80, 75, 3, 3, 36),
    "qwen3_96": lambda: qwen3(72, 133, 5, 1, 96),
    "qwen3_128": lambda: qwen3(100, 133, 5, 5, 128, num_hidden_layers=1),
    "gemma3_24": lambda: gemma3(72, 77, 3, 3, 24, scalar=24),
    "gemma3_88": lambda: gemma3(91, 133, 7, 1, 88, scalar=56),
    "gemma3_256": lambda: gemma3(99, 77, 3, 1, 256, scalar=256),
}


@contextlib.contextmanager
def float64_everywhere():
    """Modelling code upcasts norms, softmax and rope to float32; while this is open those names
    mean float64."""
    kept = torch.float32, torch.float, torch.Tensor.float, np.float32
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = lambda self, *a, **k: self.to(torch.float64)
    np.float32 = np.float64
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float, np.float32 = kept


def build(cls, config, weights, dtype):
    model = cls(config).to(dtype)
    for name, buffer in model.named_buffers():
        assert "inv_freq" not in name or buffer.dtype == dtype or dtype != torch.float64, name
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weights[name]))
    return model.eval()


def run(model, sequences):
    """Logits of each sequence alone; the mean loss over all predicted tokens; its gradients."""
    logits, nll, count = [], 0.0, 0
    for ids in sequences:
        z = model(input_ids=ids[None], use_cache=False).logits[0]
        logprobs = torch.log_softmax(z.to(torch.float64), -1)[:-1].gather(-1, ids[1:, None])[:, 0]
        nll, count = nll - logprobs.sum(), count + len(ids) - 1
        logits.append(z.detach().to(torch.float64))
    loss = nll / count
    loss.backward()
    return logits, loss.item(), {n: p.grad.to(torch.float64) for n, p in model.named_parameters()}


def rows_of(name, gradient):
    return gradient if gradient.dim() == 1 else gradient[sampled_row(name, gradient.shape[0])]


def noise_of(run_, truth):
    """The error of another precision: largest difference of logits, and of sampled rows in L2."""
    off = sum((rows_of(n, run_[2][n]) - rows_of(n, g)).square().sum() for n, g in truth[2].items())
    size = sum(rows_of(n, g).square().sum() for n, g in truth[2].items())
    return dict(logits=max((a - b).abs().max().item() for a, b in zip(run_[0], truth[0])),
                grad_rows=(off / size).sqrt().item())


def make(name, out):
    cls, config = MODELS[name]()
    config._attn_implementation = "eager"
    minus_one = config.model_type.startswith("gemma3")
    names = [(n, tuple(p.shape)) for n, p in cls(config).named_parameters()]
    weights = {n: weight_rule(n, s, minus_one) for n, s in names}
    shares = [(uniform(fnv1a(f"{name}.seq{i}"), n) + 1) / 2 for i, n in enumerate(LENS)]
    sequences = [torch.from_numpy((share * (config.vocab_size - 3)).astype(np.int64) + 3)
                 for share in shares]
    with float64_everywhere():
        truth = run(build(cls, config, weights, torch.float64), sequences)
    tensors, facts = {}, {}
    for i, ids in enumerate(sequences):
        rows = torch.tensor([0, len(ids) // 2, len(ids) - 1])
        logprobs = torch.log_softmax(truth[0][i], -1)
        tensors[f"seq{i}.input_ids"] = ids.to(torch.int32)
        tensors[f"seq{i}.rows"] = rows.to(torch.int32)
        tensors[f"seq{i}.logits"] = truth[0][i][rows].float()
        tensors[f"seq{i}.logprobs"] = logprobs[:-1].gather(-1, ids[1:, None])[:, 0]
    for n, g in truth[2].items():
        tensors["grad." + n] = rows_of(n, g).float()
        facts[n] = dict(sum=float(weights[n].sum()), grad_l2=g.norm().item(),
                        grad_max=g.abs().max().item(),
                        grad_dot=(g * torch.from_numpy(direction(n, tuple(g.shape)))).sum().item())
        if g.dim() > 1:
            facts[n]["row"] = sampled_row(n, g.shape[0])
    noise = {}
    for t in (torch.float32, torch.bfloat16):
        rounded = run(build(cls, config, weights, t), sequences)
        noise[str(t).removeprefix("torch.")] = noise_of(rounded, truth)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config.architectures, config.dtype = [cls.__name__], torch.float32
    config.to_json_file(folder / "config.json", use_diff=False)
    write_config(folder / "config.json")
    save_file({k: tensors[k].contiguous() for k in sorted(tensors)}, folder / "golden.safetensors")
    golden = dict(loss=truth[1], noise=noise, tensors=facts)
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{name}: loss {truth[1]:.3f}, logit std {truth[0][0].std():.2f}", noise, flush=True)


KEPT = ("architectures", "model_type", "vocab_size", "hidden_size", "intermediate_size",
        "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act",
        "hidden_activation", "rms_norm_eps", "max_position_embeddings", "rope_parameters",
        "tie_word_embeddings", "sliding_window", "use_sliding_window", "layer_types",
        "query_pre_attn_scalar", "attention_bias", "mlp_bias", "bos_token_id", "eos_token_id",
        "pad_token_id")


def write_config(path):
    """Only the settings that affect the arithmetic or the vocabulary."""
    config = json.loads(path.read_text())
    config = {k: config[k] for k in KEPT if k in config} | {"dtype": "float32"}
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    args = parser.parse_args()
    for name in args.names or MODELS:
        make(name, args.out)


if __name__ == "__main__":
    main()
