// Ranks whose values go from GPU to GPU by the emulation's stand-in of NCCL: they train to the
// weights of ranks that exchange through the memory of the host, in any order of the streams, and
// hold what their plans say.
#include <gtest/gtest.h>

#include "comm/local_ranks.h"
#include "cuda_host/nccl_stand_in.h"
#include "cuda_models/emulated_gpu.h"
#include "pipeline/plan_arenas.h"
#include "ranks/rank_pipelines.h"
#include "support/compare_values.h"
#include "support/safetensors_floats.h"

namespace rl::testing {
namespace {

class CudaNccl : public ::testing::Test {
 protected:
  void SetUp() override { begin(0); }
  void TearDown() override {
    EXPECT_EQ(emulated::live_nccl_communicators(), 0);
    begin(0);
  }
  static void begin(uint64_t seed) {
    emulated::forget_nccl();
    emulated::set_device({});
    emulated::restart(seed);
  }

  OptionSet options(int ranks, const std::vector<std::string>& more = {}) const {
    OptionSet o = options_with(dir_, {"optimizer.lr=1e-3", str("parallel.data=", ranks)});
    for (const std::string& text : more) o.set_assignment(text);
    return o;
  }
  std::string next_folder() { return dir_.file(str("saved", num_saved_++)); }

  // Two steps, and the weights of all ranks.
  static std::string trained(RankParts& parts, const std::string& saved) {
    const std::string metrics = two_steps_metrics(parts);
    const bool divides = parts.model->runtime().settings().parallel.zero_stage == 3;
    if (parts.rank == 0 || divides) parts.model->save(saved, Dtype::kF32, false);
    if (parts.rank != 0) return metrics;
    return metrics + read_text_file(real_fs(), saved + "/model.safetensors", 1 << 26);
  }
  // Through the memory of the host.
  std::vector<std::string> train_staged(const OptionSet& o) {
    const std::string saved = next_folder();
    return on_trainers(
        o, [&](RankParts& parts) { return trained(parts, saved); }, &emulated_gpu());
  }

  static int size_of(const OptionSet& o) {
    return static_cast<int>(o.get_i64("parallel.data") * o.get_i64("parallel.context"));
  }
  // Each rank makes its runtime on a thread of its own, as processes do.
  static void on_nccl(const OptionSet& options, const std::function<void(RankParts&)>& work) {
    rl::run_ranks(copying_backend, size_of(options), [&](std::shared_ptr<Transport> transport) {
      OptionSet o = options;
      o.set_text("runtime.device", "cuda");
      o.set_text("comm.backend", "nccl");
      o.set_i64("comm.rank", transport->rank());
      o.set_string("comm.rendezvous", "file:not_read");
      RuntimeSeams seams = seams_on(emulated_gpu());
      seams.joined = std::move(transport);
      RankParts parts(std::make_shared<Runtime>(o, std::move(seams)));
      work(parts);
    });
  }
  using Work = std::function<std::string(RankParts&)>;
  static std::vector<std::string> texts_of(const OptionSet& o, const Work& work) {
    std::vector<std::string> out(static_cast<size_t>(size_of(o)));
    on_nccl(o, [&](RankParts& parts) { out[static_cast<size_t>(parts.rank)] = work(parts); });
    return out;
  }
  std::vector<std::string> train(const OptionSet& o) {
    const std::string saved = next_folder();
    return texts_of(o, [&](RankParts& parts) { return trained(parts, saved); });
  }

  // Two steps, and the weights and digests of all ranks.
  struct Outcome {
    std::vector<std::string> texts;
    std::vector<float> weights;
  };
  Outcome outcome_of(const OptionSet& o) {
    const std::string saved = next_folder();
    Outcome out;
    out.texts = texts_of(o, [&](RankParts& parts) {
      const std::string text = two_steps(parts);
      if (parts.rank == 0) parts.model->save(saved, Dtype::kF32, false);
      return text;
    });
    out.weights = floats_of(read_text_file(real_fs(), saved + "/model.safetensors", 1 << 26));
    return out;
  }

  const TempDir dir_;
  int num_saved_ = 0;
};

TEST_F(CudaNccl, TrainsToTheSameWeightsAtEveryStage) {
  const std::vector<std::string> want = train_staged(options(2));
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"parallel.overlap_grad_reduce=true"},
      {"parallel.zero_stage=1", "parallel.overlap_param_gather=true"},
      {"parallel.zero_stage=2", "parallel.overlap_grad_reduce=true"},
      {"parallel.zero_stage=3", "parallel.overlap_grad_reduce=true",
       "parallel.overlap_param_gather=true"}};
  for (const auto& more : cases) {
    SCOPED_TRACE(more.empty() ? "stage 0" : more[0]);
    EXPECT_TRUE(train(options(2, more)) == want);
  }
}

TEST_F(CudaNccl, AddsGradientsOfThreeRanksInBf16) {
  const OptionSet o = options(3, {"parallel.zero_stage=2", "trainer.grad_dtype=bf16"});
  EXPECT_TRUE(train(o) == train_staged(o));
}

// With comm.reduction_order = backend three ranks have other bits, the same on all and each time.
TEST_F(CudaNccl, AddsUpGradientsInTheOrderOfTheLibrary) {
  const std::vector<std::pair<std::vector<std::string>, double>> cases = {
      {{}, 1e-7},
      {{"parallel.zero_stage=2", "parallel.overlap_grad_reduce=true"}, 1e-7},
      {{"trainer.grad_dtype=bf16"}, 2e-4}};
  for (const auto& [more, bound] : cases) {
    SCOPED_TRACE(more.empty() ? "stage 0" : more[0]);
    const Outcome want = outcome_of(options(3, more));
    OptionSet o = options(3, more);
    o.set_text("comm.reduction_order", "backend");
    const Outcome got = outcome_of(o);
    EXPECT_FALSE(same_bits(got.weights, want.weights));
    EXPECT_LT(relative_l2(got.weights, want.weights), bound);
    for (const std::string& text : got.texts) EXPECT_EQ(text, got.texts[0]);
    begin(1);
    const Outcome again = outcome_of(o);
    EXPECT_EQ(again.texts, got.texts);
    EXPECT_TRUE(same_bits(again.weights, got.weights));
  }
}

// Two numbers have one sum.
TEST_F(CudaNccl, AddsUpTwoRanksToTheSameWeightsInEveryOrder) {
  const std::vector<std::string> want = train(options(2));
  for (const char* stage : {"parallel.zero_stage=0", "parallel.zero_stage=3"}) {
    const OptionSet o = options(2, {"comm.reduction_order=backend", stage});
    EXPECT_TRUE(train(o) == want) << stage;
  }
}

// Ranks that divide rows add up gradients of keys and values by reduce-scatters, in rank order.
TEST_F(CudaNccl, AddsUpNothingElseInTheOrderOfTheLibrary) {
  OptionSet o = options(1, {"parallel.context=3", "comm.reduction_order=backend"});
  const auto step = [](RankParts& parts) {
    return common_metrics(parts.trainer.step(host_batch(parts.trainer)));
  };
  const std::vector<std::string> steps = texts_of(o, step);
  EXPECT_EQ(steps, std::vector<std::string>(3, steps[0]));
  EXPECT_GT(emulated::calls("ncclAllReduce"), 0);
  EXPECT_EQ(emulated::calls("ncclReduce"), 0);
  o.set_text("parallel.zero_stage", "2");
  texts_of(o, step);
  EXPECT_GT(emulated::calls("ncclReduce"), 0);
}

// What another order of sums trained goes on in any.
TEST_F(CudaNccl, CheckpointsHaveNoOrderOfSums) {
  std::string path;
  texts_of(options(3, {"comm.reduction_order=backend"}), [&](RankParts& parts) {
    parts.trainer.step(host_batch(parts.trainer));
    if (parts.rank == 0) path = parts.trainer.save({dir_.file("saved"), "", 0, false});
    return std::string();
  });
  const auto resume = [&](RankParts& parts) {
    parts.trainer.load(path);
    return str(parts.trainer.step(host_batch(parts.trainer)).step);
  };
  EXPECT_EQ(texts_of(options(2), resume), std::vector<std::string>({"2", "2"}));
}

TEST_F(CudaNccl, NoOrderOfTheStreamsChangesAStep) {
  const OptionSet o = options(2, {"parallel.zero_stage=2", "parallel.overlap_grad_reduce=true",
                                  "parallel.overlap_param_gather=true"});
  const std::vector<std::string> want = train(o);
  for (uint64_t seed = 1; seed < 3; ++seed) {
    begin(seed);
    EXPECT_TRUE(train(o) == want) << seed;
  }
}

TEST_F(CudaNccl, PlanAndLedgerHaveTheScratchOfCollectives) {
  on_nccl(options(2), [](RankParts& parts) {
    const MemoryPlan& plan = parts.model->plan();
    EXPECT_EQ(live(parts.model->runtime()), planned(plan));
    EXPECT_EQ(plan.bytes_of(DeviceMessages::kArena), DeviceMessages::kScratchBytes);
    EXPECT_EQ(plan.bytes_of(StagedValues::kArena), 0u);
  });
}

TEST_F(CudaNccl, NeedsTheLibrary) {
  emulated::hide_nccl_function("ncclSend");
  const Error error = expect_error(Code::kNotInBuild, [&] { on_nccl(options(2), [](auto&) {}); });
  EXPECT_EQ(error.key, "comm.backend");
  EXPECT_TRUE(contains(error.message, "ncclSend")) << error.message;
}

}  // namespace
}  // namespace rl::testing
