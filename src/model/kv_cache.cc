// KV pool geometry, attention rules and block copies.
#include "model/kv_cache.h"

#include <cmath>
#include <cstring>

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

void copy_block(const KvPool& source, int32_t from, const KvPool& target, int32_t to) {
  const uint64_t bytes = source.shape.attention.block_bytes();
  for (int64_t l = 0; l < source.shape.layers; ++l)
    std::memcpy(target.layer(l) + to * bytes, source.layer(l) + from * bytes, bytes);
}

}  // namespace rl
