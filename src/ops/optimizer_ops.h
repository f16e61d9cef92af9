// The ops of an optimizer step, over whole flat arrays, with the arithmetic of algo/optimizers.
//
// Arrays are taken in chunks of kOptimizerChunk floats, whole blocks of the norm; the squares of
// the chunks are added in order, in double.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "algo/optimizers/adamw.h"
#include "algo/optimizers/ema.h"
#include "algo/optimizers/low_bit_adamw.h"
#include "algo/optimizers/rounded_sum.h"
#include "algo/optimizers/scale_add.h"

namespace rl {

constexpr int64_t kOptimizerChunk = 16 * kGradNormBlock;
constexpr int64_t num_optimizer_chunks(int64_t floats) {
  return (floats + kOptimizerChunk - 1) / kOptimizerChunk;
}

struct SquaredNormArgs {
  const float* values;
  int64_t count;
  std::span<double> chunk_sums;  // num_optimizer_chunks(count)
  double& sum;                   // of squares
};

// The sum of squares of a chunk whose values are in the memory of the host, with the bits that
// squared_norm() has for it.
struct SquareChunkArgs {
  std::span<const float> values;  // up to kOptimizerChunk
  double& sum;
};

struct AdamwArgs {
  const AdamwStep& step;
  float *param, *m, *v;
  const float* grad;
  int64_t count;
};

// The same with moments in fewer bits, algo/optimizers/low_bit_adamw.h. Chunks are whole blocks of
// random words and of scales.
struct AdamwBf16Args {
  const AdamwStep& step;
  const RoundingKey& rounding;
  AdamwBf16Arrays all;
};
struct AdamwInt8Args {
  const AdamwStep& step;
  const RoundingKey& rounding;
  AdamwInt8Arrays all;
};

// y = y_scale * y + x_scale * x, algo/optimizers/scale_add.h.
struct ScaleAddArgs {
  ScaleAdd all;
  int64_t count;
};

// to (columns, rows) in the compute dtype = the rows of `from` (rows, columns), rounded.
struct TransposeRowsArgs {
  const float* from;
  int64_t rows, columns;
  std::byte* to;
};

// averages = averages + (1 - decay) * (weights - averages), algo/optimizers/ema.h.
struct AverageFloatsArgs {
  double decay;
  const float* weights;
  float* averages;
  int64_t count;
};

// to += from in bf16, and from = 0, algo/optimizers/rounded_sum.h. With rows, row r of `from` (its
// size, width) goes to row rows[r] of `to`, and index is that of row 0 there; rows are distinct.
// Without, all.count elements go to the same places.
struct AddRoundedArgs {
  const RoundingKey& rounding;
  RoundedSum all;
  std::span<const int32_t> rows = {};
  int64_t width = 0;
};

// to[i] = from[i], a bf16.
struct WidenBf16Args {
  const uint16_t* from;
  float* to;
  int64_t count;
};

// Two arrays that do not overlap take each other's content.
struct ExchangeFloatsArgs {
  float* a;
  float* b;
  int64_t count;
};

}  // namespace rl
