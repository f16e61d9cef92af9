// A block has kColumns columns of one chunk.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/kernel.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/rows/vector_gradients_kernels.h"

namespace rl::cuda {
namespace {

constexpr int kColumns = 128;  // a thread each

constexpr int64_t num_column_blocks(int64_t width) { return (width + kColumns - 1) / kColumns; }
LaunchShape chunk_blocks(int64_t rows, int64_t width) {
  return {num_vector_gradient_chunks(rows) * num_column_blocks(width), kColumns};
}

// The chunk and the column of the calling thread, which may be past the last.
struct ChunkColumn {
  int64_t chunk, column, first_row, end_row;
};
RL_DEVICE ChunkColumn chunk_column(int64_t rows, int64_t width) {
  const int64_t blocks = num_column_blocks(width), chunk = block_x() / blocks;
  const int64_t first = chunk * kVectorGradientRows, end = first + kVectorGradientRows;
  return {chunk, block_x() % blocks * kColumns + thread_index(), first, end < rows ? end : rows};
}

RL_KERNEL void column_sums_kernel(ColumnSumsParams p) {
  const ChunkColumn at = chunk_column(p.rows, p.width);
  if (at.column >= p.width) return;
  float sum = 0;
  for (int64_t row = at.first_row; row < at.end_row; ++row) sum += p.dy[row * p.stride + at.column];
  p.partial[at.chunk * p.width + at.column] = sum;
}

RL_KERNEL void norm_weight_sums_kernel(NormWeightSumsParams p) {
  const ChunkColumn at = chunk_column(p.rows, p.width);
  if (at.column >= p.width) return;
  float sum = 0;
  for (int64_t row = at.first_row; row < at.end_row; ++row) {
    const int64_t i = row * p.width + at.column;
    sum = fma_rn(p.dy[i] * p.x[i], p.inverse[row], sum);
  }
  p.partial[at.chunk * p.width + at.column] = sum;
}

RL_KERNEL void head_norm_sums_kernel(HeadNormSumsParams p) {
  const int64_t width = 2 * p.head_dim;
  const ChunkColumn at = chunk_column(p.rows, width);
  if (at.column >= width) return;
  const bool of_queries = at.column < p.head_dim;
  const int64_t first_head = of_queries ? 0 : p.heads,
                end_head = of_queries ? p.heads : p.heads + p.kv_heads;
  const int64_t component = at.column % p.head_dim;
  float sum = 0;
  for (int64_t row = at.first_row; row < at.end_row; ++row) {
    for (int64_t head = first_head; head < end_head; ++head) {
      const int64_t i = row * p.stride + head * p.head_dim + component;
      sum = fma_rn(p.dy[i] * p.x[i], p.inverse[row * (p.heads + p.kv_heads) + head], sum);
    }
  }
  p.partial[at.chunk * width + at.column] = sum;
}

RL_KERNEL void add_chunks_kernel(AddChunksParams p) {
  const int64_t column = block_x() * kColumns + thread_index();
  if (column >= p.width) return;
  float sum = p.grad[column];
  for (int64_t chunk = 0; chunk < p.chunks; ++chunk) sum += p.partial[chunk * p.stride + column];
  p.grad[column] = sum;
}

}  // namespace

void column_sums(cudaStream_t stream, const ColumnSumsParams& params) {
  launch("column_sums", column_sums_kernel, chunk_blocks(params.rows, params.width), stream,
         params);
}
void norm_weight_sums(cudaStream_t stream, const NormWeightSumsParams& params) {
  launch("norm_weight_sums", norm_weight_sums_kernel, chunk_blocks(params.rows, params.width),
         stream, params);
}
void head_norm_sums(cudaStream_t stream, const HeadNormSumsParams& params) {
  launch("head_norm_sums", head_norm_sums_kernel, chunk_blocks(params.rows, 2 * params.head_dim),
         stream, params);
}
void add_chunks(cudaStream_t stream, const AddChunksParams& params) {
  launch("add_chunks", add_chunks_kernel, LaunchShape{num_column_blocks(params.width), kColumns},
         stream, params);
}

}  // namespace rl::cuda
