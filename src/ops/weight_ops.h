// The ops that fill and copy memory: packed matrices, weights read from a file, bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/checked.h"
#include "core/function_ref.h"
#include "ops/packed_matrix.h"

namespace rl {

// Reads out.size() fp32 values from place `from` of a source, whole rows of a matrix, into memory
// of the host. Callable from any thread.
using FloatReader = FunctionRef<void(int64_t from, std::span<float> out)>;

struct FloatRun {
  int64_t from;  // place in the source
  float* to;
  int64_t count;
};
// Fills every run from the source.
struct ReadFloatsArgs {
  std::span<const FloatRun> runs;
  const FloatReader* read;  // null: the source is memory of the device
  const float* from;        // its place 0; null with read
};

// Packs y = x W^T: W is n rows of k floats, from place `from` of the source on. If the matrix has
// two halves side by side in a slice (SliceCut), a slice takes its rows from the first half of W,
// then the same rows of the second.
struct PackRowsArgs {
  const PackedShape& shape;
  std::byte* bytes;
  PackedMatrix& out;
  const float* rows;        // in memory: the place `from` itself; null: they are read
  int64_t from;             // used by `read`
  const FloatReader* read;  // null with rows
  // pack_staging_bytes() for what is read; empty with rows. Each thread has staging_floats of it,
  // at least those of the largest slice.
  std::span<float> staging;
  int64_t staging_floats;
};
inline uint64_t pack_staging_bytes(int64_t staging_floats, int num_threads) {
  return (CheckedU64(static_cast<uint64_t>(num_threads)) *
          CheckedU64(static_cast<uint64_t>(staging_floats)) * CheckedU64(sizeof(float)))
      .get();
}

// Packs y = x W: w is [k, n] fp32, row-major.
struct PackColumnsArgs {
  const PackedShape& shape;
  std::byte* bytes;
  PackedMatrix& out;
  const float* w;
};

// The rows of a matrix that pack_rows() has packed, as products read them: each value of W rounded
// to the compute dtype. Packed again they have the same bytes, also by pack_columns().
struct UnpackRowsArgs {
  const PackedMatrix& from;
  float* rows;  // (n, k)
};

// Makes every kernel that gradients [n, k] will need, so that no step makes one.
struct PrepareGradientArgs {
  int64_t n, k;
  int64_t dy_stride = 0;  // as in WeightGradientArgs
};

struct ZeroFloatsArgs {
  float* to;
  int64_t count;
};
// Each side may be memory of the host or of the device. The bytes are there when it returns, if
// `to` is memory of the host.
struct CopyBytesArgs {
  const void* from;
  void* to;
  uint64_t bytes;
};

// The first `bytes` bytes of every row go to the same row of a matrix whose rows may be wider or
// narrower. What is read and what is written do not overlap. Any sizes; multiples of 8 are fastest.
struct CopyColumnsArgs {
  const std::byte* from;
  uint64_t from_row_bytes;
  std::byte* to;
  uint64_t to_row_bytes;
  int64_t rows;
  uint64_t bytes;
};

}  // namespace rl
