// Groups that divide (parallel.zero_group): none moves a bit of weights or metrics, gradients alone
// go from group to group, and a checkpoint has no trace of the groups.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "zero_rig.h"

namespace rl::testing {
namespace {

struct Layout {
  int ranks, group;
};
constexpr Layout kLayouts[] = {{4, 2}, {6, 3}, {6, 2}};

void expect_no_group_moves_a_bit(const TrainerOptions& options, const RigOptions& rig = {}) {
  for (const Layout& layout : kLayouts) {
    const Outcome whole = on_ranks(layout.ranks, rig, options)[0];
    EXPECT_GT(whole.metrics[0].grad_norm, options.grad_clip);
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(
          str("stage ", stage, " on ", layout.ranks, " ranks, ", layout.group, " a group"));
      const TrainerOptions at = at_stage(options, stage, layout.group);
      for (const Outcome& rank : on_ranks(layout.ranks, rig, at)) expect_same_weights(rank, whole);
    }
  }
}

TEST(ZeroGroups, HaveTheBitsOfNone) { expect_no_group_moves_a_bit(clipped()); }

TEST(ZeroGroups, HaveTheBitsOfNoneWithAveragesAndFrozenParameters) {
  TrainerOptions o = clipped();
  o.optimizer.ema = 0.9;
  o.trainable.freeze = {"model.layers.0.*", "*norm.weight"};
  expect_no_group_moves_a_bit(o);
}

TEST(ZeroGroups, HaveTheBitsOfNoneWithMuon) {
  TrainerOptions o = clipped();
  o.optimizer.kind = OptimizerKind::kMuon;
  expect_no_group_moves_a_bit(o);
}

// Sums of bf16 are rounded once, behind the last group.
TEST(ZeroGroups, HaveTheBitsOfNoneWithFewerBits) {
  for (const StateDtype states : {StateDtype::kF32, StateDtype::kInt8}) {
    TrainerOptions o = clipped();
    o.optimizer.state_dtype = states;
    o.optimizer.grad_dtype = GradDtype::kBf16;
    expect_no_group_moves_a_bit(o);
  }
}

// Some ranks have no micro-batch.
TEST(ZeroGroups, HaveTheSameBitsWhileTheyOverlap) {
  TrainerOptions o = clipped();
  o.batch.num_minibatches = 4;
  const RigOptions rig{.threads = 2};
  const Outcome whole = on_ranks(4, rig, o)[0];
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    TrainerOptions at = at_stage(o, stage, 2);
    at.optimizer.zero.overlap_sums = at.optimizer.zero.overlap_gather = true;
    const std::vector<Outcome> out = on_ranks(4, rig, at, [](TrainRig& r) {
      Outcome steps = take_steps(r);
      const Traffic traffic = r.ranks.traffic();
      EXPECT_GE(traffic.overlapped.sent, traffic.between.sent);
      EXPECT_GT(traffic.between.sent, 0u);
      steps.masters = r.masters();
      return steps;
    });
    for (const Outcome& rank : out) expect_same_weights(rank, whole);
  }
}

TEST(ZeroGroups, TrainOneCritic) {
  const CriticOutcome whole = critic_on_ranks(4)[0];
  for (const int stage : {1, 2, 3}) {
    for (const CriticOutcome& rank : critic_on_ranks(4, stage, 2)) {
      EXPECT_TRUE(same_bits(rank.masters, whole.masters));
      EXPECT_EQ(rank.metrics.grad_norm, whole.metrics.grad_norm);
    }
  }
}

TEST(ZeroGroups, ReserveWhatTheyPlan) {
  const TrainerSizes of_two = [] {
    TrainerSizes sizes;
    on_ranks(2, {}, at_stage(options_of(), 3, 2), [&](TrainRig& rig) {
      if (rig.ranks.rank() == 0) sizes = rig.sizes;
      return Outcome{};
    });
    return sizes;
  }();
  on_ranks(4, {}, at_stage(options_of(), 3, 2), [&](TrainRig& rig) {
    uint64_t bytes = 0;
    for (const auto& arena : rig.trainer->memory()) bytes += arena.size();
    EXPECT_EQ(bytes, rig.sizes.persistent());
    EXPECT_EQ(bytes, of_two.persistent());
    return Outcome{};
  });
}

// Of the sums of a rank's piece: on to the next group in fp32, and back as the gradients are.
TrafficBytes between_groups(const Pieces& pieces, const Layout& layout, int rank, uint64_t each) {
  const int group = rank / layout.group, groups = layout.ranks / layout.group;
  const uint64_t own = pieces[rank % layout.group].count();
  TrafficBytes out;
  if (group + 1 < groups) out += {4 * own, each * own};
  if (group > 0) out += {each * own, 4 * own};
  return out;
}

TrafficBytes times(uint64_t count, const TrafficBytes& bytes) {
  return {count * bytes.sent, count * bytes.received};
}

void expect_bytes(const Layout& layout, int stage, GradDtype dtype) {
  constexpr uint64_t kSteps = 4;  // of the optimizer
  const auto total = static_cast<uint64_t>(layout_of_fixture().gradient_total());
  const uint64_t each = dtype == GradDtype::kBf16 ? 2 : 4;
  TrainerOptions options = at_stage(clipped(), stage, layout.group);
  options.optimizer.grad_dtype = dtype;
  const Pieces cut = shard_pieces(layout_of_fixture(), options.optimizer);
  const Pieces pieces = stage == 1 ? even_pieces(total, layout.group) : cut;
  on_ranks(layout.ranks, {}, options, [&](TrainRig& rig) {
    const int rank = rig.ranks.rank(), own = rank % layout.group;
    SCOPED_TRACE(str("stage ", stage, ", rank ", rank, " of ", layout.ranks));
    const Outcome out = take_steps(rig);
    const Traffic traffic = rig.ranks.traffic();
    const TrafficBytes between = times(kSteps, between_groups(pieces, layout, rank, each));
    TrafficBytes gradients = between, parameters;
    gradients += reduced(pieces, own).bytes(each * kSteps);
    if (stage == 1) gradients += gathered(pieces, own).bytes(each * kSteps);
    if (stage > 1) gradients += heads(cut, own).bytes(each * kSteps);
    if (stage < 3) parameters += gathered(cut, own).bytes(4 * kSteps);
    if (stage == 3) parameters = times(kSteps, parameters_of_stage_3(rig.model(), cut, own));
    EXPECT_EQ(traffic.between, between);
    EXPECT_EQ(traffic.of(TrafficUse::kGradients), gradients);
    EXPECT_EQ(traffic.of(TrafficUse::kParameters), parameters);
    EXPECT_EQ(traffic.of(TrafficUse::kStates), TrafficBytes{});
    return out;
  });
}

TEST(ZeroGroups, MoveTheBytesOfTheirFormula) {
  for (const Layout& layout : kLayouts) {
    for (const int stage : {1, 2, 3}) expect_bytes(layout, stage, GradDtype::kF32);
  }
  expect_bytes({4, 2}, 2, GradDtype::kBf16);
}

TrainerOptions with_averages() {
  TrainerOptions o = clipped();
  o.optimizer.ema = 0.9;
  return o;
}

// After two steps of four ranks; resumed by so many.
std::string saved(const std::string& dir, const TrainerOptions& options) {
  on_ranks(4, {}, options, [&](TrainRig& rig) {
    train_twice(rig);
    save_on(rig, real_fs(), dir);
    return Outcome{};
  });
  return checkpoint_path(dir, 2);
}
Outcome resumed(const std::string& path, const TrainerOptions& options, int ranks) {
  return on_ranks(ranks, {}, options, [&](TrainRig& rig) {
    rig.trainer->load(real_fs(), path, "");
    return train_twice(rig);
  })[0];
}

TEST(ZeroGroups, LeaveNoTraceInCheckpoints) {
  const TempDir dir;
  const std::string whole = saved(dir.file("whole"), with_averages());
  const Outcome one = resumed(whole, with_averages(), 1), four = resumed(whole, with_averages(), 4);
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const TrainerOptions grouped = at_stage(with_averages(), stage, 2);
    const std::string path = saved(dir.file(str("stage", stage)), grouped);
    for (const auto& file : std::filesystem::directory_iterator(whole)) {
      const std::string name = file.path().filename().string();
      EXPECT_EQ(text_of(path + "/" + name), text_of(whole + "/" + name)) << name;
    }
    expect_same_weights(resumed(path, with_averages(), 1), one);
    expect_same_weights(resumed(whole, grouped, 4), four);
  }
}

// The ranks that give nothing hear of it too, and all go on.
TEST(ZeroGroups, ACheckpointThatFailsEndsNoRun) {
  const TempDir dir;
  on_ranks(4, {}, at_stage(with_averages(), 3, 2), [&](TrainRig& rig) {
    train_twice(rig);
    FaultFs fs;
    fs.arm({.at = 7, .for_ever = true});
    bool failed = false;
    try {
      save_on(rig, fs, dir.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code, Code::kIo) << error.message;
      failed = true;
    }
    EXPECT_EQ(failed, rig.ranks.rank() == 0);
    if (rig.ranks.rank() != 0) {
      rig.trainer->give_states({});
    } else {
      rig.trainer->call_off_checkpoint();
    }
    save_on(rig, real_fs(), dir.path());
    return train_twice(rig);
  });
  EXPECT_TRUE(latest_checkpoint(real_fs(), dir.path()).has_value());
}

// All ranks gather, and one of all writes.
TEST(ZeroGroups, SaveTheModelOnce) {
  const TempDir dir;
  const auto model_of = [&](const char* name, const TrainerOptions& options) {
    on_ranks(4, {}, options, [&](TrainRig& rig) {
      Outcome out = train_twice(rig);
      const bool divides = rig.model().master_cut().divides();
      FaultFs none;
      none.arm({.at = 1, .for_ever = true});
      FileSystem& fs = rig.ranks.rank() == 0 ? real_fs() : none;
      if (rig.ranks.rank() == 0 || divides) rig.model().save(fs, dir.file(name), {});
      return out;
    });
    return text_of(dir.file(name) + "/model.safetensors");
  };
  EXPECT_EQ(model_of("grouped", at_stage(options_of(), 3, 2)), model_of("whole", options_of()));
}

}  // namespace
}  // namespace rl::testing
