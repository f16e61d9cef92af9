// Stages of parallel.zero_stage: none changes a bit of weights or metrics, a rank has memory for
// its part of the states alone, and checkpoints have no trace of stage or number of ranks.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"
#include "zero_rig.h"

namespace rl::testing {
namespace {

void expect_no_stage_moves_a_bit(const TrainerOptions& options, const RigOptions& rig = {}) {
  for (const int ranks : {2, 3, 5}) {
    const Outcome whole = on_ranks(ranks, rig, options)[0];
    EXPECT_GT(whole.metrics[0].grad_norm, options.grad_clip);
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(str("stage ", stage, " on ", ranks, " ranks"));
      for (const Outcome& rank : on_ranks(ranks, rig, at_stage(options, stage, ranks)))
        expect_same_weights(rank, whole);
    }
  }
}

TEST(ZeroStages, HaveTheBitsOfNone) { expect_no_stage_moves_a_bit(clipped()); }

TEST(ZeroStages, HaveTheBitsOfNoneForPairs) {
  expect_no_stage_moves_a_bit(clipped(Objective::kDpo), {.with_reference = true});
}

TEST(ZeroStages, HaveTheBitsOfNoneWithAveragesAndFrozenParameters) {
  TrainerOptions o = clipped();
  o.optimizer.ema = 0.9;
  o.trainable.freeze = {"model.layers.0.*", "*norm.weight"};
  expect_no_stage_moves_a_bit(o);
}

TEST(ZeroStages, HaveTheBitsOfNoneWithParametersWithoutDecay) {
  TrainerOptions o = clipped();
  o.optimizer.no_decay = {"norms"};
  expect_no_stage_moves_a_bit(o);
}

std::string dtype_name(const ::testing::TestParamInfo<StateDtype>& info) {
  constexpr const char* kNames[] = {"Fp32", "Bf16", "Int8"};
  return kNames[static_cast<int>(info.param)];
}

class ZeroStates : public ::testing::TestWithParam<StateDtype> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, ZeroStates,
                         ::testing::Values(StateDtype::kF32, StateDtype::kBf16, StateDtype::kInt8),
                         dtype_name);

// Their rounding is by place, and in 8 bits by blocks of a parameter.
TEST_P(ZeroStates, HaveTheBitsOfNone) {
  TrainerOptions o = clipped();
  o.optimizer.state_dtype = GetParam();
  o.optimizer.grad_dtype = GradDtype::kBf16;
  expect_no_stage_moves_a_bit(o);
}

TEST_P(ZeroStates, HaveTheBitsOfNoneInTheHostsMemory) {
  TrainerOptions o = clipped();
  o.optimizer.state_dtype = GetParam();
  o.optimizer.offload = {.on = true, .fraction = 0.6};
  expect_no_stage_moves_a_bit(o);
}

TEST(ZeroStages, HaveTheBitsOfNoneWithMuon) {
  TrainerOptions o = clipped();
  o.optimizer.kind = OptimizerKind::kMuon;
  expect_no_stage_moves_a_bit(o);
}

// Sums begin with the last layers and parameters come as they are packed; two of five ranks have no
// micro-batch. What ranks send together stays the same.
TEST(ZeroStages, HaveTheSameBitsWhileTheyOverlap) {
  TrainerOptions o = clipped();
  o.batch.num_minibatches = 4;
  for (const RigOptions& rig : {RigOptions{}, RigOptions{.model = "smollm2", .threads = 2}}) {
    for (const int ranks : {2, 5}) {
      const Outcome whole = on_ranks(ranks, rig, o)[0];
      for (const int stage : {0, 1, 2, 3}) {
        SCOPED_TRACE(str("stage ", stage, " on ", ranks, " ranks of ", rig.model));
        std::vector<Traffic> overlapped(static_cast<size_t>(ranks)), plain = overlapped;
        for (const bool on : {false, true}) {
          TrainerOptions at = at_stage(o, stage, ranks);
          at.optimizer.zero.overlap_sums = on;
          at.optimizer.zero.overlap_gather = on && stage > 0;
          const std::vector<Outcome> out = on_ranks(ranks, rig, at, [&](TrainRig& r) {
            Outcome steps = take_steps(r);
            (on ? overlapped : plain)[static_cast<size_t>(r.ranks.rank())] = r.ranks.traffic();
            steps.masters = r.masters();
            return steps;
          });
          for (const Outcome& rank : out) expect_same_weights(rank, whole);
        }
        TrafficBytes sent[2];
        for (int r = 0; r < ranks; ++r) {
          const auto i = static_cast<size_t>(r);
          EXPECT_EQ(plain[i].overlapped, TrafficBytes{});
          EXPECT_GT(overlapped[i].overlapped.received, 0u);
          for (const TrafficUse use : {TrafficUse::kGradients, TrafficUse::kParameters}) {
            sent[0] += plain[i].of(use);
            sent[1] += overlapped[i].of(use);
          }
        }
        EXPECT_EQ(sent[0], sent[1]);
      }
    }
  }
}

TEST(ZeroStages, TrainOneCritic) {
  const CriticOutcome whole = critic_on_ranks(3)[0];
  for (const int stage : {1, 2, 3}) {
    for (const CriticOutcome& rank : critic_on_ranks(3, stage)) {
      EXPECT_TRUE(same_bits(rank.masters, whole.masters));
      EXPECT_EQ(rank.metrics.grad_norm, whole.metrics.grad_norm);
    }
  }
}

class ZeroPieces : public ::testing::TestWithParam<std::tuple<OptimizerKind, int /*stage*/>> {};
INSTANTIATE_TEST_SUITE_P(Cuts, ZeroPieces,
                         ::testing::Combine(::testing::Values(OptimizerKind::kAdamw,
                                                              OptimizerKind::kMuon),
                                            ::testing::Values(1, 3)));

TEST_P(ZeroPieces, CutWhereEveryStateMayBeCut) {
  const WeightLayout layout = layout_of_fixture();
  const auto [kind, stage] = GetParam();
  OptimizerOptions o{.kind = kind};
  for (int ranks = 1; ranks <= 40; ++ranks) {
    o.zero = {stage, ranks};
    const std::vector<LayerMatrix> whole = divided_matrices(layout, o);
    EXPECT_EQ(whole.empty(), stage < 3 || ranks == 1);
    const Pieces pieces = shard_pieces(layout, o);
    ASSERT_EQ(pieces.parts(), ranks);
    EXPECT_EQ(pieces.count(), static_cast<uint64_t>(layout.gradient_total()));
    EXPECT_TRUE(std::ranges::is_sorted(pieces.bounds));
    for (const Parameter& p : layout.parameters()) {
      for (const uint64_t bound : pieces.bounds) {
        const int64_t inside = static_cast<int64_t>(bound) - p.gradient;
        if (inside <= 0 || inside >= p.size) continue;
        EXPECT_EQ(inside % 256, 0) << p.name;
        EXPECT_FALSE(is_muon_matrix(p, o)) << p.name;
      }
    }
    for (const LayerMatrix& m : whole) {
      for (const uint64_t bound : pieces.bounds) {
        const int64_t inside = static_cast<int64_t>(bound) - m.gradient;
        EXPECT_FALSE(0 < inside && inside < m.size) << m.master;
      }
    }
  }
}

// States fall with the number of ranks: a piece is at most one block longer than its share.
TEST(ZeroStages, PlanThePieceOfARank) {
  const TinyModel tiny(TinyModel::fixture("llama"));
  const auto plan = [&](int stage, int ranks) {
    TrainerOptions o = at_stage(options_of(), stage, ranks);
    o.optimizer.ema = 0.9;
    return Trainer::plan(tiny.model->config(), tiny.model->kv_shape(), o, 1);
  };
  const uint64_t total = static_cast<uint64_t>(tiny.model->layout().gradient_total());
  const TrainerSizes whole = plan(0, 4);
  EXPECT_EQ(whole.optimizer, 8 * total);
  EXPECT_EQ(whole.averages, 4 * total);
  for (const int stage : {1, 2}) {
    for (const uint64_t ranks : {2u, 3u, 4u}) {
      const TrainerSizes part = plan(stage, static_cast<int>(ranks));
      const uint64_t piece = total / ranks + 256 + 16;
      EXPECT_LE(part.optimizer, 8 * piece + 128) << ranks;
      EXPECT_GE(part.optimizer, 8 * (total / ranks));
      EXPECT_LE(part.averages, 4 * piece + 64) << ranks;
      EXPECT_EQ(part.gradients, whole.gradients);
      EXPECT_EQ(part.whole_states, whole.optimizer + whole.averages);
    }
  }
}

TEST(ZeroStages, ReserveWhatTheyPlan) {
  for (const BackwardPacking packing : {BackwardPacking::kByLayer, BackwardPacking::kResident}) {
    for (const int stage : {2, 3}) {
      TrainerOptions options = at_stage(options_of(), stage, 3);
      options.backward_packing = packing;
      on_ranks(3, {}, options, [](TrainRig& rig) {
        uint64_t bytes = 0;
        for (const auto& arena : rig.trainer->memory()) bytes += arena.size();
        EXPECT_EQ(bytes, rig.sizes.persistent());
        return Outcome{};
      });
    }
  }
}

TEST(ZeroStages, MoveTheBytesOfTheirFormula) {
  constexpr uint64_t kSteps = 4;  // of the optimizer
  const WeightLayout layout = layout_of_fixture();
  const auto total = static_cast<uint64_t>(layout.gradient_total());
  for (const int ranks : {2, 3}) {
    for (const int stage : {0, 1, 2, 3}) {
      const TrainerOptions options = at_stage(clipped(), stage, ranks);
      const Pieces even = even_pieces(total, ranks), cut = shard_pieces(layout, options.optimizer);
      on_ranks(ranks, {}, options, [&](TrainRig& rig) {
        SCOPED_TRACE(str("stage ", stage, ", rank ", rig.ranks.rank(), " of ", ranks));
        const int rank = rig.ranks.rank();
        const Outcome out = take_steps(rig);
        const Traffic traffic = rig.ranks.traffic();
        TrafficBytes gradients, parameters;
        if (stage < 2) {
          gradients += reduced(even, rank).bytes(4 * kSteps);
          gradients += gathered(even, rank).bytes(4 * kSteps);
          EXPECT_EQ(traffic.of(Collective::kAllReduce), gradients);
          EXPECT_EQ(traffic.of(Collective::kReduceScatter), TrafficBytes{});
        } else {
          gradients += reduced(cut, rank).bytes(4 * kSteps);
          EXPECT_EQ(traffic.of(Collective::kReduceScatter), gradients);
          EXPECT_EQ(traffic.of(Collective::kAllReduce), TrafficBytes{});
          gradients += heads(cut, rank).bytes(4 * kSteps);
        }
        if (stage == 1 || stage == 2) parameters += gathered(cut, rank).bytes(4 * kSteps);
        for (uint64_t i = 0; stage == 3 && i < kSteps; ++i)
          parameters += parameters_of_stage_3(rig.model(), cut, rank);
        EXPECT_EQ(traffic.of(TrafficUse::kGradients), gradients);
        EXPECT_EQ(traffic.of(TrafficUse::kParameters), parameters);
        EXPECT_EQ(traffic.of(TrafficUse::kStates), TrafficBytes{});
        EXPECT_LT(traffic.of(TrafficUse::kOther).sent, 100u << 10);
        return out;
      });
    }
  }
}

TEST(ZeroStages, OfDividedGradientsGiveNoneToAHost) {
  TrainerOptions o = at_stage(options_of(), 2, 2);
  o.batch.num_minibatches = 1;
  on_ranks(2, {}, o, [](TrainRig& rig) {
    const std::vector<Sample> samples = samples_for(rig, Objective::kRl, 5);
    const Error error = expect_error(
        Code::kUnsupported, [&] { rig.trainer->begin_gradients(with_advantages(samples), {}); });
    EXPECT_EQ(error.key, "parallel.zero_stage");
    return Outcome{};
  });
}

// Files of a checkpoint after two steps of three ranks.
class ZeroCheckpoints : public ::testing::TestWithParam<StateDtype> {
 protected:
  TrainerOptions options() const {
    TrainerOptions o = clipped();
    o.optimizer.state_dtype = GetParam();
    o.optimizer.ema = 0.9;
    return o;
  }
  std::string save(const std::string& name, int stage) {
    const std::string dir = dir_.file(name);
    on_ranks(3, {}, at_stage(options(), stage, 3), [&](TrainRig& rig) {
      train_twice(rig);
      save_on(rig, real_fs(), dir);
      return Outcome{};
    });
    return checkpoint_path(dir, 2);
  }
  // Resumes on so many ranks and trains on.
  Outcome resume(const std::string& path, int stage, int ranks) const {
    return on_ranks(ranks, {}, at_stage(options(), stage, ranks), [&](TrainRig& rig) {
      rig.trainer->load(real_fs(), path, "");
      return train_twice(rig);
    })[0];
  }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(Dtypes, ZeroCheckpoints,
                         ::testing::Values(StateDtype::kF32, StateDtype::kBf16, StateDtype::kInt8),
                         dtype_name);

TEST_P(ZeroCheckpoints, HaveNoTraceOfTheStage) {
  const std::string whole = save("whole", 0);
  const Outcome one = resume(whole, 0, 1), two = resume(whole, 0, 2);
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const std::string path = save(str("stage", stage), stage);
    int files = 0;
    for (const auto& file : std::filesystem::directory_iterator(whole)) {
      const std::string name = file.path().filename().string();
      EXPECT_EQ(text_of(path + "/" + name), text_of(whole + "/" + name)) << name;
      ++files;
    }
    EXPECT_EQ(files, 6);  // masters, two moments, averages, the manifest and its mark
    expect_same_weights(resume(path, 0, 1), one);
    expect_same_weights(resume(path, stage, 2), two);
  }
}

// The others give their parts all the same, and all go on.
TEST_P(ZeroCheckpoints, ThatFailEndNoRun) {
  const TrainerOptions o = at_stage(options(), 3, 3);
  const std::string dir = dir_.file("saved");
  on_ranks(3, {}, o, [&](TrainRig& rig) {
    train_twice(rig);
    int failures = 0;
    for (int64_t at = 1, failed = 1; failed != 0; at += 3) {
      FaultFs fs;
      fs.arm({.at = at, .for_ever = true});
      failed = 0;
      try {
        save_on(rig, fs, dir);
      } catch (const Error& error) {
        EXPECT_EQ(error.code, Code::kIo) << error.message;
        failed = 1;
      }
      failed = rig.ranks.gather(failed)[0];
      failures += failed != 0;
    }
    EXPECT_GT(failures, 10);
    save_on(rig, real_fs(), dir);
    if (rig.ranks.rank() != 0) {
      rig.trainer->give_states({});
    } else {
      rig.trainer->call_off_checkpoint();
    }
    return train_twice(rig);
  });
  EXPECT_TRUE(latest_checkpoint(real_fs(), dir).has_value());
}

}  // namespace
}  // namespace rl::testing
