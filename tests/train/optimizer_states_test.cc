// optimizer.state_dtype and optimizer.cpu_offload: bits, bytes and checkpoints.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/optimizer/adamw_state.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

const std::string kConfig = "digest";

TrainerOptions options_of(StateDtype dtype, const OffloadOptions& offload = {}) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.schedule.lr = 1e-2;
  o.adamw.weight_decay = 0.1;
  o.optimizer.state_dtype = dtype;
  o.optimizer.seed = 5;
  o.optimizer.offload = offload;
  return o;
}

std::vector<float> after(TrainRig& rig, unsigned steps) {
  for (unsigned s = 1; s <= steps; ++s) random_step(rig, s);
  return rig.masters();
}

class OptimizerStates : public ::testing::TestWithParam<StateDtype> {};

TEST_P(OptimizerStates, ThreadsChangeNoBit) {
  TrainRig one({.model = "qwen2"}, options_of(GetParam())),
      three({.model = "qwen2", .threads = 3}, options_of(GetParam()));
  EXPECT_TRUE(same_bits(after(one, 3), after(three, 3)));
}

TEST_P(OptimizerStates, OffloadChangesNoBit) {
  TrainRig plain({.model = "llama"}, options_of(GetParam()));
  const std::vector<float> expected = after(plain, 3);
  for (const double fraction : {0.01, 0.4, 1.0}) {
    for (const bool overlap : {false, true}) {
      TrainRig rig({.model = "llama"}, options_of(GetParam(), {true, fraction, overlap}));
      EXPECT_TRUE(same_bits(after(rig, 3), expected)) << fraction << " " << overlap;
    }
  }
}

TEST_P(OptimizerStates, AResumeContinuesWithTheSameBits) {
  const TempDir dir;
  TrainRig whole({.model = "llama"}, options_of(GetParam()));
  after(whole, 2);
  const std::string path = whole.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  random_step(whole, 3);
  // Where states are is no part of a checkpoint.
  TrainRig resumed({.model = "llama"}, options_of(GetParam(), {true, 0.5, true}));
  resumed.trainer->load(real_fs(), path, kConfig);
  random_step(resumed, 3);
  EXPECT_TRUE(same_bits(whole.masters(), resumed.masters()));
}

TEST_P(OptimizerStates, ArenasAreThoseOfThePlan) {
  for (const OffloadOptions& offload :
       {OffloadOptions{}, OffloadOptions{true, 0.4, true}, OffloadOptions{true, 1, false}}) {
    const TrainRig rig({.model = "llama"}, options_of(GetParam(), offload));
    const auto held = [&](const char* name) {
      for (const ArenaLedger::Entry& e : rig.tiny.ledger.entries()) {
        if (e.name == name) return e.bytes;
      }
      return uint64_t{0};
    };
    EXPECT_EQ(held("optimizer states"), rig.sizes.optimizer);
    EXPECT_EQ(held("optimizer states, host"), rig.sizes.optimizer_host);
    EXPECT_EQ(held("optimizer staging, host"), rig.sizes.optimizer_staging);
    EXPECT_EQ(rig.sizes.optimizer_staging > 0, offload.on);
    EXPECT_EQ(rig.sizes.optimizer == 0, offload.on && offload.fraction == 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerStates,
                         ::testing::Values(StateDtype::kF32, StateDtype::kBf16, StateDtype::kInt8));

TEST(OptimizerStatesOf, FewerBitsTakeFewerBytes) {
  const auto bytes = [](StateDtype dtype) {
    const TrainRig rig({.model = "llama"}, options_of(dtype));
    return static_cast<double>(rig.sizes.optimizer);
  };
  const double whole = bytes(StateDtype::kF32);
  EXPECT_EQ(bytes(StateDtype::kBf16), whole / 2);
  // A byte and 4 bytes for each 256 elements, in place of 4; the smallest vectors have a scale too.
  EXPECT_NEAR(bytes(StateDtype::kInt8), whole / 4 * (1 + 4.0 / 256), 0.01 * whole);
}

TEST(OptimizerStatesOf, FewerBitsTrainNearly) {
  TrainRig f32({.model = "llama"}, options_of(StateDtype::kF32)),
      bf16({.model = "llama"}, options_of(StateDtype::kBf16)),
      int8({.model = "llama"}, options_of(StateDtype::kInt8));
  const std::vector<float> start = f32.masters();
  const std::vector<float> a = after(f32, 4), b = after(bf16, 4), c = after(int8, 4);
  const auto way = [&](const std::vector<float>& to) {
    std::vector<float> moved(to.size());
    for (size_t i = 0; i < to.size(); ++i) moved[i] = to[i] - start[i];
    return moved;
  };
  EXPECT_FALSE(same_bits(a, b));
  EXPECT_FALSE(same_bits(a, c));
  EXPECT_LT(relative_l2(way(b), way(a)), 0.05);
  EXPECT_LT(relative_l2(way(c), way(a)), 0.2);
}

TEST(OptimizerStatesOf, ACheckpointHasThemAsTheyAre) {
  const TempDir dir;
  TrainRig rig({.model = "llama"}, options_of(StateDtype::kInt8));
  random_step(rig, 1);
  const std::string path = rig.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  const auto size = [&](const char* name) {
    return std::filesystem::file_size(path + "/" + name + ".safetensors");
  };
  EXPECT_LT(size("first_moments"), size("masters") / 2);
  TrainRig other({.model = "llama"}, options_of(StateDtype::kF32));
  const Error e =
      expect_error(Code::kIncompatible, [&] { other.trainer->load(real_fs(), path, kConfig); });
  EXPECT_TRUE(contains(e.message, "is I8")) << e.message;
}

// Parameters in order, until the fraction of all elements is reached.
TEST(MomentLayout, TheFirstParametersAreOnTheHost) {
  const TinyModel tiny(TinyModel::fixture("llama"));
  const WeightLayout layout(tiny.model->config());
  OptimizerOptions options;
  options.offload = {true, 0.3, true};
  const MomentLayout places(layout, options);
  int64_t moved = 0, all = 0;
  for (const Parameter& p : layout.parameters()) all += p.size;
  bool over = false;
  for (const Parameter& p : layout.parameters()) {
    EXPECT_EQ(places.place(p.gradient).on_host, !over) << p.name;
    if (over) continue;
    moved += p.size;
    over = static_cast<double>(moved) >= 0.3 * static_cast<double>(all);
  }
  EXPECT_TRUE(over);
  EXPECT_LT(moved, all);
}

TEST(MomentLayout, AllInOneMemoryHaveThePlacesOfTheGradients) {
  const TinyModel tiny(TinyModel::fixture("qwen2"));
  for (const TrainableRule& rule :
       {TrainableRule{}, TrainableRule{{"*.k_proj.*", "model.norm.weight"}, {}}}) {
    const WeightLayout layout(tiny.model->config(), rule);
    const MomentLayout places(layout, {});
    for (const Parameter& p : layout.parameters()) {
      if (!p.trainable()) continue;
      EXPECT_EQ(places.place(p.gradient).first, p.gradient) << p.name;
      EXPECT_EQ(places.place(p.gradient).second, p.gradient) << p.name;
    }
    EXPECT_EQ(places.offsets(false).total,
              2 * AdamwState::gradient_bytes(layout, GradDtype::kF32).values);
  }
}

}  // namespace
}  // namespace rl::testing
