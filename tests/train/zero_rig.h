// Trainers whose ranks divide what a stage of ZeRO says: their options and checkpoints, and what
// they move by its formula.
#pragma once
#include "data_rank_rig.h"
#include "ops/optimizer_ops.h"
#include "train/optimizer/shards.h"

namespace rl::testing {

// Gradients are clipped, so that weights depend on their norm.
inline TrainerOptions clipped(Objective objective = Objective::kRl) {
  TrainerOptions o = options_of(objective);
  o.grad_clip = 0.01;
  return o;
}

inline TrainerOptions at_stage(TrainerOptions options, int stage, int ranks) {
  options.optimizer.zero = {stage, ranks};
  return options;
}

inline void expect_same_weights(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(same_bits(a.masters, b.masters));
  ASSERT_EQ(a.metrics.size(), b.metrics.size());
  for (size_t i = 0; i < a.metrics.size(); ++i) expect_same(a.metrics[i], b.metrics[i]);
}

inline WeightLayout layout_of_fixture() {
  return WeightLayout(TinyModel(TinyModel::fixture("llama")).model->config());
}

inline std::string text_of(const std::string& path) {
  return read_text_file(real_fs(), path, 1 << 26);
}

// Of the second step: rank 0 writes, and the others give their parts.
inline void save_on(TrainRig& rig, FileSystem& fs, const std::string& dir) {
  CheckpointMeta meta;
  meta.step = 2;
  if (rig.ranks.rank() == 0) {
    rig.trainer->save(fs, dir, meta, {.replace_existing = true});
  } else if (rig.trainer->has_states_in_parts()) {
    rig.trainer->give_states(meta.contents);
  }
}

// Elements that a rank moves when each of n ranks reduces its piece, and when it gives it away.
struct Moved {
  uint64_t sent = 0, received = 0;
  TrafficBytes bytes(uint64_t each) const { return {sent * each, received * each}; }
};
inline Moved reduced(const Pieces& pieces, int rank) {
  const uint64_t own = pieces[rank].count(), others = static_cast<uint64_t>(pieces.parts()) - 1;
  return {pieces.count() - own, others * own};
}
inline Moved gathered(const Pieces& pieces, int rank) {
  const Moved back = reduced(pieces, rank);
  return {back.received, back.sent};
}

// The beginnings of pieces within a chunk of the norm, which go to the rank of its beginning.
inline Moved heads(const Pieces& pieces, int rank) {
  constexpr uint64_t kChunk = kOptimizerChunk;
  Moved out;
  for (int r = 1; r < pieces.parts(); ++r) {
    const Piece p = pieces[r];
    const uint64_t chunk = p.begin / kChunk * kChunk;
    if (chunk == p.begin || p.count() == 0) continue;
    const uint64_t head = std::min({p.end, chunk + kChunk, pieces.count()}) - p.begin;
    if (r == rank) out.sent += head;
    if (pieces.part_with(chunk) == rank) out.received += head;
  }
  return out;
}

// Packed bytes of the divided matrices that each rank packs.
inline std::vector<uint64_t> packed_by_owner(const Model& model, const MasterCut& cut) {
  const PackedShapes shapes =
      plan_forward_shapes(model.compute().device(), model.config(), model.compute_dtype());
  std::vector<uint64_t> bytes(static_cast<size_t>(cut.ranks()));
  for (int64_t l = 0; l < model.config().layers; ++l) {
    const LayerOffsets& at = model.layout().layer(l);
    const PackedShapes::Layer& shape = shapes.layers[static_cast<size_t>(l)];
    for (const auto& [place, packed] :
         {std::pair(at.qkv, shape.qkv.bytes), std::pair(at.o, shape.o.bytes),
          std::pair(at.gate_up, shape.gate_up.bytes), std::pair(at.down, shape.down.bytes)}) {
      const int owner = cut.owner(place);
      if (owner >= 0) bytes[static_cast<size_t>(owner)] += packed;
    }
  }
  return bytes;
}

// Of an optimizer step at stage 3: what all ranks have in fp32, and the packed rest.
inline TrafficBytes parameters_of_stage_3(const Model& model, const Pieces& cut, int rank) {
  TrafficBytes out;
  for (const Parameter& p : model.layout().parameters()) {
    if (model.master_cut().owner(p.offset) >= 0) continue;
    const auto first = static_cast<uint64_t>(p.gradient), size = static_cast<uint64_t>(p.size);
    out += gathered(cut.within({first, first + size}), rank).bytes(4);
  }
  Pieces packed{{0}};
  for (const uint64_t bytes : packed_by_owner(model, model.master_cut()))
    packed.bounds.push_back(packed.count() + bytes);
  out += gathered(packed, rank).bytes(1);
  return out;
}

}  // namespace rl::testing
