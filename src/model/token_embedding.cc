// A row is there on one rank and zero on the others. -0 is a value too, so they are merged as
// words, not added.
#include "model/token_embedding.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "formats/vocabulary_cut.h"
#include "ops/compute.h"

namespace rl {
namespace {

// Tokens counted from the first one that the rank has; -1 for those of other ranks.
std::vector<int32_t> own_ids(std::span<const int32_t> ids, const TokenRange& own) {
  std::vector<int32_t> out;
  out.reserve(ids.size());
  for (const int32_t id : ids)
    out.push_back(own.has(id) ? id - static_cast<int32_t>(own.first) : -1);
  return out;
}

}  // namespace

float embedding_scale(const ModelConfig& config, Dtype compute) {
  if (!config.scaled_embedding) return 1.0f;
  return round_to(compute, static_cast<float>(std::sqrt(static_cast<double>(config.hidden))));
}

void embed_tokens(const Model& model, const ComputeCopy& weights, const EmbedTokensArgs& a) {
  Compute& compute = model.compute();
  const ModelConfig& config = model.config();
  const float scale = embedding_scale(config, model.compute_dtype());
  const VocabularyCut cut(config);
  if (cut.ranks() == 1) {
    return embed_rows(compute, {weights.embedding(), a.ids, config.hidden, scale, a.x, a.then});
  }
  const auto rows = static_cast<int64_t>(a.ids.size());
  const std::vector<int32_t> ids = own_ids(a.ids, cut.own());
  embed_rows(compute, {weights.embedding(), ids, config.hidden, scale, a.x, a.then});
  model.tensor_ranks().merge(std::span(a.x, static_cast<size_t>(rows * config.hidden)),
                             compute.space());
  norm_rows(compute, {a.x, a.then.norm, a.then.y, rows, config.hidden});
}

void add_embedding_gradient(const Model& model, const EmbeddingGradientArgs& a) {
  if (a.gradient < 0) return;
  Compute& compute = model.compute();
  const ModelConfig& config = model.config();
  const float scale = embedding_scale(config, model.compute_dtype());
  const auto add = [&](const float* dx, std::span<const int32_t> tokens) {
    a.grads.add_rows(a.gradient, tokens, config.hidden, a.sums,
                     [&](float* to, std::span<const int32_t> rows) {
                       embed_rows_backward(compute, {dx, rows, config.hidden, scale, to});
                     });
  };
  const VocabularyCut cut(config);
  if (cut.ranks() == 1) return add(a.dx, a.ids);
  std::vector<int32_t> rows, tokens;
  for (size_t i = 0; i < a.ids.size(); ++i) {
    if (!cut.own().has(a.ids[i])) continue;
    rows.push_back(static_cast<int32_t>(i));
    tokens.push_back(a.ids[i] - static_cast<int32_t>(cut.own().first));
  }
  if (rows.empty()) return;
  gather_rows(compute, {reinterpret_cast<const std::byte*>(a.dx), rows,
                        static_cast<uint64_t>(config.hidden) * sizeof(float),
                        reinterpret_cast<std::byte*>(a.rows)});
  add(a.rows, tokens);
}

}  // namespace rl
