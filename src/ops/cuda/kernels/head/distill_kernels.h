// The divergence of the rows of two heads, and its derivative (algo/losses/distill.h, whose
// formulas these are), in double.
//
// Order of the sums of a row: thread t of 256 adds ids t, t + 256, ... ascending, then lanes by
// exchanges at distances 16, 8, 4, 2 and 1, then warps in order.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "algo/losses/distill.h"
#include "ops/logprob.h"

namespace rl::cuda {

// value[i] is the divergence of row i, and the teacher's logits become coef * weight[i] times its
// derivative in the student's. A row of weight 0 has value 0 and no derivative.
struct DistillRowsParams {
  DistillParams kind;
  double coef;
  const double* weight;           // (rows)
  const float* student;           // (rows, V)
  const RowStats* student_stats;  // (rows)
  float* teacher;                 // (rows, V)
  const RowStats* teacher_stats;  // (rows)
  double* value;                  // (rows)
  int64_t rows, vocab;
};
void distill_rows(cudaStream_t stream, const DistillRowsParams& params);

}  // namespace rl::cuda
