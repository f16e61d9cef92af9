// Own vectors are stored in the order in which place_vectors() visits them, each on a 64-byte
// boundary.
#include "model/compute_copy.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {
namespace {

constexpr int64_t kAlignFloats = 16;
constexpr int64_t kMoveFloats = int64_t{1} << 18;  // of a run

// Calls place(offset, size, pointer to set) for every parameter that is not packed.
template <typename Place>
void place_vectors(const ModelConfig& c, const WeightLayout& layout, WeightVectors& v,
                   Place&& place) {
  if (c.has_embedding())
    place(layout.embedding(), VocabularyCut(c).own().count * c.hidden, v.embedding);
  v.layers.resize(static_cast<size_t>(c.layers));
  for (int64_t l = 0; l < c.layers; ++l) {
    const LayerOffsets& at = layout.layer(l);
    LayerVectors& to = v.layers[static_cast<size_t>(l)];
    const auto optional = [&](int64_t offset, int64_t size, const float*& pointer) {
      if (offset >= 0) place(offset, size, pointer);
    };
    optional(at.input_norm, c.hidden, to.input_norm);
    to.qkv_bias.resize(static_cast<size_t>(c.split.count));
    for (int64_t p = 0; p < c.split.count; ++p) {
      optional(layout.layer(l, p).qkv_bias, c.part(l).qkv_width(),
               to.qkv_bias[static_cast<size_t>(p)]);
    }
    optional(at.q_norm, c.head_dim, to.q_norm);
    optional(at.k_norm, c.head_dim, to.k_norm);
    optional(at.mlp_norm, c.hidden, to.mlp_norm);
    optional(at.attention_out_norm, c.hidden, to.attention_out_norm);
    optional(at.mlp_out_norm, c.hidden, to.mlp_out_norm);
  }
  if (!c.has_head()) return;
  place(layout.final_norm(), c.hidden, v.final_norm);
  if (c.scalar_head) place(layout.head(), c.hidden, v.score);
}

int64_t aligned(int64_t floats) {
  return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

// Of borrowed memory, behind the packed matrices.
uint64_t vectors_offset(const PackedShapes& shapes) {
  return CheckedU64(packed_bytes(shapes)).align_up(ArenaPlan::kAlignment).get();
}

}  // namespace

uint64_t ComputeCopy::vector_bytes(const ModelConfig& config) {
  WeightVectors vectors;
  int64_t floats = 0;
  place_vectors(config, WeightLayout(config), vectors,
                [&](int64_t, int64_t size, const float*&) { floats += aligned(size); });
  return static_cast<uint64_t>(floats) * sizeof(float);
}

uint64_t ComputeCopy::borrowed_bytes(const ModelConfig& config, const PackedShapes& shapes) {
  return (CheckedU64(vectors_offset(shapes)) + CheckedU64(vector_bytes(config))).get();
}

ComputeCopy::ComputeCopy(const ModelConfig& config, const WeightLayout& layout,
                         const PackedShapes& shapes, const MasterFloats& masters, bool own_vectors,
                         const ArenaPlace& place)
    : packed_(config, layout, shapes, place),
      own_("unpacked weights, copy", own_vectors ? vector_bytes(config) : 0, Touch::kLater, place) {
  RL_CHECK(!masters.empty() || own_vectors);
  this->place(config, layout, masters, own_vectors ? own_.at<float>(0) : nullptr);
}

ComputeCopy::ComputeCopy(const ModelConfig& config, const WeightLayout& layout,
                         const PackedShapes& shapes, std::byte* borrowed, ArenaLedger* ledger)
    : packed_(config, layout, shapes, borrowed),
      in_host_(kWeightsInHost, borrowed_bytes(config, shapes), Touch::kLater, ledger),
      borrowed_(borrowed) {
  place(config, layout, {}, reinterpret_cast<float*>(borrowed + vectors_offset(shapes)));
}

// own: where the vectors are copied to; null: they stay in the masters.
void ComputeCopy::place(const ModelConfig& config, const WeightLayout& layout,
                        const MasterFloats& masters, float* own) {
  const int64_t step = std::max<int64_t>(1, kMoveFloats / config.hidden) * config.hidden;
  place_vectors(config, layout, vectors_, [&](int64_t offset, int64_t size, const float*& pointer) {
    pointer = own != nullptr ? own : masters.at(offset);
    if (own == nullptr) return;
    for (int64_t i = 0; i < size; i += step) {
      moves_.push_back({offset + i, own + i, std::min(step, size - i)});
    }
    own += aligned(size);
  });
}

void ComputeCopy::update(Compute& compute, const WeightFloats& weights) {
  packed_.pack(compute, weights);
  update_vectors(compute, weights);
}

void ComputeCopy::update_from(Compute& compute, const ComputeCopy& other,
                              const MasterFloats& masters, PackedWeights::RowsOf rows) {
  packed_.pack_again(compute, other.packed_, rows);
  update_vectors(compute, WeightFloats(masters));
}

void ComputeCopy::update_vectors(Compute& compute, const WeightFloats& weights) {
  weights.await(std::numeric_limits<int64_t>::max());
  const auto read = [&](int64_t from, std::span<float> out) { weights.read(from, out); };
  const FloatReader reader = read;
  const bool reads = weights.from_file() || weights.masters().divided();
  read_floats(compute,
              {moves_, reads ? &reader : nullptr, reads ? nullptr : weights.masters().at(0)});
  if (borrowed_ != nullptr) copy_bytes(compute, {borrowed_, in_host_.data(), in_host_.bytes()});
}

void ComputeCopy::bring(Compute& compute) {
  if (borrowed_ != nullptr) copy_bytes(compute, {in_host_.data(), borrowed_, in_host_.bytes()});
}

}  // namespace rl
