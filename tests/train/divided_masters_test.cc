// Stage 3 of ZeRO: each rank has the masters of some matrices, and what it computes with, saves and
// gives to others is what a model with all of them has.
#include <gtest/gtest.h>

#include "data_rank_rig.h"
#include "model/whole_tensors.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/optimizer/shards.h"

namespace rl::testing {
namespace {

TEST(MasterCuts, LeaveNoGapInMemory) {
  const MasterCut cut({{16, 40, 1}, {64, 32, 0}, {96, 16, 1}, {160, 5, 2}}, 0, 3);
  EXPECT_TRUE(cut.divides());
  EXPECT_EQ(cut.owner(0), -1);
  EXPECT_EQ(cut.owner(16), 1);
  EXPECT_EQ(cut.owner(55), 1);
  EXPECT_EQ(cut.owner(56), -1);
  EXPECT_EQ(cut.owner(64), 0);
  EXPECT_EQ(cut.owner(95), 0);
  EXPECT_EQ(cut.owner(111), 1);
  EXPECT_EQ(cut.owner(112), -1);
  // Rank 0 lacks places 16 to 47 and 96 to 111; what is smaller than an alignment stays.
  EXPECT_EQ(cut.in_memory(0), 0);
  EXPECT_EQ(cut.in_memory(56), 24);
  EXPECT_EQ(cut.in_memory(64), 32);
  EXPECT_EQ(cut.in_memory(95), 63);
  EXPECT_EQ(cut.in_memory(112), 64);
  EXPECT_FALSE(cut.has(20));
  // Ranks lack 48, 32 and 80 floats.
  EXPECT_EQ(cut.floats(192), 192 - 32);
  EXPECT_EQ(MasterCut().floats(192), 192);
  EXPECT_EQ(MasterCut().in_memory(70), 70);
}

TrainerOptions divided(int ranks) {
  TrainerOptions o = options_of();
  o.optimizer.zero = {3, ranks};
  return o;
}

// The rank with most has no more than what all have, its share, and half a matrix at each end.
TEST(DividedMasters, AreReservedAsPlanned) {
  for (const int ranks : {2, 3, 4}) {
    on_ranks(ranks, {}, divided(ranks), [&](TrainRig& rig) {
      const Model& model = rig.model();
      const auto total = static_cast<uint64_t>(model.layout().total());
      uint64_t divided = 0, largest = 0;
      for (const LayerMatrix& m : model.layout().layer_matrices()) {
        divided += static_cast<uint64_t>(m.size);
        largest = std::max(largest, static_cast<uint64_t>(m.size));
      }
      const uint64_t bytes = Model::master_bytes(model.config(), model.master_cut());
      EXPECT_LT(bytes, 4 * total);
      EXPECT_LE(bytes, 4 * (total - divided + total / static_cast<uint64_t>(ranks) + largest));
      const uint64_t packed = Model::packed_forward_bytes(model.compute().device(), model.config(),
                                                          model.compute_dtype());
      EXPECT_EQ(model.arena_bytes(), bytes + packed);
      return Outcome{};
    });
  }
}

// In bf16 matrices of other ranks are unpacked for the backward.
TEST(DividedMasters, HaveTheSameBitsInEachDtypeAndPacking) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    if (dtype == Dtype::kBf16 && !cpu_has_bf16_dot()) continue;
    const RigOptions rig{.compute = dtype, .threads = 2, .slice_width = 32};
    const Outcome whole = on_ranks(3, rig, options_of())[0];
    for (const BackwardPacking packing : {BackwardPacking::kByLayer, BackwardPacking::kResident}) {
      TrainerOptions o = divided(3);
      o.backward_packing = packing;
      for (const Outcome& rank : on_ranks(3, rig, o))
        EXPECT_TRUE(same_bits(rank.masters, whole.masters));
    }
  }
}

std::vector<std::byte> packed_of(const Model& model) {
  const std::span<const std::byte> bytes = model.trained().packed().memory();
  return {bytes.begin(), bytes.end()};
}

// Packed weights are whole on each rank, and a frozen copy has them too.
TEST(DividedMasters, ArePackedWholeOnEachRank) {
  std::vector<std::vector<std::byte>> packed(3);
  std::vector<float> masters;
  on_ranks(3, {}, divided(3), [&](TrainRig& rig) {
    const Outcome out = train_twice(rig);
    const auto rank = static_cast<size_t>(rig.ranks.rank());
    packed[rank] = packed_of(rig.model());
    if (rank == 0) masters = out.masters;
    const auto source = open_weight_source(real_fs(), TinyModel::fixture("llama"));
    Model copy(*source, *rig.tiny.compute,
               {.block_size = 16, .frozen = true, .filled_later = true});
    copy.copy_masters(rig.model());
    EXPECT_EQ(packed_of(copy), packed[rank]);
    const int64_t vocabulary = copy.config().vocab * copy.config().hidden;
    for (int64_t i = 0; i < vocabulary; ++i)
      EXPECT_EQ(copy.trained().embedding()[i], rig.model().trained().embedding()[i]);
    return out;
  });
  TinyModel whole(TinyModel::fixture("llama"));
  whole.model->masters().write(masters);
  whole.model->publish();
  for (const auto& rank : packed) EXPECT_EQ(rank, packed_of(*whole.model));
}

// Rank 0 writes what it has gathered.
TEST(DividedMasters, AreSavedWhole) {
  const TempDir dir;
  const auto saved = [&](const char* name, const TrainerOptions& options) {
    on_ranks(3, {}, options, [&](TrainRig& rig) {
      Outcome out = train_twice(rig);
      if (rig.ranks.rank() == 0 || rig.model().master_cut().divides())
        rig.model().save(real_fs(), dir.file(name), {});
      return out;
    });
    return read_text_file(real_fs(), dir.file(name) + "/model.safetensors", 1 << 26);
  };
  EXPECT_EQ(saved("divided", divided(3)), saved("whole", options_of()));
}

TEST(DividedMasters, RefuseATrainerThatDividesOtherwise) {
  on_ranks(2, {}, divided(2), [](TrainRig& rig) {
    for (const TrainerOptions& other : [] {
           TrainerOptions frozen = divided(2);
           frozen.trainable.freeze = {"model.layers.0.*"};
           return std::vector<TrainerOptions>{options_of(), frozen};
         }()) {
      const Error e = expect_error(Code::kConflict, [&] { rig.rebuild(other); });
      EXPECT_EQ(e.key, "parallel.zero_stage");
    }
    const Error e = expect_error(Code::kUnsupported, [&] { rig.model().drop_packed(); });
    EXPECT_EQ(e.key, "parallel.zero_stage");
    return Outcome{};
  });
}

// The others hear of it, and none waits.
TEST(DividedMasters, ALoadThatFailsOnOneRankEndsTheRun) {
  const TempDir dir;
  std::string path;
  on_ranks(1, {}, options_of(), [&](TrainRig& rig) {
    CheckpointMeta meta;
    meta.step = 2;
    path = rig.trainer->save(real_fs(), dir.path(), meta);
    return Outcome{};
  });
  on_ranks(2, {}, divided(2), [&](TrainRig& rig) {
    const std::string own = rig.ranks.rank() == 1 ? path + "x" : path;
    if (rig.ranks.rank() == 1) {
      EXPECT_THROW(rig.trainer->load(real_fs(), own, ""), Error);
    } else {
      EXPECT_THROW(rig.trainer->load(real_fs(), own, ""), RankError);
    }
    return Outcome{};
  });
}

}  // namespace
}  // namespace rl::testing
