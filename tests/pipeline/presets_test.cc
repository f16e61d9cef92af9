// What each preset is for, as the plan and the estimate of a step's time show it.
#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/config/run_options.h"
#include "pipeline/plan/planner.h"
#include "smollm2_plan.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::smollm2;
using testing::smollm2_options;

using Texts = std::vector<std::string>;

OptionSet with_preset(OptionSet o, const char* name) {
  o.apply_preset(name);
  return o;
}

// Every arena and what every phase uses.
std::vector<uint64_t> sizes_of(const MemoryPlan& plan) {
  std::vector<uint64_t> sizes = {plan.total_bytes,
                                 plan.least_bytes,
                                 plan.baseline_bytes,
                                 plan.kv_bytes,
                                 plan.engine_workspace_bytes,
                                 plan.train_workspace_bytes};
  for (const PlanEntry& e : plan.arenas) sizes.push_back(e.bytes);
  for (const PlanEntry& e : plan_phases(plan)) sizes.push_back(e.bytes);
  return sizes;
}

TEST(Presets, LowMemoryEnlargesNothing) {
  for (const Texts& texts :
       std::vector<Texts>{{},
                          {"engine.max_num_seqs=2", "engine.max_num_batched_tokens=16"},
                          {"trainer.logprob_chunk_tokens=8", "trainer.max_tokens_per_device=128"},
                          {"trainer.logprob_chunk_tokens=0", "trainer.backward_weights=resident"},
                          {"algo.advantage=gae", "critic.max_tokens_per_device=256"}}) {
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.front());
    const OptionSet before = smollm2_options(texts), after = with_preset(before, "low_memory");
    for (const PlanUse use : {PlanUse::kGenerate, PlanUse::kTrain, PlanUse::kPipeline,
                              PlanUse::kParts, PlanUse::kForward}) {
      const auto a = sizes_of(plan_memory(before, smollm2(), use)),
                 b = sizes_of(plan_memory(after, smollm2(), use));
      ASSERT_EQ(a.size(), b.size());
      for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(b[i], a[i]) << i;
    }
  }
}

TEST(Presets, NormsAndBiasesHaveNoDecay) {
  for (const char* name :
       {"async_fast", "colocate_dense", "hybrid_stable", "long_context", "low_memory"}) {
    const OptionSet after = with_preset(smollm2_options({"engine.max_model_len=8192"}), name);
    EXPECT_EQ(trainer_options_from(after, 8192, 8192).optimizer.no_decay,
              (Texts{"norms", "biases"}))
        << name;
    plan_memory(after, smollm2(), PlanUse::kTrain);  // a model without biases is fine
  }
  EXPECT_TRUE(trainer_options_from(smollm2_options(), 8192, 8192).optimizer.no_decay.empty());
}

TEST(Presets, LowMemorySavesInEveryUse) {
  const OptionSet before = smollm2_options(), after = with_preset(before, "low_memory");
  for (const PlanUse use : {PlanUse::kGenerate, PlanUse::kTrain, PlanUse::kPipeline}) {
    EXPECT_LT(plan_memory(after, smollm2(), use).least_bytes,
              plan_memory(before, smollm2(), use).least_bytes);
  }
}

// At the model's full length a budget that refuses the defaults holds the preset.
TEST(Presets, LongContextTrainsLongerSequencesInTheSameBudget) {
  OptionSet o = smollm2_options({"engine.max_model_len=8192"});
  OptionSet preset = with_preset(o, "long_context");
  const uint64_t needed = plan_memory(o, smollm2(), PlanUse::kPipeline).least_bytes,
                 enough = plan_memory(preset, smollm2(), PlanUse::kPipeline).least_bytes;
  ASSERT_LT(enough, needed);
  o.set_u64("runtime.memory_budget_bytes", enough);
  preset.set_u64("runtime.memory_budget_bytes", enough);
  expect_error(Code::kResourceExhausted, [&] { plan_memory(o, smollm2(), PlanUse::kPipeline); });
  EXPECT_EQ(plan_memory(preset, smollm2(), PlanUse::kPipeline).max_model_len, 8192);
  EXPECT_GE(preset.get_i64("sampling.max_new_tokens"), 1024);
}

// All samples of a step run at once: their KV lies in memory that training needs anyway.
TEST(Presets, ColocateDenseDecodesMoreSequencesInTrainingsMemory) {
  const OptionSet before = smollm2_options({"pipeline.prompts_per_step=32"}),
                  after = with_preset(before, "colocate_dense");
  const MemoryPlan plan = plan_memory(before, smollm2(), PlanUse::kPipeline),
                   dense = plan_memory(after, smollm2(), PlanUse::kPipeline);
  EXPECT_EQ(plan.engine.max_num_seqs, 64);
  EXPECT_EQ(dense.engine.max_num_seqs, 256);  // of the step, and KV blocks for all of them
  EXPECT_EQ(dense.engine.num_blocks, Planner(after, smollm2(), PlanUse::kPipeline).max_blocks());
  EXPECT_EQ(dense.bytes_of("phase workspace"), plan.bytes_of("phase workspace"));
  EXPECT_LT(dense.total_bytes, plan_memory(after, smollm2(), PlanUse::kParts).total_bytes);
}

TEST(Presets, ColocateDenseUndoesWhatAPipelineRefuses) {
  const OptionSet apart = smollm2_options({"model.compute_copies=2"});
  expect_error(Code::kConflict, [&] { plan_memory(apart, smollm2(), PlanUse::kPipeline); });
  plan_memory(with_preset(apart, "colocate_dense"), smollm2(), PlanUse::kPipeline);
}

TEST(Presets, AsyncFastIsForAPipelineThatGeneratesAhead) {
  const OptionSet after = with_preset(smollm2_options(), "async_fast");
  EXPECT_TRUE(generates_ahead(after));
  const MemoryPlan plan = plan_memory(after, smollm2(), PlanUse::kPipeline);
  EXPECT_GT(plan.bytes_of(kEngineWorkspace), 0u);
  EXPECT_GT(plan.bytes_of(kTrainingWorkspace), 0u);
  EXPECT_EQ(trainer_options_from(after, 128, 128).correction.weights.level,
            CorrectionLevel::kToken);
}

// Engine and trainer have a copy each, and samples of older weights are corrected.
TEST(Presets, HybridStableIsForAnEngineBesideATrainer) {
  const OptionSet before = smollm2_options(), after = with_preset(before, "hybrid_stable");
  const auto copies = [](const OptionSet& o) {
    const MemoryPlan plan = plan_memory(o, smollm2(), PlanUse::kParts);
    return std::ranges::count(plan.arenas, "packed weights, forward", &PlanEntry::name);
  };
  EXPECT_EQ(copies(before), 1);
  EXPECT_EQ(copies(after), 2);
  const TrainerOptions trainer = trainer_options_from(after, 128, 128);
  EXPECT_EQ(trainer.correction.weights.level, CorrectionLevel::kToken);
  EXPECT_FALSE(trainer_options_from(before, 128, 128).correction.reads_mismatch());
  const Error e =
      expect_error(Code::kConflict, [&] { plan_memory(after, smollm2(), PlanUse::kPipeline); });
  std::vector<std::string> keys = {e.key};
  for (const Error& part : e.parts) keys.push_back(part.key);
  EXPECT_TRUE(std::ranges::count(keys, "model.compute_copies")) << e.message;
  EXPECT_TRUE(std::ranges::count(keys, "buffer.max_staleness")) << e.message;
}

}  // namespace
}  // namespace rl
