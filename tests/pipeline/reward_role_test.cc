// A reward model in the host's place: the same weights as when a host asks the same model, no score
// events, evaluations, resume, the memory plan and refusals.
#include "pipeline/update/reward_role.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "formats/open/open_weight_source.h"
#include "pipeline/config/run_options.h"
#include "run_rig.h"
#include "scored_model.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::computable_dtypes;
using testing::fixture_model;
using testing::id_rows;
using testing::Rig;
using testing::RunLog;
using testing::scored_model;
using testing::tiny_options;
using Texts = std::vector<std::string>;

OptionSet rewarded(const TempDir& dir, const Texts& texts = {}) {
  OptionSet o = tiny_options(dir);
  o.set_string("model.reward_path", scored_model(dir));
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

// The reward model as a host would ask it.
class HostReward {
 public:
  explicit HostReward(const std::string& path)
      : executor_(make_thread_executor(1)), compute_(make_cpu_compute(*executor_, Dtype::kF32)) {
    model_ = std::make_unique<Model>(*open_weight_source(real_fs(), path, ModelHead::kScalar),
                                     *compute_, ModelOptions{.block_size = 16});
    StepOptions options;
    options.max_sequence = 33;
    workspace_ = Arena("host reward", RewardModel::workspace_bytes(
                                          {model_->config(), model_->kv_shape(), 1}, options));
    reward_ = std::make_unique<RewardModel>(*model_, options, workspace_.data());
  }
  float operator()(const Sample& sample) {
    const Sample* samples[] = {&sample};
    float score = 0;
    reward_->score(samples, {&score, 1});
    return score;
  }

 private:
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<Model> model_;
  Arena workspace_;
  std::unique_ptr<RewardModel> reward_;
};

TEST(RewardRole, GivesTheWeightsOfAHostThatAsksTheSameModel) {
  const TempDir dir;
  uint64_t by_model = 0;
  RunLog log;
  const OptionSet o = rewarded(dir, {"eval.every_steps=3"});
  {
    OptionSet with_eval = o;
    testing::write_lines(dir.file("eval.jsonl"), id_rows(3));
    with_eval.set_string("eval.path", dir.file("eval.jsonl"));
    Rig rig(with_eval);
    log = rig.start_and_serve();
    by_model = rig.model().weight_digest();
    EXPECT_EQ(rig.pipeline().status().unscored, 0);
  }
  EXPECT_TRUE(log.samples.empty()) << "a score event";
  ASSERT_EQ(log.evals.size(), 1u);
  EXPECT_EQ(log.evals[0]->num_scored, 3);
  OptionSet host = tiny_options(dir);
  Rig rig(host);
  HostReward reward(o.get_string("model.reward_path"));
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) { p.score(s->id, reward(*s)); };
  const RunLog asked = rig.start_and_serve();
  EXPECT_EQ(log.series("critic/score/mean"), asked.series("critic/score/mean"));
  EXPECT_NE(log.series("critic/score/max").front(), log.series("critic/score/min").front());
  EXPECT_EQ(rig.model().weight_digest(), by_model);
}

TEST(RewardRole, TheBudgetLeavesTheBits) {
  const TempDir dir;
  const auto digest = [&](const Texts& texts) {
    const TempDir own;
    Rig rig(rewarded(own, texts));
    rig.start_and_serve();
    return rig.model().weight_digest();
  };
  EXPECT_EQ(digest({"reward.forward_max_tokens_per_device=40"}), digest({}));
  const auto planned = [&](const char* budget) {
    return plan_memory(rewarded(dir, {budget}), real_fs(), PlanUse::kPipeline)
        .train_workspace_bytes;
  };
  EXPECT_GT(planned("reward.forward_max_tokens_per_device=200000"),
            planned("reward.forward_max_tokens_per_device=40"));
}

TEST(RewardRole, TheBudgetOfTheReferenceIsNotItsOwn) {
  const TempDir dir;
  const auto planned = [&](Texts texts) {
    texts.push_back("algo.kl.where=loss");
    const MemoryPlan plan = plan_memory(rewarded(dir, texts), real_fs(), PlanUse::kPipeline);
    for (const PlanEntry& part : plan.parts) {
      if (part.name == "reward model") return part.bytes;
    }
    ADD_FAILURE() << "the plan has no reward model";
    return uint64_t{0};
  };
  EXPECT_EQ(planned({"reference.forward_max_tokens_per_device=200000"}), planned({}));
}

TEST(RewardRole, ItScoresForFiltersAndGreedyResponsesToo) {
  for (const Texts& texts :
       std::vector<Texts>{{"algo.advantage=remax"},
                          {"algo.advantage=gae"},
                          {"pipeline.filter=spread", "pipeline.filter_spread=1e-3",
                           "pipeline.filter_max_rounds=2", "sampling.allowed_token_ids=3,5"}}) {
    const TempDir dir;
    Rig rig(rewarded(dir, texts));
    const uint64_t start = rig.model().weight_digest();
    const RunLog log = rig.start_and_serve();
    EXPECT_EQ(log.steps.size(), 3u) << texts.front();
    EXPECT_TRUE(log.samples.empty());
    EXPECT_NE(rig.model().weight_digest(), start);
  }
}

TEST(RewardRole, AResumedRunGivesTheSameBits) {
  const TempDir whole_dir, dir;
  Rig whole(rewarded(whole_dir));
  whole.start_and_serve();
  OptionSet o = rewarded(dir, {"checkpoint.dir=" + dir.file("checkpoints")});
  {
    OptionSet half = o;
    half.set_i64("pipeline.total_steps", 2);
    half.set_i64("checkpoint.every_steps", 2);
    Rig(half).start_and_serve();
  }
  o.set_string("checkpoint.resume", "auto");
  Rig second(o);
  EXPECT_FALSE(second.pipeline().resumed_from().empty());
  second.start_and_serve();
  EXPECT_EQ(second.model().weight_digest(), whole.model().weight_digest());
}

TEST(RewardRole, AScoreThatIsNotFiniteLosesItsGroup) {
  const TempDir dir;
  const OptionSet o = rewarded(dir, {"pipeline.total_steps=1"});
  // Weights of this size overflow in the sum over a row.
  const std::string file = o.get_string("model.reward_path") + "/model.safetensors";
  std::string bytes = read_text_file(real_fs(), file, uint64_t{1} << 30);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  const std::string json = bytes.substr(8, header);
  const size_t at = json.find("\"data_offsets\":[", json.find("\"score.weight\"")) + 16;
  const size_t first = 8 + header + std::stoull(json.substr(at));
  for (size_t i = 0; i < 64; ++i) {
    const float huge = 3e38f;
    std::memcpy(bytes.data() + first + 4 * i, &huge, 4);
  }
  std::ofstream(file, std::ios::binary) << bytes;
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.dropped.size(), 4u);
  for (const auto& d : log.dropped) {
    EXPECT_EQ(d->reason, DropReason::kRewardError);
    EXPECT_TRUE(contains(d->message, "the reward model returned"));
  }
  EXPECT_EQ(log.series("pipeline/refused_scores"), std::vector<double>{0});
}

TEST(RewardRole, ThePlanEqualsTheLedger) {
  const TempDir dir;
  for (const char* dtype : computable_dtypes()) {
    const OptionSet o = rewarded(dir, {str("model.dtype=", dtype), "algo.advantage=gae",
                                       "pipeline.total_steps=1", "algo.kl.where=loss"});
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
    Rig rig(o);
    EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
    rig.start_and_serve();
    EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
    EXPECT_TRUE(std::ranges::any_of(
        plan.parts, [](const PlanEntry& e) { return e.phase == "reward" && e.bytes > 0; }));
  }
}

// Another family and other sizes, of the same ids: the plan follows its header.
TEST(RewardRole, MayHaveAnotherShapeThanThePolicy) {
  for (const char* dtype : computable_dtypes()) {
    const TempDir dir;
    OptionSet o = tiny_options(dir);
    o.set_string("model.dtype", dtype);
    o.set_string("model.reward_path", scored_model(dir, "qwen2"));
    const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
    OptionSet same = o;
    same.set_string("model.reward_path", scored_model(dir));
    EXPECT_NE(plan_memory(same, real_fs(), PlanUse::kPipeline).arena_bytes, plan.arena_bytes);
    RunLog log;
    uint64_t by_model = 0;
    {
      Rig rig(o);
      EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
      log = rig.start_and_serve();
      by_model = rig.model().weight_digest();
      EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
    }
    EXPECT_NE(log.series("critic/score/max").front(), log.series("critic/score/min").front());
    if (std::string(dtype) == "bf16") continue;  // HostReward computes in fp32
    Rig host(tiny_options(dir));
    HostReward reward(o.get_string("model.reward_path"));
    host.on_score = [&](Pipeline& p, const SamplePtr& s) { p.score(s->id, reward(*s)); };
    host.start_and_serve();
    EXPECT_EQ(host.model().weight_digest(), by_model);
  }
}

TEST(RewardRole, WhatDoesNotFitIsNamed) {
  const TempDir dir;
  const auto refused = [&](Code code, const Texts& texts) {
    return expect_error(code, [&] { Rig rig(rewarded(dir, texts)); });
  };
  const Error language =
      refused(Code::kUnsupported, {"model.reward_path=" + fixture_model("llama")});
  EXPECT_EQ(language.key, "model.reward_path");
  EXPECT_TRUE(contains(language.message, "language model"));
  const Error ids =
      refused(Code::kIncompatible, {"model.reward_path=" + fixture_model("llama_value")});
  EXPECT_EQ(ids.key, "model.reward_path");
  EXPECT_TRUE(contains(ids.message, "a vocabulary of 64 ids, but the policy has 256"));
  EXPECT_EQ(ids.expected, "256 ids");
  const Error budget = refused(Code::kConflict, {"reward.forward_max_tokens_per_device=31"});
  EXPECT_EQ(budget.key, "reward.forward_max_tokens_per_device");
  EXPECT_EQ(budget.expected, "0, or at least 32");
  Rig rig(rewarded(dir));
  for (const auto& answer : std::vector<std::function<void()>>{
           [&] { rig.pipeline().score(1, 1.0); }, [&] { rig.pipeline().fail(1, "no"); }}) {
    EXPECT_EQ(expect_error(Code::kFailedPrecondition, answer).key, "model.reward_path");
  }
}

}  // namespace
}  // namespace rl
