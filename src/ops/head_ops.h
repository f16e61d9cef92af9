// The ops between hidden states and log-probs or values. Contracts of the arithmetic: ops/logprob.h
// for logits; values are below.
//
// A value is v = h . w, with h in the compute dtype and w in fp32. Reduction order: kValueLanes
// fp32 partial sums, lane j over columns j, j + kValueLanes, ... ascending; then the upper half of
// the lanes is added to the lower until one is left. The gradient of a column of w is summed in row
// order. Neither depends on chunks or threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "algo/losses/distill.h"
#include "ops/logprob.h"
#include "ops/packed_matrix.h"

namespace rl {

// The factor that scales logits at this temperature (> 0), in sampling and in training alike.
inline float inverse_temperature(float temperature) { return 1.0f / temperature; }

// to[i] = from[rows[i]], rows of `row_bytes` bytes.
struct GatherRowsArgs {
  const std::byte* from;
  std::span<const int32_t> rows;
  uint64_t row_bytes;
  std::byte* to;
};

// to[rows[i]] += from[i], rows of `width` floats; rows may repeat and are added in order.
struct ScatterAddRowsArgs {
  const float* from;
  std::span<const int32_t> rows;
  int64_t width;
  float* to;
};

// Tempered logits of the rows, and their statistics.
struct HeadLogitsArgs {
  const PackedMatrix& w;                   // its slices are the vocabulary tiles
  const std::byte* x;                      // (rows, C) compute dtype
  std::span<const float> inv_temperature;  // (rows)
  float* z;                                // (rows, V)
  TileStats* tiles;                        // (rows, slices)
  RowStats* stats;                         // (rows)
  // Where parts of the columns begin and the last one ends (VocabularyCut); empty: one part. Where
  // bits depend on how many columns a product has, each part is a product of its own.
  std::span<const int64_t> parts = {};
};

// The statistics of rows whose tiles have been measured elsewhere.
struct CombineTilesArgs {
  const TileStats* tiles;  // (rows, count)
  RowStats* stats;         // (rows)
  int64_t rows, count;
};

// logprobs[i] = log-prob of ids[i] in row i, and the row's entropy in nats.
struct HeadLogprobsArgs {
  const float* z;         // (rows, V)
  const RowStats* stats;  // (rows)
  int64_t vocab;
  std::span<const int32_t> ids;
  std::span<float> logprobs;
  std::span<float> entropies;  // or empty
};

// Compares the rows of two heads (algo/losses/distill.h): value[i] is the divergence of row i, and
// the teacher's logits become coef * weight[i] times its derivative in the student's. A row of
// weight 0 has value 0 and no derivative.
struct DistillRowsArgs {
  const DistillParams& params;
  double coef;
  std::span<const double> weight;  // (rows)
  int64_t vocab;
  const float* student;           // (rows, V)
  const RowStats* student_stats;  // (rows)
  float* teacher;                 // (rows, V)
  const RowStats* teacher_stats;  // (rows)
  std::span<double> value;        // (rows)
};

// Gradients of the logits of some tokens, rounded to the compute dtype.
struct HeadLogitsBackwardArgs {
  const float* z;         // (rows, V)
  const RowStats* stats;  // (rows)
  int64_t vocab;
  std::span<const int32_t> ids;            // (rows)
  std::span<const float> d_logprob;        // (rows)
  std::span<const float> d_entropy;        // (rows)
  std::span<const float> inv_temperature;  // (rows)
  const float* d_tempered;                 // (rows, V) more gradient, or null
  std::byte* d_logits;                     // (rows, count)
  int64_t first = 0;                       // token
  int64_t tokens = 0;                      // 0: all V
  int64_t count() const { return tokens != 0 ? tokens : vocab; }
};

inline constexpr int64_t kValueLanes = 16;

// values[i] is the value of row rows[i] of hidden.
struct ValueRowsArgs {
  const std::byte* hidden;        // (N, C) compute dtype
  std::span<const int32_t> rows;  // may repeat
  const float* w;                 // (C)
  int64_t width;                  // C
  std::span<float> values;        // one per entry of rows
};

struct ValueRowsBackwardArgs {
  const std::byte* hidden;         // (N, C) compute dtype
  std::span<const int32_t> rows;   // may repeat
  const float* w;                  // (C)
  int64_t width;                   // C
  std::span<const float> d_value;  // one per entry of rows
  float* d_hidden;                 // (N, C), accumulated
  float* grad;                     // (C), accumulated; null: not computed
};

}  // namespace rl
