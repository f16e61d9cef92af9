// Geometry of KV pools, attention rules and block copies.
#include "model/kv_pool.h"

#include <algorithm>
#include <cmath>

#include "ops/compute.h"

namespace rl {

KvShape kv_shape(const ModelConfig& config, Dtype compute, const KvFormat& format) {
  KvShape shape;
  shape.parts = config.split.count;
  for (int64_t l = 0; l < config.layers; ++l) {
    const LayerShape s = config.part(l);
    const AttentionShape part{s.heads,           s.kv_heads, s.head_dim,
                              format.block_size, compute,    format.dtype};
    shape.layers.insert(shape.layers.end(), static_cast<size_t>(shape.parts), part);
  }
  return shape;
}

int64_t KvShape::num_places() const {
  if (places.empty()) return static_cast<int64_t>(layers.size());
  return 1 + *std::ranges::max_element(places);
}

// A place is as large as the largest layer that has it. An engine has as many as layers.
uint64_t KvShape::bytes_before(int64_t place) const {
  uint64_t sum = 0;
  for (int64_t p = 0; p < place; ++p) {
    uint64_t size = places.empty() ? layers[static_cast<size_t>(p)].block_bytes() : 0;
    for (size_t l = 0; l < places.size(); ++l) {
      if (places[l] == p) size = std::max(size, layers[l].block_bytes());
    }
    sum += size;
  }
  return sum;
}

KvShape forward_kv(KvShape shape) {
  shape.places.clear();
  for (size_t entry = 0; entry < shape.layers.size(); ++entry)
    shape.places.push_back(static_cast<int64_t>(entry) % shape.parts);
  return shape;
}

KvShape training_kv(KvShape shape, const ActivationRule& rule) {
  const auto layers = static_cast<int64_t>(shape.layers.size()) / shape.parts;
  int64_t next = 0;  // the places of the longest group come first
  for (int64_t l = 0; l < layers; ++l) {
    if (!rule.kept(l).qkv) next = std::max(next, l + 1 - rule.group_of(l, layers).first);
  }
  shape.places.clear();
  if (next == 0) return shape;
  for (int64_t l = 0; l < layers; ++l) {
    const int64_t place = rule.kept(l).qkv ? next++ : l - rule.group_of(l, layers).first;
    for (int64_t p = 0; p < shape.parts; ++p) shape.places.push_back(place * shape.parts + p);
  }
  return shape;
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
