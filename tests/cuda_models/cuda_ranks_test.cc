// Ranks on the emulated GPU, which they share: they train to the same weights at every stage, over
// every transport and in any order of the streams, and hold what their plans say.
#include <gtest/gtest.h>

#include "comm/local_ranks.h"
#include "cuda_models/emulated_gpu.h"
#include "pipeline/plan_arenas.h"
#include "ranks/rank_pipelines.h"

namespace rl::testing {
namespace {

class CudaRanks : public ::testing::Test {
 protected:
  void SetUp() override { emulated::restart(0); }
  void TearDown() override {
    emulated::set_device({});
    emulated::restart(0);
  }

  OptionSet options(int ranks, const std::vector<std::string>& more = {}) const {
    OptionSet o = options_with(dir_, {"optimizer.lr=1e-3", str("parallel.data=", ranks)});
    for (const std::string& text : more) o.set_assignment(text);
    return o;
  }
  // Two steps, and the weights of all ranks.
  static std::string trained(RankParts& parts, const std::string& saved) {
    const std::string metrics = two_steps_metrics(parts);
    const bool divides = parts.model->runtime().settings().parallel.zero_stage == 3;
    if (parts.rank == 0 || divides) parts.model->save(saved, Dtype::kF32, false);
    if (parts.rank != 0) return metrics;
    return metrics + read_text_file(real_fs(), saved + "/model.safetensors", 1 << 26);
  }
  std::string next_folder() { return dir_.file(str("saved", num_saved_++)); }
  std::vector<std::string> train(const OptionSet& o) {
    const std::string saved = next_folder();
    return on_trainers(
        o, [&](RankParts& parts) { return trained(parts, saved); }, &emulated_gpu());
  }

  const TempDir dir_;
  int num_saved_ = 0;
};

TEST_F(CudaRanks, TrainToTheSameWeightsAtEveryStage) {
  const std::vector<std::string> want = train(options(2));
  EXPECT_TRUE(want[0].starts_with(want[1]));
  EXPECT_TRUE(train(options(2)) == want);
  const std::vector<std::vector<std::string>> cases = {
      {"parallel.overlap_grad_reduce=true"},
      {"parallel.zero_stage=1", "parallel.overlap_param_gather=true"},
      {"parallel.zero_stage=2"},
      {"parallel.zero_stage=2", "parallel.overlap_grad_reduce=true"},
      {"parallel.zero_stage=3"},
      {"parallel.zero_stage=3", "parallel.overlap_grad_reduce=true",
       "parallel.overlap_param_gather=true"}};
  for (const auto& more : cases) {
    SCOPED_TRACE(more[0]);
    EXPECT_TRUE(train(options(2, more)) == want);
  }
}

// The pieces of three ranks begin within chunks of the norm. A reference that is packed of divided
// weights reads them from their packed form.
TEST_F(CudaRanks, WhatIsDividedChangesNoBitOfOtherObjectives) {
  struct Case {
    int ranks;
    const char* stage;
    std::vector<std::string> more;
  };
  const std::vector<Case> cases = {
      {3, "parallel.zero_stage=2", {"trainer.grad_dtype=bf16", "optimizer.state_dtype=int8"}},
      {2, "parallel.zero_stage=2", {"algo.advantage=gae", "critic.optimizer.lr=1e-3"}},
      {2, "parallel.zero_stage=3", {"algo.kl.where=loss", "algo.kl.coef=0.1"}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.more[0]);
    OptionSet divided = options(c.ranks, c.more);
    divided.set_assignment(c.stage);
    EXPECT_TRUE(train(divided) == train(options(c.ranks, c.more)));
  }
}

TEST_F(CudaRanks, NoOrderOfTheStreamsChangesAStep) {
  const OptionSet o = options(2, {"parallel.zero_stage=2", "parallel.overlap_grad_reduce=true",
                                  "parallel.overlap_param_gather=true"});
  const std::vector<std::string> want = train(o);
  for (uint64_t seed = 1; seed < 3; ++seed) {
    emulated::restart(seed);
    EXPECT_TRUE(train(o) == want) << seed;
  }
}

// Where messages are copied, as between processes.
TEST_F(CudaRanks, ATransportOfTheHostHasTheSameWeights) {
  OptionSet o = options(2, {"parallel.zero_stage=2"});
  const std::vector<std::string> want = train(o);
  o.set_text("comm.backend", "host");
  std::vector<std::shared_ptr<Runtime>> ranks;
  const TransportOf transport_of = copying_backend(2);
  for (int rank = 0; rank < 2; ++rank) {
    RuntimeSeams seams = seams_on(emulated_gpu());
    seams.host_ranks = transport_of(rank);
    ranks.push_back(std::make_shared<Runtime>(o, std::move(seams)));
  }
  std::vector<std::string> got(2);
  const std::string saved = next_folder();
  testing::run_ranks(std::move(ranks), [&](std::shared_ptr<Runtime> runtime) {
    RankParts parts(runtime);
    got[static_cast<size_t>(parts.rank)] = trained(parts, saved);
  });
  EXPECT_TRUE(got == want);
}

TEST_F(CudaRanks, PlanAndLedgerHaveTheBufferOfCollectives) {
  for (const char* more : {"parallel.zero_stage=0", "parallel.zero_stage=3"}) {
    const OptionSet o = options(2, {more});
    on_trainers(
        o,
        [](RankParts& parts) {
          const MemoryPlan& plan = parts.model->plan();
          EXPECT_EQ(live(parts.model->runtime()), planned(plan));
          EXPECT_EQ(plan.bytes_of(StagedValues::kArena), StagedValues::kWindowBytes);
          return std::string();
        },
        &emulated_gpu());
  }
  on_trainers(
      options(1),
      [](RankParts& parts) {
        EXPECT_EQ(parts.model->plan().bytes_of(StagedValues::kArena), 0u);
        return std::string();
      },
      &emulated_gpu());
}

std::vector<RankRun> run_pipelines_on_gpu(const OptionSet& options) {
  std::vector<std::shared_ptr<Runtime>> ranks = make_ranks(options, &emulated_gpu());
  std::vector<RankRun> out(ranks.size());
  testing::run_ranks(std::move(ranks), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    out[rank] = run_pipeline(options, std::move(runtime), [](Rig& rig, int) {
      EXPECT_EQ(live(rig.runtime()), planned(rig.pipeline().plan()));
    });
  });
  return out;
}

// Both generate and train, and a checkpoint of their parts goes on with the same bits.
TEST_F(CudaRanks, PipelinesEndWithEqualWeightsAndResume) {
  const auto saved = [&](int64_t steps, const char* to) {
    OptionSet o =
        options(2, {"parallel.zero_stage=2", "checkpoint.every_steps=1", "checkpoint.resume=auto"});
    o.set_i64("pipeline.total_steps", steps);
    o.set_string("checkpoint.dir", dir_.file(to));
    return run_pipelines_on_gpu(o);
  };
  const std::vector<RankRun> whole = saved(2, "whole");
  EXPECT_EQ(whole[0].log.steps.size(), 2u);
  EXPECT_EQ(whole[1].digest, whole[0].digest);
  for (const double difference : whole[0].log.series("training/logprob_max_abs_diff"))
    EXPECT_EQ(difference, 0.0);
  saved(1, "parts");
  const std::vector<RankRun> resumed = saved(2, "parts");
  for (const RankRun& rank : resumed) {
    EXPECT_EQ(rank.log.steps.size(), 1u);
    EXPECT_EQ(rank.digest, whole[0].digest);
  }
}

}  // namespace
}  // namespace rl::testing
