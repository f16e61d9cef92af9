// Logits and gradients of a small model: all rows of two sequences, through forward, head and
// backward.
#pragma once
#include <numeric>
#include <vector>

#include "support/tiny_model.h"

namespace rl::testing {

struct Passed {
  std::vector<float> logits, gradients;
};

inline Passed pass_through(const TinyModel& tiny, BackwardPacking packing) {
  const Model& model = *tiny.model;
  std::vector<int32_t> first(37), second(20);
  std::iota(first.begin(), first.end(), 3);
  std::iota(second.begin(), second.end(), 11);
  TrainingBatch batch(tiny, {first, second});
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  const int64_t rows = batch.rows();
  const Dtype compute = model.compute_dtype();
  const Arena arena("test head", HeadBuffers::bytes(model.config(), compute, rows, true));
  HeadBuffers head(model.config(), compute, rows, true, arena.data());
  std::vector<int32_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  gather_rows(model, batch.buffers->hidden, all, head);
  const std::vector<float> one(all.size(), 1.0f), zero(all.size(), 0.0f);
  head_forward(model, one, head);
  Passed out{{head.z, head.z + rows * head.vocab},
             std::vector<float>(static_cast<size_t>(model.layout().total()), 0.0f)};
  BackwardWeights packed(model, packing);
  packed.prepare();
  head_backward(model, {packed, all, one, one, zero, out.gradients.data()}, head);
  backward(model, batch.batch(), batch.pool, *batch.buffers, *batch.saved, *batch.scratch,
           {packed, out.gradients.data(), head.d_hidden});
  return out;
}

}  // namespace rl::testing
