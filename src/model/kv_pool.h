// Views of paged keys and values of all layers; no type here owns bytes. Whoever makes the engine
// or the trainer owns the arena: PhaseArena in a pipeline, EngineSession and TrainerSession in a
// host's own loop. Training keeps the keys and values of its micro-batch in the same layout, so
// that one attention serves both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/model_config.h"
#include "model/activation_rule.h"
#include "ops/attention.h"

namespace rl {

class Compute;

struct KvShape {
  // All with one block size and the same types; those of a layer's parts follow one another.
  std::vector<AttentionShape> layers;
  // Of each entry, where a block id has its keys and values. Layers with the same place have them
  // there one after the other. Empty: each entry has a place of its own, in order.
  std::vector<int64_t> places = {};
  // Entries of a layer above: one for each part of ModelConfig::split that the rank has.
  int64_t parts = 1;

  Dtype dtype() const { return layers.front().dtype; }  // compute dtype
  int64_t block_size() const { return layers.front().block_size; }
  int64_t num_places() const;
  int64_t place(int64_t layer) const {
    return places.empty() ? layer : places[static_cast<size_t>(layer)];
  }
  // Bytes of one block id in the places before this one.
  uint64_t bytes_before(int64_t place) const;
  uint64_t block_bytes() const { return bytes_before(num_places()); }
};
// Part of the numerics: engine and trainer share it.
struct KvFormat {
  int64_t block_size;  // tokens
  Dtype dtype;         // of stored keys and values
};
KvShape kv_shape(const ModelConfig& config, Dtype compute, const KvFormat& format);

// Of pools whose sequences end with a forward, so that the next layer needs none of its keys and
// values: all layers have one place, or one for each part.
KvShape forward_kv(KvShape shape);
// Of a training pool: a place for each layer that keeps its keys and values, and one for each layer
// of a group of those that are computed again.
KvShape training_kv(KvShape shape, const ActivationRule& rule);

// How the rows of a layer attend.
AttentionRule attention_rule(const ModelConfig& config, int64_t layer);

// A view of num_blocks blocks; those of a layer are contiguous. Any content is valid: attention
// reads only positions that were written.
struct KvPool {
  KvShape shape;
  std::byte* data = nullptr;
  int64_t num_blocks = 0;
  std::byte* layer(int64_t l) const {
    return data + static_cast<uint64_t>(num_blocks) * shape.bytes_before(shape.place(l));
  }
  uint64_t bytes() const { return num_blocks * shape.block_bytes(); }
};
// Copies a whole block, in every layer, to a block of the same pool or another pool of the same
// shape.
struct KvPlace {
  const KvPool& pool;
  int32_t block;
};
void copy_block(Compute& compute, const KvPlace& from, const KvPlace& to);

}  // namespace rl
