// The head of a model with ModelConfig::scalar_head: one value per row, v = h . w, with h the final
// hidden state in the compute dtype and w = score.weight in fp32; and its backward. Order of sums:
// ops/head_ops.h.
#pragma once
#include <span>

#include "model/gradient_sink.h"
#include "model/model.h"

namespace rl {

// values[i] is the value of row rows[i] of hidden (N, C), the result of forward().
void value_forward(const Model& model, const std::byte* hidden, std::span<const int32_t> rows,
                   std::span<float> values);

struct ValueBackwardArgs {
  const std::byte* hidden;               // (N, C) compute dtype, as in value_forward
  std::span<const int32_t> rows;         // rows may repeat
  std::span<const float> d_value;        // one per entry of rows
  float* d_hidden;                       // (N, C), accumulated
  GradientSink grads;                    // that of score.weight is accumulated
  const WeightLayout* layout = nullptr;  // what is trained; null: everything
};
void value_backward(const Model& model, const ValueBackwardArgs& args);

}  // namespace rl
