// Presets with several ranks: what each is for holds on every rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "../pipeline/host_batch.h"
#include "../pipeline/smollm2_plan.h"
#include "pipeline/config/run_options.h"
#include "pipeline/plan/plan.h"
#include "pipeline/session/engine_session.h"
#include "rank_pipelines.h"

namespace rl::testing {
namespace {

OptionSet with_preset(OptionSet o, const char* name) {
  o.apply_preset(name);
  return o;
}

// A rank decodes its samples in memory that its training needs anyway, as one rank does, and has a
// part of the optimizer states.
TEST(PresetRanks, ColocateDenseFitsARankIntoLess) {
  const TempDir dir;
  const auto planned = [&](const std::vector<std::string>& assignments) {
    const OptionSet o = with_preset(options_with(dir, assignments), "colocate_dense");
    return plan_memory(o, smollm2(), PlanUse::kPipeline);
  };
  const std::vector<std::string> large = {"pipeline.prompts_per_step=64"};
  const MemoryPlan one = planned(large);
  const MemoryPlan two = planned({large[0], "parallel.data=2", "parallel.zero_stage=2"});
  EXPECT_EQ(two.engine.max_num_seqs, 256);
  EXPECT_EQ(two.bytes_of(kPhaseWorkspace), one.bytes_of(kPhaseWorkspace));
  EXPECT_LT(two.total_bytes, one.total_bytes);
}

// Of a step, by ordinal and slot.
std::vector<std::vector<int32_t>> first_samples(const RankRun& rank) {
  std::vector<SamplePtr> samples = rank.log.samples;
  std::erase_if(samples, [](const SamplePtr& s) { return s->ordinal >= 4; });
  std::ranges::sort(samples, {}, [](const SamplePtr& s) { return std::pair(s->ordinal, s->slot); });
  std::vector<std::vector<int32_t>> ids;
  for (const SamplePtr& s : samples) ids.push_back(s->ids);
  return ids;
}

// Sizes change no sample: the first step has those of a run without the preset.
TEST(PresetRanks, ColocateDenseTrainsAlikeOnAllRanks) {
  const TempDir dir;
  const OptionSet o = options_with(dir, {"parallel.data=2", "parallel.zero_stage=2"});
  const std::vector<RankRun> plain = run_pipelines(o);
  const std::vector<RankRun> dense = run_pipelines(with_preset(o, "colocate_dense"));
  EXPECT_EQ(dense[0].digest, dense[1].digest);
  EXPECT_EQ(dense[0].log.steps.size(), 3u);
  for (size_t rank : {0, 1}) {
    EXPECT_EQ(first_samples(dense[rank]).size(), 8u);
    EXPECT_EQ(first_samples(dense[rank]), first_samples(plain[rank]));
  }
  EXPECT_EQ(dense[0].log.steps[0].get("training/logprob_max_abs_diff"), 0);
}

// A rank of a host's own loop: its engine runs beside its trainer's first step, which all ranks
// make together; the second step trains on samples of the weights before the first.
std::string hybrid_loop(const OptionSet& options, const std::shared_ptr<Runtime>& runtime) {
  const auto model = LoadedModel::open(runtime, options, PlanUse::kParts);
  EngineSession engine(model, for_session(options));
  TrainerSession trainer(model, for_session(options));
  Request request = request_from(options);
  request.prompt = {1, 2, 3};
  request.num_samples = 4;
  request.max_new_tokens = 12;
  engine.submit(request);
  engine.run();
  std::vector<SamplePtr> old = engine.take_finished();
  for (const SamplePtr& s : old) {
    s->scored = true;
    s->reward = low_id_reward(*s) + s->slot;
  }
  const std::vector<SamplePtr> batch = host_batch(trainer);
  engine.submit(request);
  std::exception_ptr failure;
  std::thread rollout([&] {
    try {
      engine.run();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  const TrainedStep first = trainer.step(batch);
  rollout.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  EXPECT_EQ(engine.take_finished().size(), 4u);
  EXPECT_EQ(first.version, 1u);
  for (const SamplePtr& s : old) EXPECT_EQ(s->versions, std::vector<uint64_t>(12, 0));
  trainer.step(old);
  return str(model->weight_digest());
}

std::vector<std::string> on_ranks(const OptionSet& options) {
  std::vector<std::shared_ptr<Runtime>> ranks = make_ranks(options);
  std::vector<std::string> out(ranks.size());
  run_ranks(std::move(ranks), [&](std::shared_ptr<Runtime> runtime) {
    out[static_cast<size_t>(runtime->ranks().rank())] = hybrid_loop(options, runtime);
  });
  return out;
}

TEST(PresetRanks, HybridStableGeneratesBesideStepsOfAllRanks) {
  const TempDir dir;
  const OptionSet o = options_with(dir, {"parallel.data=2", "trainer.num_minibatches=2"});
  const std::vector<std::string> corrected = on_ranks(with_preset(o, "hybrid_stable"));
  EXPECT_EQ(corrected[0], corrected[1]);
  OptionSet apart = o;
  apart.set_assignment("model.compute_copies=2");
  EXPECT_NE(on_ranks(apart)[0], corrected[0]) << "nothing corrects the old samples";
}

}  // namespace
}  // namespace rl::testing
