// What a plan refuses, with the option, its opponent and the number that would do; what it
// suggests; and that the chosen sizes are the largest that fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/fs.h"
#include "pipeline/plan/planner.h"
#include "smollm2_plan.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::kBlock;
using testing::smollm2;
using testing::smollm2_options;

using Texts = std::vector<std::string>;

std::vector<Error> violations(const Texts& texts, PlanUse use, const ModelConfig& config) {
  return plan_violations(smollm2_options(texts), config, use);
}

struct Refusal {
  Texts texts;
  const char *key, *other, *expected;
};

// The refusal is the only one.
void expect_refusal(const Refusal& r, const std::vector<Error>& errors, Code code) {
  SCOPED_TRACE(r.texts.back());
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, code);
  EXPECT_EQ(errors[0].key, r.key);
  EXPECT_EQ(errors[0].other_key, r.other);
  EXPECT_EQ(errors[0].expected, r.expected);
}

TEST(PlanRefusals, WhatAPipelineCannotHaveIsTakenByAnEngine) {
  for (const Refusal& r : std::vector<Refusal>{
           {{"engine.scheduling_policy=priority"},
            "engine.scheduling_policy",
            "pipeline.mode",
            "fcfs"},
           {{"buffer.policy=newest"}, "buffer.policy", "pipeline.mode", "fifo"},
           {{"buffer.max_staleness=0"}, "buffer.max_staleness", "pipeline.mode", "-1"},
           {{"buffer.spill_path=d"}, "buffer.spill_path", "pipeline.mode", "empty"},
           {{"buffer.store_path=d"}, "buffer.store_path", "pipeline.mode", "empty"},
           {{"sampling.seed=0"}, "sampling.seed", "runtime.seed", "-1"},
           {{"model.compute_copies=2"}, "model.compute_copies", "pipeline.mode", "1"}}) {
    expect_refusal(r, violations(r.texts, PlanUse::kPipeline, smollm2()), Code::kConflict);
    for (const PlanUse use : {PlanUse::kGenerate, PlanUse::kParts, PlanUse::kTrain}) {
      EXPECT_TRUE(violations(r.texts, use, smollm2()).empty()) << r.key;
    }
  }
}

TEST(PlanRefusals, AScalarHeadDoesNotGenerate) {
  const Texts texts = {"algo.objective=reward_model"};
  for (const PlanUse use : {PlanUse::kGenerate, PlanUse::kParts}) {
    const std::vector<Error> errors = violations(texts, use, with_scalar_head(smollm2()));
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].code, Code::kConflict);
    EXPECT_EQ(errors[0].key, "algo.objective");
    EXPECT_EQ(errors[0].expected, "another objective");
  }
  for (const PlanUse use : {PlanUse::kModel, PlanUse::kTrain, PlanUse::kPipeline}) {
    EXPECT_TRUE(violations(texts, use, with_scalar_head(smollm2())).empty());
  }
}

// The model's limit is 8192.
TEST(PlanRefusals, AResponseLeavesRoomForAPrompt) {
  const auto of = [](const std::string& text, PlanUse use) {
    return violations({"engine.max_model_len=0", "engine.max_num_batched_tokens=9000", text}, use,
                      smollm2());
  };
  for (const PlanUse use : {PlanUse::kPipeline, PlanUse::kGenerate, PlanUse::kParts}) {
    EXPECT_TRUE(of("sampling.max_new_tokens=8191", use).empty());
    expect_refusal({{"sampling.max_new_tokens=8192"},
                    "sampling.max_new_tokens",
                    "engine.max_model_len",
                    "at most 8191"},
                   of("sampling.max_new_tokens=8192", use), Code::kConflict);
    const bool evaluates = use == PlanUse::kPipeline;
    EXPECT_EQ(of("eval.max_new_tokens=8192", use).size(), evaluates ? 1u : 0u);
    EXPECT_TRUE(of("eval.max_new_tokens=8191", use).empty());
  }
  EXPECT_EQ(of("eval.max_new_tokens=8192", PlanUse::kPipeline).at(0).key, "eval.max_new_tokens");
  EXPECT_TRUE(of("sampling.max_new_tokens=8192", PlanUse::kTrain).empty());
  EXPECT_TRUE(of("sampling.max_new_tokens=8192", PlanUse::kModel).empty());
  // A length that options set is a rule of theirs.
  EXPECT_TRUE(violations({"sampling.max_new_tokens=128"}, PlanUse::kGenerate, smollm2()).empty());
}

TEST(PlanRefusals, WithoutChunksAWholeSequenceFitsAForward) {
  const auto of = [](const char* rows, PlanUse use) {
    return violations({"engine.max_model_len=0", "engine.chunked_prefill=false",
                       str("engine.max_num_batched_tokens=", rows)},
                      use, smollm2());
  };
  EXPECT_TRUE(of("8192", PlanUse::kGenerate).empty());
  EXPECT_TRUE(of("8191", PlanUse::kTrain).empty());
  expect_refusal({{"8191"},
                  "engine.chunked_prefill",
                  "engine.max_num_batched_tokens",
                  "engine.max_num_batched_tokens of at least 8192"},
                 of("8191", PlanUse::kGenerate), Code::kConflict);
}

TEST(PlanRefusals, SwapSpaceHoldsABlockAndNoMoreThanIdsCount) {
  const auto of = [](uint64_t bytes) {
    OptionSet o = smollm2_options({"engine.preemption=swap"});
    o.set_u64("engine.swap_space_bytes", bytes);
    return plan_violations(o, smollm2(), PlanUse::kGenerate);
  };
  EXPECT_TRUE(of(0).empty());
  EXPECT_TRUE(of(kBlock).empty());
  EXPECT_TRUE(of(kBlock * INT32_MAX).empty());
  for (const uint64_t bytes : {kBlock - 1, kBlock * (uint64_t{INT32_MAX} + 1)}) {
    expect_refusal({{"swap"}, "engine.swap_space_bytes", "", "1..2147483647 blocks"}, of(bytes),
                   Code::kOutOfRange);
  }
  EXPECT_TRUE(contains(of(kBlock - 1).at(0).message, str("is ", kBlock - 1, ", which holds 0 KV")));
}

TEST(PlanRefusals, ABudgetHoldsTheRowsOfTheLongestSample) {
  const auto refused = [](const Texts& texts, const char* key, const char* expected) {
    const bool scores = texts[0] == "algo.objective=reward_model";
    expect_refusal(
        {texts, key, "engine.max_model_len", expected},
        violations(texts, PlanUse::kTrain, scores ? with_scalar_head(smollm2()) : smollm2()),
        Code::kConflict);
  };
  const Texts plain = {"algo.objective=rl"}, scores = {"algo.objective=reward_model"},
              gae = {"algo.advantage=gae"};
  const auto with = [](Texts texts, const std::string& key, int rows) {
    texts.push_back(str(key, "=", rows));
    return texts;
  };
  for (const char* key : {"trainer.max_tokens_per_device", "trainer.seq_len",
                          "trainer.logprob_max_tokens_per_device"}) {
    EXPECT_TRUE(violations(with(plain, key, 127), PlanUse::kTrain, smollm2()).empty());
    refused(with(plain, key, 126), key, "0, or at least 127");
    refused(with(scores, key, 127), key, "0, or at least 128");
    EXPECT_TRUE(
        violations(with(scores, key, 128), PlanUse::kTrain, with_scalar_head(smollm2())).empty());
    Texts alone = with(plain, key, 126);
    alone.push_back("trainer.oversize=alone");
    EXPECT_TRUE(violations(alone, PlanUse::kTrain, smollm2()).empty());
    EXPECT_TRUE(violations(with(plain, key, 126), PlanUse::kGenerate, smollm2()).empty());
  }
  const char* reward = "reward.forward_max_tokens_per_device";
  refused(with(plain, reward, 127), reward, "0, or at least 128");
  EXPECT_TRUE(violations(with(plain, reward, 128), PlanUse::kTrain, smollm2()).empty());
  for (const char* key : {"critic.max_tokens_per_device", "critic.forward_max_tokens_per_device"}) {
    refused(with(gae, key, 126), key, "0, or at least 127");
    EXPECT_TRUE(violations(with(gae, key, 127), PlanUse::kTrain, smollm2()).empty());
    EXPECT_TRUE(violations(with(plain, key, 126), PlanUse::kTrain, smollm2()).empty());
  }
  const char* reference = "reference.forward_max_tokens_per_device";
  refused(with(plain, reference, 126), reference, "0, or at least 127");
  EXPECT_TRUE(violations(with(plain, reference, 127), PlanUse::kTrain, smollm2()).empty());
}

TEST(PlanRefusals, APaddedSequenceFitsTheBudget) {
  const auto of = [](const Texts& texts) { return violations(texts, PlanUse::kTrain, smollm2()); };
  const char* budget = "trainer.max_tokens_per_device";
  expect_refusal({{"trainer.max_tokens_per_device=199", "trainer.pad_to_multiple_of=100"},
                  "trainer.pad_to_multiple_of",
                  budget,
                  "trainer.max_tokens_per_device of 0, or at least 200"},
                 of({"trainer.max_tokens_per_device=199", "trainer.pad_to_multiple_of=100"}),
                 Code::kConflict);
  EXPECT_TRUE(of({"trainer.max_tokens_per_device=200", "trainer.pad_to_multiple_of=100"}).empty());
  const Texts by_length = {"trainer.max_tokens_per_device=139", "trainer.seq_len=140"};
  expect_refusal(
      {by_length, "trainer.seq_len", budget, "trainer.max_tokens_per_device of 0, or at least 140"},
      of(by_length), Code::kConflict);
  Texts counted = by_length;
  counted.push_back("trainer.dynamic_batching=false");
  EXPECT_TRUE(of(counted).empty());
  // A sample above the budget is padded alone.
  const Texts alone = {"trainer.oversize=alone", "trainer.max_tokens_per_device=64",
                       "trainer.pad_to_multiple_of=100"};
  expect_refusal({alone, "trainer.pad_to_multiple_of", budget,
                  "trainer.max_tokens_per_device of 0, or at least 100"},
                 of(alone), Code::kConflict);
}

TEST(PlanRefusals, MinibatchesDivideTheSamplesOfAStep) {
  const Texts rl = {"trainer.global_batch_size=5"},
              sft = {"algo.objective=sft", "trainer.global_batch_size=5"};
  expect_refusal(
      {rl, "trainer.global_batch_size", "pipeline.samples_per_prompt", "a divisor of 64"},
      violations(rl, PlanUse::kPipeline, smollm2()), Code::kConflict);
  expect_refusal({sft, "trainer.global_batch_size", "pipeline.prompts_per_step", "a divisor of 8"},
                 violations(sft, PlanUse::kPipeline, smollm2()), Code::kConflict);
  EXPECT_TRUE(violations(rl, PlanUse::kParts, smollm2()).empty());
}

TEST(PlanRefusals, AModelIsNeeded) {
  OptionSet o = smollm2_options({});
  const Error e =
      expect_error(Code::kFailedPrecondition, [&] { plan_memory(o, real_fs(), PlanUse::kModel); });
  EXPECT_EQ(e.key, "model.path");
}

Error too_small(OptionSet o, uint64_t budget, PlanUse use) {
  o.set_u64("runtime.memory_budget_bytes", budget);
  return expect_error(Code::kResourceExhausted, [&] { plan_memory(o, smollm2(), use); });
}

TEST(PlanRefusals, AnErrorNamesThePhaseThatNeedsMost) {
  const OptionSet o = smollm2_options({});
  const auto phase_of = [&](PlanUse use) {
    const Planner p(o, smollm2(), use);
    const Error e = too_small(o, 1, use);
    const std::string rest =
        str(" needs ", p.min_total(), " bytes (", p.always_bytes(), " held throughout, ",
            p.phase_bytes(p.min_tokens(), p.min_blocks()), " of workspace, ", p.baseline_bytes(),
            " outside arenas)");
    EXPECT_TRUE(contains(e.message, rest));
    const std::string text = e.message.substr(0, e.message.find(" needs"));
    return text;
  };
  EXPECT_EQ(phase_of(PlanUse::kModel), "phase start-up");
  EXPECT_EQ(phase_of(PlanUse::kGenerate), "phase rollout");
  EXPECT_EQ(phase_of(PlanUse::kTrain), "phase train");
}

// A share of the budget is for the engine, so the whole must be larger.
TEST(PlanRefusals, TheBudgetThatIsAskedForHoldsShareAndMargin) {
  OptionSet o = smollm2_options({"engine.memory_fraction=0.25"});
  const Planner p(o, smollm2(), PlanUse::kGenerate);
  ASSERT_GT(4 * p.min_shared(), p.min_total());
  EXPECT_EQ(too_small(o, 1, PlanUse::kGenerate).expected, str("at least ", 4 * p.min_shared()));
  o.set_f64("engine.memory_fraction", 1);
  EXPECT_EQ(too_small(o, 1, PlanUse::kGenerate).expected, str("at least ", p.min_total()));
  o.set_u64("runtime.memory_margin_bytes", 1000);
  EXPECT_EQ(too_small(o, 2000, PlanUse::kGenerate).expected,
            str("at least ", p.min_total() + 1000));
}

TEST(PlanRefusals, TheFractionThatIsAskedForIsEnough) {
  OptionSet o = smollm2_options({"engine.memory_fraction=0.25"});
  const uint64_t budget = Planner(o, smollm2(), PlanUse::kGenerate).min_total();
  const Error e = too_small(o, budget, PlanUse::kGenerate);
  EXPECT_EQ(e.key, "engine.memory_fraction");
  EXPECT_TRUE(contains(e.message, "engine.memory_fraction 0.25 leaves "));
  EXPECT_TRUE(contains(e.message, str("longest length take ", 4 * kBlock)));
  const double least = std::stod(e.expected.substr(std::string("at least ").size()));
  o.set_f64("engine.memory_fraction", least);
  o.set_u64("runtime.memory_budget_bytes", budget);
  EXPECT_EQ(plan_memory(o, smollm2(), PlanUse::kGenerate).engine.num_blocks, 4);
  o.set_f64("engine.memory_fraction", least - 2e-4);
  expect_error(Code::kResourceExhausted, [&] { plan_memory(o, smollm2(), PlanUse::kGenerate); });
}

TEST(PlanSizes, TheMicroBatchIsTheLargestThatFits) {
  OptionSet o = smollm2_options({});
  for (const uint64_t gib : {4, 5}) {
    const uint64_t budget = (gib << 30) + 12345;
    o.set_u64("runtime.memory_budget_bytes", budget);
    // With the scratch of four threads, which all runs of up to four plan for.
    const Planner four(o, smollm2(), PlanUse::kPipeline, 4);
    const uint64_t room = budget - four.always_bytes() - four.baseline_bytes();
    const int64_t rows = plan_memory(o, smollm2(), PlanUse::kPipeline).max_tokens;
    EXPECT_LE(four.train_bytes(rows), room);
    EXPECT_GT(four.train_bytes(rows + 64), room);
  }
}

TEST(PlanSizes, ThePoolTakesWhatTheBudgetLeaves) {
  OptionSet o = smollm2_options({"engine.memory_fraction=1"});
  const Planner p(o, smollm2(), PlanUse::kGenerate);
  const uint64_t least = p.min_total();
  const auto blocks = [&](uint64_t budget) {
    o.set_u64("runtime.memory_budget_bytes", budget);
    return plan_memory(o, smollm2(), PlanUse::kGenerate).engine.num_blocks;
  };
  EXPECT_EQ(p.max_blocks(), 256);
  EXPECT_EQ(blocks(least), 4);
  EXPECT_EQ(blocks(least + 3 * kBlock - 1), 6);
  EXPECT_EQ(blocks(least + 3 * kBlock), 7);
  EXPECT_EQ(blocks(least + 1000 * kBlock), 256);
}

TEST(PlanSizes, WithoutABudgetThePoolIsAGibibyteAtMost) {
  const auto blocks = [](const char* sequences) {
    const OptionSet o = smollm2_options(
        {"engine.max_num_batched_tokens=4096", str("engine.max_num_seqs=", sequences)});
    return plan_memory(o, smollm2(), PlanUse::kGenerate).engine.num_blocks;
  };
  EXPECT_EQ(blocks("64"), 256);
  EXPECT_EQ(blocks("4096"), static_cast<int64_t>((uint64_t{1} << 30) / kBlock));
}

TEST(PlanText, IsATableOfArenasPartsAndWhatIsOutside) {
  MemoryPlan plan;
  plan.arenas = {{"weights", "always", 12}, {std::string(40, 'n'), "shared", 5}};
  plan.parts = {{"KV pool", "rollout", 3}};
  plan.outside = {{"threads", "always", 4}};
  plan.baseline_bytes = 4;
  plan.arena_bytes = 17;
  plan.total_bytes = 21;
  const auto row = [](std::string name, const std::string& rest) {
    name.resize(std::max<size_t>(36, name.size()), ' ');
    return name + rest + "\n";
  };
  EXPECT_EQ(render_plan(plan),
            row("weights", "12  always") + row(std::string(40, 'n') + " ", "5  shared") +
                row("  KV pool", "3  rollout") + row("outside arenas (estimate)", "4  always") +
                row("  threads", "4  always") + row("total", "21  ") +
                row("in use", "16  start-up"));
  EXPECT_EQ(plan.bytes_of("weights"), 12u);
  EXPECT_EQ(plan.bytes_of("KV pool"), 0u) << "a part is no arena";
}

TEST(PlanText, EnginesShareTheBytesOfPoolAndWorkspace) {
  MemoryPlan plan;
  plan.num_engines = 3;
  plan.kv_bytes = 300;
  plan.engine_workspace_bytes = 60;
  std::byte bytes[360];
  const EngineSetMemory memory = plan.engine_memory(bytes);
  EXPECT_EQ(memory.num_engines, 3);
  EXPECT_EQ(memory.kv, bytes);
  EXPECT_EQ(memory.kv_bytes, 100u);
  EXPECT_EQ(memory.workspace, bytes + 300);
  EXPECT_EQ(memory.workspace_bytes, 20u);
}

}  // namespace
}  // namespace rl
