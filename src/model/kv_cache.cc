// KV pool geometry, attention rules and block copies.
#include "model/kv_cache.h"

#include <cmath>

#include "ops/compute.h"

namespace rl {

KvShape kv_shape(const ModelConfig& config, Dtype compute, const KvFormat& format) {
  return {
      {config.heads, config.kv_heads, config.head_dim, format.block_size, compute, format.dtype},
      config.layers};
}

AttentionRule attention_rule(const ModelConfig& config, int64_t layer) {
  const float scalar = config.query_scalar > 0 ? static_cast<float>(config.query_scalar)
                                               : static_cast<float>(config.head_dim);
  return {1.0f / std::sqrt(scalar), config.is_windowed(layer) ? config.window : 0};
}

void copy_block(Compute& compute, const KvPlace& from, const KvPlace& to) {
  const uint64_t bytes = from.pool.shape.attention.block_bytes();
  for (int64_t l = 0; l < from.pool.shape.layers; ++l) {
    copy_bytes(compute, {from.pool.layer(l) + from.block * bytes,
                         to.pool.layer(l) + to.block * bytes, bytes});
  }
}

}  // namespace rl
