// The ops of an optimizer step, over whole flat arrays. The arithmetic is algo/optimizers/adamw.h.
// Arrays are taken in chunks of kOptimizerChunk floats, whole blocks of the norm; the squares of
// the chunks are added in order, in double.
#pragma once
#include <cstdint>
#include <span>

#include "algo/optimizers/adamw.h"

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

struct AdamwArgs {
  const AdamwStep& step;
  float *param, *m, *v;
  const float* grad;
  int64_t count;
};

}  // namespace rl
