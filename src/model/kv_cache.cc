// KV pool geometry and block copies.
#include "model/kv_cache.h"

#include <cstring>

namespace rl {

KvShape kv_shape(const ModelConfig& config, int64_t block_size, Dtype compute) {
  return {{config.heads, config.kv_heads, config.head_dim, block_size, compute}, config.layers};
}

void KvPool::copy_block(int32_t from, int32_t to) const {
  const uint64_t bytes = shape.attention.block_bytes();
  for (int64_t l = 0; l < shape.layers; ++l) std::memcpy(layer(l) + to * bytes, layer(l) + from * bytes, bytes);
}

}  // namespace rl
