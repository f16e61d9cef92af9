// The numbers of a plan, worked out by hand for the shape of SmolLM2-135M: rows, blocks, samples,
// and what is estimated outside arenas.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "pipeline/plan/planner.h"
#include "smollm2_plan.h"
namespace rl {
namespace {

using testing::kBlock;
using testing::smollm2;
using testing::smollm2_options;

using Texts = std::vector<std::string>;
using Bytes = std::map<std::string, uint64_t>;

Planner planner(const Texts& texts, PlanUse use = PlanUse::kPipeline) {
  const Settings settings = smollm2_options(texts);
  const bool scores = settings.algo.objective == Objective::kRewardModel;
  return Planner(settings, scores ? with_scalar_head(smollm2()) : smollm2(), use);
}

Bytes outside(const Texts& texts, PlanUse use = PlanUse::kPipeline) {
  Bytes out;
  for (const PlanEntry& e : planner(texts, use).outside()) out[e.name] = e.bytes;
  return out;
}

TEST(PlannerNumbers, OutsideArenasAreProcessThreadsTokenizerAndSamples) {
  const uint64_t sample = 512 + 128 * 4 + 32 * 18;
  const Bytes model = {{"code and kernels", uint64_t{48} << 20},
                       {"threads", uint64_t{2} << 20},
                       {"tokenizer", 49152 * 640},
                       {"rope tables", 128 * 64 * 4}};
  Bytes engine = model, run = model;
  engine["samples"] = 64 * sample;
  run["samples"] = 64 * sample;
  run["arrays of a training step"] = 64 * 32 * 80;
  EXPECT_EQ(outside({}, PlanUse::kModel), model);
  EXPECT_EQ(outside({}, PlanUse::kGenerate), engine);
  EXPECT_EQ(outside({}, PlanUse::kTrain), run);
  EXPECT_EQ(outside({}, PlanUse::kParts), run);
  EXPECT_EQ(outside({}, PlanUse::kPipeline), run);
  uint64_t sum = 0;
  for (const auto& [name, bytes] : run) sum += bytes;
  EXPECT_EQ(planner({}).baseline_bytes(), sum);
}

TEST(PlannerNumbers, EachRoleHasItsPositionsAndArrays) {
  const uint64_t rope = 128 * 64 * 4, tokens = 64 * 32;
  const std::tuple<Texts, uint64_t, uint64_t> cases[] = {
      {{}, 1, 80},
      {{"algo.kl.where=loss"}, 2, 88},
      {{"algo.kl.where=reward"}, 2, 88},
      {{"algo.advantage=gae"}, 2, 136},
      {{"algo.advantage=gae", "algo.kl.where=loss"}, 3, 144}};
  for (const auto& [texts, models, each] : cases) {
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.back());
    EXPECT_EQ(outside(texts).at("rope tables"), models * rope);
    EXPECT_EQ(outside(texts).at("arrays of a training step"), tokens * each);
  }
  // Only a trainer has roles.
  EXPECT_EQ(outside({"algo.kl.where=loss"}, PlanUse::kGenerate).at("rope tables"), rope);
  EXPECT_EQ(outside({"algo.advantage=gae"}, PlanUse::kGenerate).at("rope tables"), rope);
}

TEST(PlannerNumbers, ATeacherAndARewardModelHaveThePositionsOfTheirOwnShape) {
  ModelConfig wide = smollm2();
  wide.head_dim = 128;
  PlanModels models(smollm2());
  models.teacher = wide;
  const auto rope = [&](PlanUse use) {
    for (const PlanEntry& e : Planner(smollm2_options({}), models, use).outside()) {
      if (e.name == "rope tables") return e.bytes;
    }
    return uint64_t{0};
  };
  EXPECT_EQ(rope(PlanUse::kTrain), 128u * (64 + 128) * 4);
  EXPECT_EQ(rope(PlanUse::kGenerate), 128u * 64 * 4) << "an engine has no teacher";
  models.reward = smollm2();
  EXPECT_EQ(rope(PlanUse::kPipeline), 128u * (64 + 128 + 64) * 4);
}

TEST(PlannerNumbers, TheMostSamplesHeldAreThoseOfStepEnginesOrEvaluation) {
  const uint64_t sample = 512 + 128 * 4 + 32 * 18;
  const auto samples = [](const Texts& texts, PlanUse use = PlanUse::kPipeline) {
    return outside(texts, use).at("samples");
  };
  EXPECT_EQ(samples({"pipeline.prompts_per_step=9"}), 72 * sample);
  EXPECT_EQ(samples({"algo.advantage=remax"}), 72 * sample) << "a greedy response of each prompt";
  EXPECT_EQ(samples({"engine.num_engines=3"}), 192 * sample);
  EXPECT_EQ(samples({"engine.num_engines=3"}, PlanUse::kTrain), 64 * sample);
  const Texts eval = {"eval.max_prompts=50", "eval.samples_per_prompt=4"};
  EXPECT_EQ(samples(eval), 200 * sample);
  EXPECT_EQ(samples(eval, PlanUse::kParts), 64 * sample) << "only a pipeline evaluates";
  EXPECT_EQ(samples({"engine.max_num_seqs=5"}, PlanUse::kGenerate), 5 * sample);
}

TEST(PlannerNumbers, AResponseIsAsLongAsAnyOptionAllows) {
  const auto arrays = [](const Texts& texts) {
    return outside(texts).at("arrays of a training step");
  };
  EXPECT_EQ(arrays({"eval.max_new_tokens=48"}), 64u * 48 * 80);
  EXPECT_EQ(arrays({"eval.max_new_tokens=16"}), 64u * 32 * 80);
  EXPECT_EQ(arrays({"sampling.max_new_tokens=200"}), 64u * 127 * 80) << "a prompt has a token";
  // Given responses may fill the whole sequence, and there is one of each prompt.
  const Texts given = {"algo.objective=sft"};
  EXPECT_EQ(arrays(given), 8u * 127 * 80);
  EXPECT_EQ(outside(given).at("samples"), 8u * (512 + 128 * 4 + 127 * 18));
  EXPECT_EQ(arrays({"algo.objective=dpo"}), 16u * 127 * (80 + 8));
}

TEST(PlannerNumbers, TheLeastRowsHoldTheLongestSample) {
  // With whether options fix the rows.
  const std::tuple<Texts, int64_t, bool> cases[] = {
      {{}, 128, false},
      {{"engine.max_model_len=129"}, 192, false},
      {{"trainer.pad_to_multiple_of=100"}, 256, false},
      {{"trainer.max_tokens_per_device=150"}, 150, true},
      {{"trainer.seq_len=300"}, 300, true},
      {{"trainer.seq_len=300", "trainer.max_tokens_per_device=400"}, 300, true},
      {{"trainer.seq_len=300", "trainer.sequence_packing=false"}, 320, false},
      {{"trainer.dynamic_batching=false"}, 127, true},
      {{"trainer.dynamic_batching=false", "algo.objective=reward_model"}, 128, true},
      {{"trainer.dynamic_batching=false", "trainer.seq_len=300"}, 127, true}};
  for (const auto& [texts, rows, fixed] : cases) {
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.back());
    EXPECT_EQ(planner(texts).min_tokens(), rows);
    EXPECT_EQ(planner(texts).max_tokens() == rows, fixed);
  }
}

TEST(PlannerNumbers, TheMostRowsHoldTheLargestMinibatch) {
  const std::pair<Texts, int64_t> cases[] = {
      {{}, 4096},
      {{"trainer.num_minibatches=16"}, 512},
      {{"trainer.num_minibatches=12"}, 768},
      {{"trainer.global_batch_size=8"}, 1024},
      {{"trainer.global_batch_size=8", "trainer.pad_to_multiple_of=100"}, 1600},
      {{"pipeline.prompts_per_step=2"}, 2048},
      {{"algo.objective=dpo"}, 2048},
      {{"algo.objective=sft"}, 1024},
      {{"trainer.num_minibatches=64"}, 128},
      {{"trainer.max_tokens_per_device=150"}, 150},
      {{"engine.max_model_len=5000"}, 5056}};
  for (const auto& [texts, rows] : cases) {
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.back());
    EXPECT_EQ(planner(texts).max_tokens(), rows);
  }
  EXPECT_EQ(planner({"pipeline.prompts_per_step=2"}, PlanUse::kTrain).max_tokens(), 4096);
  EXPECT_EQ(planner({"engine.max_model_len=5000"}, PlanUse::kTrain).max_tokens(), 5056);
}

TEST(PlannerNumbers, BlocksAreThoseOfGroupsThatShareTheirPrompts) {
  EXPECT_EQ(planner({}).kv_bytes(1), kBlock);
  EXPECT_EQ(planner({}).kv_bytes(7), 7 * kBlock);
  EXPECT_EQ(planner({}).min_blocks(), 4);
  EXPECT_EQ(planner({"engine.max_model_len=129"}).min_blocks(), 5);
  // A prompt of 95 tokens has two whole blocks; each response takes two more.
  const std::pair<Texts, int64_t> cases[] = {{{}, 8 * (2 + 8 * 2)},
                                             {{"engine.max_num_seqs=10"}, 2 * (2 + 8 * 2)},
                                             {{"engine.max_num_seqs=3"}, 2 + 3 * 2},
                                             {{"engine.max_num_seqs=1"}, 4},
                                             {{"eval.samples_per_prompt=16"}, 4 * (2 + 16 * 2)},
                                             {{"eval.samples_per_prompt=4"}, 8 * (2 + 8 * 2)},
                                             {{"algo.objective=sft"}, 64 * 4},
                                             {{"sampling.max_new_tokens=128"}, 8 * (8 * 4)}};
  for (const auto& [texts, blocks] : cases) {
    SCOPED_TRACE(texts.empty() ? "defaults" : texts.back());
    EXPECT_EQ(planner(texts).max_blocks(), blocks);
  }
  EXPECT_EQ(planner({}, PlanUse::kGenerate).max_blocks(), 64 * 4) << "requests share nothing";
}

TEST(PlannerNumbers, SamplesOfAStepAreKnownInAPipeline) {
  EXPECT_EQ(planner({}).step_samples(), 64);
  EXPECT_EQ(planner({"algo.advantage=remax"}).step_samples(), 64);
  EXPECT_EQ(planner({"algo.objective=sft"}).step_samples(), 8);
  EXPECT_EQ(planner({"algo.objective=dpo"}).step_samples(), 16);
  EXPECT_EQ(planner({}, PlanUse::kTrain).step_samples(), 0);
  EXPECT_EQ(planner({}, PlanUse::kParts).step_samples(), 0);
}

TEST(PlannerNumbers, OnlyWhatGeneratesHasAnEngine) {
  const Texts sft = {"algo.objective=sft"}, scores = {"algo.objective=reward_model"};
  const Texts eval = {"algo.objective=sft", "eval.path=e"};
  const Texts scored = {"algo.objective=reward_model", "eval.path=e"};
  const auto generates = [](const Texts& texts, PlanUse use) {
    const bool has = planner(texts, use).has_engine();
    EXPECT_EQ(planner(texts, use).rollout_bytes(4) != 0, has);
    return has;
  };
  EXPECT_TRUE(generates({}, PlanUse::kPipeline));
  EXPECT_TRUE(generates({"algo.objective=distill"}, PlanUse::kPipeline));
  EXPECT_FALSE(generates(sft, PlanUse::kPipeline));
  EXPECT_TRUE(generates(eval, PlanUse::kPipeline));
  EXPECT_FALSE(generates(scores, PlanUse::kPipeline));
  EXPECT_FALSE(generates(scored, PlanUse::kPipeline));
  EXPECT_TRUE(generates(sft, PlanUse::kGenerate));
  EXPECT_TRUE(generates(sft, PlanUse::kParts));
  EXPECT_FALSE(generates({}, PlanUse::kModel));
  EXPECT_FALSE(generates({}, PlanUse::kTrain));
  for (const auto& [use, trained] : {std::pair(PlanUse::kModel, false),
                                     {PlanUse::kGenerate, false},
                                     {PlanUse::kTrain, true},
                                     {PlanUse::kPipeline, true},
                                     {PlanUse::kParts, true}}) {
    EXPECT_EQ(trains(Settings(OptionSet()), use), trained);
    EXPECT_EQ(planner({}, use).train_bytes(128) != 0, trained);
  }
}

TEST(PlannerNumbers, SwapSpaceIsOfWholeBlocks) {
  const auto swap = [](uint64_t bytes) {
    OptionSet o = smollm2_options({"engine.preemption=swap"});
    o.set_u64("engine.swap_space_bytes", bytes);
    return Planner(o, smollm2(), PlanUse::kGenerate);
  };
  EXPECT_EQ(swap(3 * kBlock).engine().swap_blocks, 3);
  EXPECT_EQ(swap(3 * kBlock - 1).engine().swap_blocks, 2);
  EXPECT_EQ(swap(3 * kBlock).swap_bytes(), 3 * kBlock);
  EXPECT_EQ(planner({}).swap_bytes(), 0u);
}

std::vector<std::string> arenas(const Texts& texts, PlanUse use) {
  std::vector<std::string> names;
  const Planner plan = planner(texts, use);
  for (const PlanEntry& e : plan.always()) {
    EXPECT_EQ(e.phase, "always");
    if (e.name != "matmul workspace") names.push_back(e.name);
  }
  return names;
}

TEST(PlannerNumbers, ArenasAreInTheOrderInWhichTheyAreReserved) {
  const std::string packed = "packed weights, forward", copy = "unpacked weights, copy",
                    masters = "master weights", gradients = "gradients",
                    states = "optimizer states", backward = "packed weights, backward";
  const Texts model = {masters, packed}, learner = {gradients, states, backward};
  const auto joined = [](std::vector<Texts> lists) {
    Texts all;
    for (const Texts& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  };
  EXPECT_EQ(arenas({}, PlanUse::kModel), model);
  EXPECT_EQ(arenas({}, PlanUse::kTrain), joined({model, learner}));
  EXPECT_EQ(arenas({"model.compute_copies=2"}, PlanUse::kGenerate),
            joined({model, {copy, packed, copy}}));
  EXPECT_EQ(arenas({"algo.kl.where=loss"}, PlanUse::kTrain),
            joined({model, {copy, packed}, learner}));
  EXPECT_EQ(arenas({"algo.advantage=gae"}, PlanUse::kTrain),
            joined({model, learner, {masters, packed}, learner}));
  EXPECT_EQ(arenas({"algo.advantage=gae"}, PlanUse::kGenerate), model);
}

TEST(PlannerNumbers, TheEnginesShareIsWeightsAndALongestSequenceOfEach) {
  const Planner one = planner({}, PlanUse::kGenerate),
                three = planner({"engine.num_engines=3"}, PlanUse::kGenerate);
  EXPECT_EQ(one.min_shared(), one.weight_bytes() + 4 * kBlock);
  EXPECT_EQ(three.min_shared(), one.weight_bytes() + 3 * 4 * kBlock);
  EXPECT_EQ(three.rollout_bytes(9), 3 * one.rollout_bytes(9));
  EXPECT_EQ(one.rollout_bytes(9), 9 * kBlock + one.engine_workspace());
  const Planner trainer = planner({}, PlanUse::kTrain);
  EXPECT_EQ(trainer.min_shared(), trainer.weight_bytes());
  uint64_t weights = 0;
  const Planner model = planner({}, PlanUse::kModel);
  for (const PlanEntry& e : model.always()) {
    if (e.name != "matmul workspace") weights += e.bytes;
  }
  EXPECT_EQ(one.weight_bytes(), weights);
  EXPECT_EQ(trainer.weight_bytes(), weights) << "gradients and optimizer are not weights";
}

TEST(PlannerNumbers, OnlyInAPipelineThePhasesShareTheirBytes) {
  const Planner run = planner({}), parts = planner({}, PlanUse::kParts);
  const uint64_t train = run.train_bytes(256), rollout = run.rollout_bytes(5);
  EXPECT_EQ(run.phase_bytes(256, 5), std::max(train, rollout));
  EXPECT_EQ(parts.phase_bytes(256, 5), parts.train_bytes(256) + parts.rollout_bytes(5));
  for (const Planner* p : {&run, &parts}) {
    EXPECT_EQ(p->min_total(), p->always_bytes() + p->baseline_bytes() + p->phase_bytes(128, 4));
  }
}

}  // namespace
}  // namespace rl
