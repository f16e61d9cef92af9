// Rows of the embedding for the tokens of a batch, and their gradients. Ranks that divide the
// vocabulary look up the tokens that each has, and merge what they find; a row's gradient is added
// by the rank that has its token. So all have the bits of one rank.
#pragma once
#include <cstdint>
#include <span>

#include "model/gradient_sink.h"
#include "model/model.h"
#include "ops/forward_ops.h"

namespace rl {

// The factor that scales embedding rows, a value of the compute dtype.
float embedding_scale(const ModelConfig& config, Dtype compute);

struct EmbedTokensArgs {
  std::span<const int32_t> ids;  // (N)
  float* x;                      // (N, C)
  NextNorm then;                 // of x
};
void embed_tokens(const Model& model, const ComputeCopy& weights, const EmbedTokensArgs& args);

struct EmbeddingGradientArgs {
  std::span<const int32_t> ids;  // (N)
  const float* dx;               // (N, C)
  int64_t gradient;              // place of this rank's rows; -1: frozen
  GradientSink grads;            // accumulated
  float* rows;                   // (N, C) of scratch if ranks divide the vocabulary
  float* sums;                   // (N, C) of scratch; null if gradients are in fp32
};
void add_embedding_gradient(const Model& model, const EmbeddingGradientArgs& args);

}  // namespace rl
