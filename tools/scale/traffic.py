"""The bytes that the ranks of a layout send each other: the formulas of docs/parallel.md. Each
function gives what all ranks of its group send together; the counters comm/... of a run have the
part of each, and tests/scale compares their sums."""

F32 = 4
NORM_CHUNK = 65536  # elements whose squares are added together
TILE, TILE_UNIT = 512, 16  # tokens of a vocabulary tile: the most, and what divides their number
TILE_BYTES = 12  # of what a tile's logits come to
CHOICE_BYTES = 176  # of a token that was sampled


def gradients(parameters, ranks, zero):
    """Of an optimizer step: an all-reduce, or from stage 2 on a reduce-scatter."""
    return F32 * parameters * (ranks - 1) * (2 if zero < 2 else 1)


def norm_parts_most(ranks, zero):
    """Of an optimizer step, besides: from stage 2 on the ranks of a chunk of the norm give the
    first of them what they have of it. At most one chunk for each border between pieces, which the
    prediction leaves out."""
    return F32 * NORM_CHUNK * (ranks - 1) if zero >= 2 else 0


def parameters_gathered(parameters, ranks, zero, matrices=0, item=2):
    """Of an optimizer step: from stage 1 on each rank has the others' updated pieces, at stage 3 of
    the weights in the layers' matrices what the others have packed, an item each."""
    if zero == 3:
        return (F32 * (parameters - matrices) + item * matrices) * (ranks - 1)
    return F32 * parameters * (ranks - 1) if zero >= 1 else 0


def tied_embedding(shape, stages):
    """Of an optimizer step: the last stage gives the first its gradient of the shared matrix."""
    return F32 * shape.head_weights if shape.tied and stages > 1 else 0


def stage_rows(shape, stages, rows):
    """Of `rows` that are trained on: residuals go on and gradients come back over each border.
    With a tied embedding the first stage sends the last its gradients of embedded rows too."""
    borders = 2 * (stages - 1) + (1 if shape.tied and stages > 1 else 0)
    return borders * F32 * shape.hidden * rows


def context_layer(shape, ranks, rows, blocks, block_bytes):
    """Of a micro-batch in one layer with parallel.context_kind = all_gather: keys and values of
    `blocks`, and their gradients."""
    return (ranks - 1) * (blocks * block_bytes + rows * 2 * shape.kv_heads * shape.head_dim * F32)


def tensor_layer(shape, ranks, rows):
    """Of `rows` in one layer: four sums of the residual or its gradient, as all-reduces. With more
    parts than ranks it is more (docs/parallel.md)."""
    return 4 * all_reduce(ranks, F32 * shape.hidden * rows)


def all_reduce(ranks, size):
    """Of `size` bytes on each rank."""
    return 2 * (ranks - 1) * size


def tensor_embedding(shape, ranks, rows):
    """Of `rows`: each comes from the rank that has its token."""
    return all_reduce(ranks, F32 * shape.hidden * rows)


def tile_statistics(shape, ranks, rows):
    """Of a part of the vocabulary for each rank."""
    width = min(TILE, shape.vocab // ranks // TILE_UNIT * TILE_UNIT) if ranks > 1 else TILE
    return (ranks - 1) * rows * -(-shape.vocab // width) * TILE_BYTES


def tensor_head(shape, ranks, rows):
    """Of `rows` with loss: statistics of tiles, log-probs, and the sum of the gradients of what the
    head read."""
    return (tile_statistics(shape, ranks, rows) + all_reduce(ranks, F32 * rows)
            + all_reduce(ranks, F32 * shape.hidden * rows))


def tensor_norm(ranks):
    """Of an optimizer step: a number of each rank, to all others."""
    return 8 * ranks * (ranks - 1)


def tensor_sampling(shape, ranks, rows):
    """Of `rows` from which tokens are sampled: statistics of tiles, all logits of a row to the rank
    that samples from it, and what it chose to all."""
    logits = F32 * shape.vocab * rows * (ranks - 1) / ranks
    return tile_statistics(shape, ranks, rows) + logits + all_reduce(ranks, CHOICE_BYTES * rows)
