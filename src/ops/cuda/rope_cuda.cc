// The host has the table of angles. Of it a batch takes the rows between its first and last
// position, or the rows of its tokens if these are fewer.
#include "ops/cuda/rope_cuda.h"

#include <algorithm>
#include <vector>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/kernels/rows/rope_kv_kernels.h"
#include "ops/cuda/kernels/rows/vector_gradients_kernels.h"

namespace rl::cuda {
namespace {

HeadsOfRow heads_of_row(const AttentionShape& s) {
  return {s.heads, s.kv_heads, s.head_dim, s.padded_dim(), s.block_size, s.dtype, s.kv_dtype};
}

HeadNorms head_norms(const HeadNorm* norm) {
  if (norm == nullptr) return {};
  return {{norm->q, norm->eps, norm->weight}, {norm->k, norm->eps, norm->weight}};
}

// cos or sin of the positions, a row of `half` for each.
const float* upload_rows(CudaCompute& gpu, const std::vector<float>& table, int64_t half,
                         std::span<const RowPlace> places) {
  std::vector<float> rows;
  rows.reserve(places.size() * static_cast<size_t>(half));
  for (const RowPlace& place : places) {
    const auto first = table.begin() + place.position * half;
    rows.insert(rows.end(), first, first + half);
  }
  return gpu.upload_table(rows);
}

Angles upload_angles(CudaCompute& gpu, const RopeTable& table, std::span<const RowPlace> places) {
  if (places.empty()) return {};
  const auto [first, last] = std::ranges::minmax(places, {}, &RowPlace::position);
  const int64_t positions = int64_t{last.position} - first.position + 1;
  const bool range = positions <= static_cast<int64_t>(places.size());
  std::vector<RowTurn> turns;
  turns.reserve(places.size());
  for (const RowPlace& place : places) {
    const int32_t angle =
        range ? place.position - first.position : static_cast<int32_t>(turns.size());
    turns.push_back({place.position, place.block, angle});
  }
  const auto rows_of = [&](const std::vector<float>& all) {
    if (!range) return upload_rows(gpu, all, table.half, places);
    return gpu.upload_table(
        std::span<const float>(all).subspan(static_cast<size_t>(first.position * table.half),
                                            static_cast<size_t>(positions * table.half)));
  };
  return {gpu.upload_table(turns), rows_of(table.cos), rows_of(table.sin)};
}

std::span<const RowPlace> places_of(const RowPlace* places, int64_t rows) {
  return {places, static_cast<size_t>(rows)};
}

// Adds the sums of the parts of every shared prefix to its rows.
void add_sums(CudaCompute& gpu, const BackwardWork& work, float* to, const AttentionShape& s) {
  std::vector<PrefixSums> prefixes;
  std::vector<const float*> parts;
  work.for_each_part([&](int64_t first_row, int64_t rows, const float* sums) {
    const auto part = static_cast<int32_t>(parts.size());
    if (prefixes.empty() || prefixes.back().first_row != first_row)
      prefixes.push_back({static_cast<int32_t>(first_row), static_cast<int32_t>(rows), part, part});
    prefixes.back().end_part = part + 1;
    parts.push_back(sums);
  });
  add_prefix_sums(gpu.stream(), {.prefixes = gpu.upload_table(prefixes),
                                 .count = static_cast<int64_t>(prefixes.size()),
                                 .parts = gpu.upload_table(parts),
                                 .width = 2 * s.kv_heads * s.head_dim,
                                 .to = to + s.heads * s.head_dim,
                                 .stride = (s.heads + 2 * s.kv_heads) * s.head_dim});
}

// From rotated gradients, before the norms' backward changes them.
void head_norm_gradients(CudaCompute& gpu, const RopeRowsBackwardArgs& a,
                         const RopeBackwardParams& p) {
  if (a.q_norm_grad == nullptr && a.k_norm_grad == nullptr) return;
  const HeadsOfRow& s = p.shape;
  head_norm_sums(gpu.stream(), {p.dqkv, p.qkv, p.inverse, (s.heads + 2 * s.kv_heads) * s.head_dim,
                                p.rows, s.heads, s.kv_heads, s.head_dim, a.partial});
  const auto add = [&](const float* sums, float* grad) {
    if (grad == nullptr) return;
    add_chunks(gpu.stream(), {sums, num_gradient_chunks(p.rows), 2 * s.head_dim, s.head_dim, grad});
  };
  add(a.partial, a.q_norm_grad);
  add(a.partial + s.head_dim, a.k_norm_grad);
}

}  // namespace

void rope_and_write_kv(CudaCompute& gpu, const RopeKvArgs& a) {
  rope_and_write_kv(gpu.stream(),
                    {.shape = heads_of_row(a.shape),
                     .qkv = a.qkv,
                     .stride = a.stride,
                     .bias = a.bias,
                     .norms = head_norms(a.norm),
                     .angles = upload_angles(gpu, *a.table, places_of(a.places, a.rows)),
                     .q = a.q,
                     .pool = a.pool,
                     .rows = a.rows,
                     .first_head = a.first_head,
                     .end_head = a.end_head});
}

void copy_partial_blocks(Compute& compute, const CopyPartialBlocksArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const int64_t size = a.shape.block_size;
  std::vector<PartialBlock> blocks;
  for (const SequenceRows& s : a.sequences) {
    if (s.prefix_sequence < 0 || s.first_position % size == 0) continue;
    const int64_t at = s.first_position / size;
    const SequenceRows& prefix = a.sequences[static_cast<size_t>(s.prefix_sequence)];
    blocks.push_back(
        {prefix.blocks[at], s.blocks[at], static_cast<int32_t>(s.first_position % size)});
  }
  copy_partial_blocks(gpu.stream(), {heads_of_row(a.shape), a.pool, gpu.upload_table(blocks),
                                     static_cast<int64_t>(blocks.size())});
}

void rope_rows_backward(Compute& compute, const RopeRowsBackwardArgs& a) {
  CudaCompute& gpu = cuda_of(compute);
  const RopeBackwardArgs& r = a.rope;
  const int64_t normed_heads = r.norm != nullptr ? r.rows * (r.shape.heads + r.shape.kv_heads) : 0;
  add_sums(gpu, a.work, r.dqkv, r.shape);
  const RopeBackwardParams p = {.shape = heads_of_row(r.shape),
                                .dqkv = r.dqkv,
                                .angles = upload_angles(gpu, *r.table, places_of(r.places, r.rows)),
                                .norms = head_norms(r.norm),
                                .qkv = r.qkv,
                                .inverse = gpu.scratch<float>(normed_heads),
                                .pull = gpu.scratch<float>(normed_heads),
                                .rows = r.rows};
  rope_rows_backward(gpu.stream(), p);
  if (r.norm != nullptr) head_norm_gradients(gpu, a, p);
  round_head_gradients(gpu.stream(), {p, r.dqkv_rounded});
}

}  // namespace rl::cuda
