#!/usr/bin/env python3
"""Merges probe results into the demo's summary.json and prints the closing summary.

usage: demo_summary.py OUT_DIRECTORY PROBE_JSON...

The best figure of all probe files is the machine's limit: F FLOP/s (a multiply-add
is two), W bytes read per second. With P matmul parameters (head included; H of them in the head), k
bytes of keys and values per token, B sequences at mean context c, L layers and attention width
a = heads x head size:

    rollout limit = B / (B c k / W + max(2 P / W, 2 P B / F))   generated tokens per second
    train limit   = F / (6 (P - H + s H) + 6 S L a)             trained tokens per second,
                                                                S tokens per sample

s is the fraction of trained tokens that carry loss: the head runs only on those.

A run that was interrupted or too short has null figures; these and everything computed from them
are "not known". Exit status 1 if a fraction is above 1: then a probe or a count of tokens is wrong.
"""
import json
import pathlib
import sys

# SmolLM2-135M: layers, hidden size, query heads, key/value heads, head size, feed-forward size,
# vocabulary.
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, FFN, VOCAB = 30, 576, 9, 3, 64, 1536, 49152
ATTENTION = HEADS * HEAD_SIZE
QKV_WIDTH = (HEADS + 2 * KV_HEADS) * HEAD_SIZE
LAYER_PARAMETERS = HIDDEN * QKV_WIDTH + ATTENTION * HIDDEN + 3 * HIDDEN * FFN
PARAMETERS = LAYERS * LAYER_PARAMETERS + VOCAB * HIDDEN
KV_BYTES = 2 * LAYERS * KV_HEADS * HEAD_SIZE * 2

# The demo's shape: 8 prompts x 8 samples; a prompt has about 44 tokens, a response at most 32.
SEQUENCES, PROMPT_TOKENS, MAX_NEW_TOKENS = 64, 44, 32
MEAN_CONTEXT = PROMPT_TOKENS + MAX_NEW_TOKENS // 2


def rollout_limit(flops, read_bytes):
    products = max(2 * PARAMETERS / read_bytes, SEQUENCES * 2 * PARAMETERS / flops)
    attention = SEQUENCES * MEAN_CONTEXT * KV_BYTES / read_bytes
    return SEQUENCES / (products + attention)


def work_shares(out):
    """Per trained token of the whole run, from metrics.jsonl: rows computed (a shared prompt counts
    once), and tokens that carry loss."""
    path = out / "metrics.jsonl"
    if not path.is_file():
        return 1.0, 1.0
    steps = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    trained = sum(step["training/tokens"] for step in steps)
    if not trained:
        return 1.0, 1.0
    return tuple(sum(step[f"training/{name}"] for step in steps) / trained
                 for name in ("computed_rows", "loss_tokens"))


def train_limit(flops, shares):
    rows, loss = shares
    layers = rows * (6 * LAYERS * LAYER_PARAMETERS + 6 * MEAN_CONTEXT * LAYERS * ATTENTION)
    return flops / (layers + loss * 6 * VOCAB * HIDDEN)


def merge(summary, probes, shares):
    flops = max(probe["matmul_flops"] for probe in probes)
    read_bytes = max(probe["read_bytes_per_s"] for probe in probes)
    summary["probe_matmul_flops"] = flops
    summary["probe_read_bytes_per_s"] = read_bytes
    limits = {"rollout": rollout_limit(flops, read_bytes), "train": train_limit(flops, shares)}
    for name, limit in limits.items():
        rate = summary[f"{name}_tokens_per_s"]
        summary[f"{name}_fraction"] = None if rate is None else rate / limit


class Figures(dict):
    """The summary's figures as text: figures["key", ".2f"] formats a number, a null is "not
    known"."""

    def __getitem__(self, key_and_form):
        key, form = key_and_form
        value = self.get(key)
        return "not known" if value is None else format(value, form)

    def mebibytes(self, key):
        value = self.get(key)
        return "not known" if value is None else f"{value / 2**20:,.0f} MiB"


def print_summary(summary, out):
    s = Figures(summary)
    accuracy = f"{s['accuracy_before', '.3f']} -> {s['accuracy_after', '.3f']}"
    lines = [
        ("held-out accuracy", f"{accuracy} (greedy, all held-out questions)"),
        ("mean reward",
         f"{s['reward_first', '.3f']} -> {s['reward_last', '.3f']} (first and last five steps)"),
        ("seconds per step", f"{s['step_s_median', '.2f']} (median of {s['steps', '']}); "
                           f"first step done after {s['first_step_end_s', '.1f']}"),
        ("rollout", f"{s['rollout_tokens_per_s', '.0f']} tokens/s = "
                    f"{s['rollout_fraction', '.2f']} of the machine's limit"),
        ("training", f"{s['train_tokens_per_s', '.0f']} tokens/s = "
                     f"{s['train_fraction', '.2f']} of the machine's limit"),
        ("limits measured", f"{summary['probe_matmul_flops'] / 1e9:.0f} GFLOP/s, "
                            f"{summary['probe_read_bytes_per_s'] / 1e9:.1f} GB/s read"),
        ("log-prob difference",
         f"{s['logprob_max_abs_diff', 'g']} (largest, rollout against trainer)"),
        ("peak memory", f"{s.mebibytes('peak_rss_bytes')}, planned {s.mebibytes('planned_bytes')}"),
        ("weight digest",
         f"{s['weight_digest', '']} (seed {s['seed', '']}, {s['threads', '']} threads)"),
        ("wall time", f"{s['wall_s', '.0f']} s"),
        ("metrics", out / "metrics.jsonl"),
        ("trace", out / "trace.json"),
        ("model", out / "model"),
        ("summary", out / "summary.json"),
    ]
    print()
    for name, text in lines:
        print(f"{name:>20}  {text}")


def main(directory, probe_paths):
    out = pathlib.Path(directory)
    path = out / "summary.json"
    summary = json.loads(path.read_text(encoding="utf-8"))
    merge(summary, [json.loads(pathlib.Path(p).read_text(encoding="utf-8")) for p in probe_paths],
          work_shares(out))
    path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    print_summary(summary, out)
    over = [key for key in ("rollout_fraction", "train_fraction") if (summary[key] or 0) > 1]
    for key in over:
        print(f"{key} is {summary[key]:.3f}: above the measured limit, so a probe or a count is "
              "wrong", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: demo_summary.py OUT_DIRECTORY PROBE_JSON...")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
