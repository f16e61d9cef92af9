"""The least time that each op can take on an H200: bytes that it has to move, and operations.

The shape is Qwen3-8B in bf16, 8,192 rows in sequences of 1,024 tokens for training and prefill, and
for decode 256 sequences with a context of 4,096. Weights, inputs and results are counted once.
"""
BANDWIDTH = 4.3e12  # bytes per second, read and written by a copy
TENSOR = 790e12     # bf16 operations per second of a large product

C, F, H, KH, D, V, N = 4096, 12288, 32, 8, 128, 151936, 8192
T, CONTEXT, DECODE, P = 1024, 4096, 256, 16
HEAD_ROWS = 2048          # rows of one chunk of the head
FLOATS = 1_000_000_000    # of an optimizer's array
QKV = (H + 2 * KH) * D


def product(rows, k, n, out=4):
    """Bytes and operations of y = x W^T in bf16; `out`: bytes of an element of y."""
    return rows * k * 2 + n * k * 2 + rows * n * out, 2 * rows * k * n


def plus(cost, more_bytes):
    return cost[0] + more_bytes, cost[1]


# Op -> what is counted, (bytes, operations). None: nothing that a GPU computes.
COSTS = {
    "embed_rows": ("rows", (N * C * 10, 0)),
    "project_qkv": ("rows", product(N, C, QKV, 2)),
    "copy_partial_blocks": ("a block of each sequence", (DECODE * KH * D * P * 8, 0)),
    "attend": ("decode, one layer", (DECODE * CONTEXT * KH * D * 4, 4 * DECODE * CONTEXT * H * D)),
    "project_residual": ("rows", plus(product(N, H * D, C, 4), N * C * 6)),
    "add_residual": ("rows", (N * C * 14, 0)),
    "project_gated": ("rows", plus(product(N, C, 2 * F, 2), N * F * 2)),
    "gather_rows": ("rows", (N * C * 4, 0)),
    "scatter_add_rows": ("rows", (N * C * 12, 0)),
    "head_logits": ("rows of a chunk", product(HEAD_ROWS, C, V)),
    "combine_tiles": ("rows of a chunk", (HEAD_ROWS * (V // 512 * 12 + 16), 0)),
    "head_logprobs": ("rows of a chunk", (HEAD_ROWS * 40, 0)),
    "distill_rows": ("rows of a chunk", (HEAD_ROWS * V * 12, 0)),
    "head_logits_backward": ("rows of a chunk", (HEAD_ROWS * V * 6, 0)),
    "sample_rows": ("a decode step", (DECODE * V * 4, 0)),
    "value_rows": ("rows", (N * C * 2, 0)),
    "value_rows_backward": ("rows", (N * C * 10, 0)),
    "project": ("rows, F to C", product(N, F, C)),
    "weight_gradient": ("F x C", ((N * F + N * C) * 2 + F * C * 8, 2 * N * F * C)),
    "norm_rows": ("rows", (N * C * 6, 0)),
    "norm_rows_backward": ("rows", (N * C * 16, 0)),
    "round_floats": ("rows", (N * C * 6, 0)),
    "glu_rows": ("rows", (N * F * 6, 0)),
    "project_gated_backward": ("rows", plus(product(N, C, F, 4), N * F * 4)),
    "attend_backward": ("rows, one layer", (N * (3 * H + 4 * KH) * D * 4, 10 * N * T // 2 * H * D)),
    "rope_rows_backward": ("rows", (N * QKV * 6, 0)),
    "bias_gradient": ("rows", (N * QKV * 4, 0)),
    "embed_rows_backward": ("rows", (N * C * 12, 0)),
    "read_floats": ("the host's link", None),
    "pack_rows": ("F x C", (F * C * 6, 0)),
    "pack_columns": ("F x C", (F * C * 6, 0)),
    "unpack_rows": ("F x C", (F * C * 6, 0)),
    "prepare_gradient": ("nothing to make", None),
    "zero_floats": ("1e9 floats", (FLOATS * 4, 0)),
    "copy_bytes": ("4e9 bytes", (FLOATS * 8, 0)),
    "copy_columns": ("rows of a chunk", (HEAD_ROWS * V * 8, 0)),
    "squared_norm": ("1e9 floats", (FLOATS * 4, 0)),
    "square_chunk": ("65,536 floats", (65536 * 4, 0)),
    "adamw": ("1e9 parameters", (FLOATS * 28, 0)),
    "adamw_bf16": ("1e9 parameters", (FLOATS * 20, 0)),
    "adamw_int8": ("1e9 parameters", (FLOATS * 16, 0)),
    "scale_add": ("1e9 floats", (FLOATS * 12, 0)),
    "transpose_rows": ("F x C", (F * C * 6, 0)),
    "average_floats": ("1e9 floats", (FLOATS * 12, 0)),
    "exchange_floats": ("1e9 floats", (FLOATS * 16, 0)),
    "add_rounded": ("1e9 floats", (FLOATS * 12, 0)),
    "widen_bf16": ("1e9 floats", (FLOATS * 6, 0)),
}


def quantity(value):
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return str(value)


def row(op):
    """The cells: what, bytes, operations, microseconds, what limits it."""
    what, cost = COSTS[op]
    if cost is None:
        return [what, "", "", ""]
    moved, operations = cost
    seconds = max(moved / BANDWIDTH, operations / TENSOR)
    limit = "bytes" if moved / BANDWIDTH >= operations / TENSOR else "operations"
    return [what, quantity(moved), quantity(operations) if operations else "",
            f"{seconds * 1e6:.3g} ({limit})"]
