// Geometry of KV pools, attention rules and block copies.
#include "model/kv_pool.h"

#include <cmath>

#include "ops/compute.h"

namespace rl {

KvShape kv_shape(const ModelConfig& config, Dtype compute, const KvFormat& format) {
  KvShape shape;
  for (int64_t l = 0; l < config.layers; ++l) {
    const LayerShape s = config.layer(l);
    shape.layers.push_back(
        {s.heads, s.kv_heads, s.head_dim, format.block_size, compute, format.dtype});
  }
  return shape;
}

uint64_t KvShape::bytes_before(int64_t layer) const {
  uint64_t bytes = 0;
  for (int64_t l = 0; l < layer; ++l) bytes += layers[static_cast<size_t>(l)].block_bytes();
  return bytes;
}

AttentionRule attention_rule(const ModelConfig& config, int64_t layer) {
  const float scalar = config.query_scalar > 0 ? static_cast<float>(config.query_scalar)
                                               : static_cast<float>(config.head_dim);
  return {1.0f / std::sqrt(scalar), config.layer(layer).window};
}

void copy_block(Compute& compute, const KvPlace& from, const KvPlace& to) {
  const std::vector<AttentionShape>& layers = from.pool.shape.layers;
  for (int64_t l = 0; l < static_cast<int64_t>(layers.size()); ++l) {
    const uint64_t bytes = layers[static_cast<size_t>(l)].block_bytes();
    copy_bytes(compute, {from.pool.layer(l) + from.block * bytes,
                         to.pool.layer(l) + to.block * bytes, bytes});
  }
}

}  // namespace rl
