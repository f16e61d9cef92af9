// PPO with a critic in a run: what is learned, the warm-up, resume and replay to the same bits, the
// memory plan, and what every key of the critic and the reference does.
#include "pipeline/update/critic_role.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/open/open_weight_source.h"
#include "pipeline/config/run_options.h"
#include "pipeline/update/trainer_session.h"
#include "plan_arenas.h"
#include "replay_rig.h"
#include "run_rig.h"
#include "scored_model.h"
#include "support/expect_error.h"
#include "support/golden_tensors.h"

namespace rl {
namespace {

using testing::computable_dtypes;
using testing::fixture_model;
using testing::live;
using testing::planned;
using testing::Replay;
using testing::Rig;
using testing::RunLog;
using testing::scored_model;
using testing::tiny_options;
using Texts = std::vector<std::string>;

OptionSet gae_options(const TempDir& dir, const Texts& texts = {}) {
  OptionSet o = tiny_options(dir);
  for (const char* text : {"algo.advantage=gae", "critic.optimizer.lr=1e-2", "algo.lambda=0.95"}) {
    o.set_assignment(text);
  }
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

// Four groups of four, with rewards and the log-probs of the trainer; the responses have a hole in
// the middle.
std::vector<SamplePtr> made_batch(TrainerSession& trainer, uint64_t step) {
  std::vector<SamplePtr> batch;
  for (uint64_t i = 0; i < 16; ++i) {
    auto s = std::make_shared<Sample>();
    s->id = 100 * step + i + 1;
    s->ordinal = 4 * step + i / 4;
    s->slot = static_cast<uint32_t>(i % 4);
    for (uint64_t t = 0; t < 9 + i; ++t) {
      s->ids.push_back(static_cast<int32_t>(t < 5 ? 10 * s->ordinal + t : (31 * i + 7 * t) % 256));
    }
    s->prompt_tokens = 5;
    s->logprobs = trainer.logprobs(s->ids, 5, 1.0f);
    s->versions.assign(s->logprobs.size(), trainer.trained_version());
    s->loss_mask.assign(s->logprobs.size(), 1);
    s->loss_mask[1] = s->loss_mask[2] = 0;
    s->reward = static_cast<double>(i % 3);
    s->scored = true;
    batch.push_back(std::move(s));
  }
  return batch;
}

TEST(CriticRole, LearnsTheReturnsBesideThePolicy) {
  const TempDir dir;
  Rig rig(gae_options(dir, {"pipeline.total_steps=8"}));
  const RunLog log = rig.start_and_serve();
  const std::vector<double> loss = log.series("critic/vf_loss");
  const std::vector<double> explained = log.series("critic/vf_explained_var");
  ASSERT_EQ(loss.size(), 8u);
  EXPECT_LT(loss.back(), 0.5 * loss.front());
  // The values begin with 0: they explain nothing, and the advantage is the return.
  EXPECT_EQ(log.series("critic/values/max").front(), 0.0);
  EXPECT_NEAR(explained.front(), 0.0, 1e-3);
  EXPECT_GT(log.series("critic/values/mean").back(), 0.0);
  EXPECT_NEAR(log.series("critic/vpred_mean").front(), 0.0, 1e-6);
  for (const MetricList& m : log.steps) {
    EXPECT_EQ(m.get("critic/optimizer_steps"), 1.0);
    EXPECT_EQ(m.get("critic/skipped_steps"), 0.0);
    EXPECT_EQ(m.get("critic/lr"), 1e-2);
    EXPECT_GT(m.get("critic/grad_norm").value(), 0.0);
    EXPECT_EQ(m.get("training/optimizer_steps"), 1.0);
    EXPECT_EQ(m.get("training/logprob_max_abs_diff"), 0.0);
    EXPECT_GT(m.get("timing_s/update_critic").value(), 0.0);
    EXPECT_GT(m.get("timing_s/values").value(), 0.0);
    EXPECT_NEAR(
        m.get("timing_per_token_ms/values").value() * m.get("perf/total_num_tokens").value(),
        m.get("timing_s/values").value() * 1e3, 1e-9);
    EXPECT_GT(m.get("timing_per_token_ms/gen").value(), m.get("timing_s/gen").value());
  }
}

TEST(CriticRole, OneSampleOfAPromptIsEnough) {
  const TempDir dir;
  Rig rig(gae_options(dir, {"pipeline.samples_per_prompt=1", "pipeline.total_steps=2"}));
  const uint64_t start = rig.model().weight_digest();
  rig.start_and_serve();
  EXPECT_NE(rig.model().weight_digest(), start);
}

TEST(CriticRole, AStepWithoutGroupsStillTellsOfTheCritic) {
  const TempDir dir;
  Rig rig(gae_options(dir, {"pipeline.filter=spread", "pipeline.filter_spread=10",
                            "pipeline.filter_max_rounds=1", "pipeline.total_steps=1"}));
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.series("critic/optimizer_steps"), std::vector<double>{0});
  EXPECT_EQ(log.series("critic/vf_explained_var"), std::vector<double>{0});
}

TEST(CriticRole, ThePolicyWaitsForTheFirstSteps) {
  const TempDir dir;
  Rig rig(gae_options(dir, {"algo.critic_warmup_steps=2"}));
  std::vector<uint64_t> digests, versions;
  rig.on_step = [&](Pipeline&, const StepEvent& e) { versions.push_back(e.version); };
  const uint64_t start = rig.model().weight_digest();
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(versions, (std::vector<uint64_t>{0, 0, 1}));
  EXPECT_EQ(log.series("training/optimizer_steps"), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(log.series("critic/optimizer_steps"), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(log.series("training/samples"), (std::vector<double>{16, 16, 16}));
  EXPECT_NE(rig.model().weight_digest(), start);
  EXPECT_EQ(log.dropped.size(), 0u);
  EXPECT_EQ(rig.pipeline().status().ledger.attempts_trained, 48);
}

TEST(CriticRole, AResumedRunGivesTheSameBits) {
  const Texts texts = {"algo.kl.where=reward",      "algo.kl.coef=0.1",
                       "trainer.num_minibatches=2", "algo.critic_warmup_steps=1",
                       "pipeline.total_steps=4",    "trainer.epochs=2"};
  const TempDir whole_dir, dir;
  Rig whole(gae_options(whole_dir, texts));
  const RunLog want = whole.start_and_serve();
  OptionSet o = gae_options(dir, texts);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  {
    OptionSet half = o;
    half.set_i64("pipeline.total_steps", 2);
    half.set_i64("checkpoint.every_steps", 2);
    Rig first(half);
    first.start_and_serve();
  }
  EXPECT_TRUE(std::filesystem::exists(
      dir.file("checkpoints/step_000002/critic_first_moments.safetensors")));
  o.set_string("checkpoint.resume", "auto");
  Rig second(o);
  EXPECT_FALSE(second.pipeline().resumed_from().empty());
  const RunLog got = second.start_and_serve();
  ASSERT_EQ(got.steps.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got.steps[i].without_times().to_json(), want.steps[i + 2].without_times().to_json());
  }
  EXPECT_EQ(second.model().weight_digest(), whole.model().weight_digest());
}

// The tensors of a saved critic are the masters of the checkpoint, and both roles open it.
TEST(CriticRole, ASavedCriticIsAModelOfScores) {
  const TempDir dir;
  const OptionSet o =
      gae_options(dir, {"pipeline.total_steps=1", "checkpoint.dir=" + dir.file("checkpoints")});
  {
    Rig rig(o);
    rig.start_and_serve();
    rig.pipeline().checkpoint(60 * testing::kSecond);
    rig.pipeline().save_critic(dir.file("critic"), Dtype::kF32, false);
    EXPECT_EQ(
        expect_error(Code::kAlreadyExists,
                     [&] { rig.pipeline().save_critic(dir.file("critic"), Dtype::kF32, false); })
            .location,
        dir.file("critic"));
  }
  const testing::GoldenTensors saved(dir.file("critic/model.safetensors"));
  const testing::GoldenTensors masters(
      dir.file("checkpoints/step_000001/critic_masters.safetensors"));
  const auto source = open_weight_source(real_fs(), dir.file("critic"), ModelHead::kScalar);
  EXPECT_TRUE(source->has_scalar_head());
  for (const TensorInfo& t : source->tensors()) {
    EXPECT_EQ(saved.get(t.name).values, masters.get(t.name).values) << t.name;
  }
  EXPECT_TRUE(
      std::ranges::any_of(saved.get("score.weight").values, [](double v) { return v != 0; }));
  {
    // Its first values are no longer those of a head of zeros.
    Rig next(
        gae_options(dir, {"pipeline.total_steps=1", "model.critic_path=" + dir.file("critic")}));
    EXPECT_NE(next.start_and_serve().series("critic/values/max").front(), 0.0);
  }
  OptionSet scored = tiny_options(dir);
  scored.set_string("model.reward_path", dir.file("critic"));
  Rig rewarded(scored);
  EXPECT_NE(rewarded.start_and_serve().series("critic/score/max").front(), 0.0);
}

TEST(CriticRole, AHostsTrainerSavesItsCriticToo) {
  const TempDir dir;
  const OptionSet o = gae_options(dir), plain = tiny_options(dir);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  TrainerSession trainer(model, testing::for_session(o)),
      without(model, testing::for_session(plain));
  trainer.save_critic(dir.file("critic"), Dtype::kBf16, false);
  EXPECT_TRUE(
      open_weight_source(real_fs(), dir.file("critic"), ModelHead::kScalar)->has_scalar_head());
  EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                         [&] { without.save_critic(dir.file("none"), Dtype::kF32, false); })
                .key,
            "algo.advantage");
  const LoadedModel::WriteLease training(*model, 0);
  expect_error(Code::kBusy, [&] { trainer.save_critic(dir.file("busy"), Dtype::kF32, false); });
}

// A batch that the policy refuses has taught the critic nothing either.
TEST(CriticRole, DoesNotLearnFromABatchThatThePolicyRefuses) {
  const TempDir dir;
  const OptionSet o = gae_options(dir);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  TrainerSession trainer(model, testing::for_session(o));
  std::vector<SamplePtr> batch = made_batch(trainer, 0);
  batch[3]->logprobs[5] += 1;
  const uint64_t before = model->weight_digest();
  const auto critic = [&](const char* name) {
    trainer.save_critic(dir.file(name), Dtype::kF32, false);
    std::ifstream file(dir.file(name) + "/model.safetensors", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string old = critic("before");
  ASSERT_FALSE(old.empty());
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { trainer.step(batch); }).key,
            "trainer.check_logprobs");
  EXPECT_TRUE(critic("refused") == old);
  EXPECT_EQ(model->weight_digest(), before);
  trainer.step(made_batch(trainer, 0));
  EXPECT_FALSE(critic("after") == old);
}

TEST(CriticRole, RecordedBatchesReplayToTheWeightsOfTheRun) {
  const TempDir dir;
  OptionSet o = gae_options(dir, {"trainer.num_minibatches=2", "algo.critic_warmup_steps=1"});
  o.set_string("buffer.record_dir", dir.file("record"));
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  Replay replay(o);
  for (int step = 1; step <= 3; ++step) {
    replay.step(dir.file(str("record/step_00000", step, ".rlbuf")));
    for (const char* name : {"critic/vf_loss", "critic/values/mean", "critic/vf_explained_var",
                             "critic/advantages/mean", "actor/loss"}) {
      EXPECT_EQ(replay.metrics.back().get(name), log.steps[step - 1].get(name)) << name;
    }
  }
  EXPECT_EQ(replay.digest(), rig.model().weight_digest());
}

TEST(CriticRole, ThePlanEqualsTheLedger) {
  const TempDir dir;
  for (const char* model : {"llama", "qwen2"}) {
    for (const char* dtype : computable_dtypes()) {
      OptionSet o = gae_options(dir, {"algo.kl.where=loss"});
      o.set_string("model.path", fixture_model(model));
      o.set_string("model.dtype", dtype);
      o.set_i64("pipeline.total_steps", 1);
      const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
      Rig rig(o);
      EXPECT_EQ(live(rig.runtime()), planned(plan));
      rig.start_and_serve();
      EXPECT_EQ(rig.runtime().ledger().bytes(), plan.arena_bytes);
    }
  }
  const OptionSet o = gae_options(dir);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  const TrainerSession trainer(model, testing::for_session(o));
  EXPECT_EQ(live(model->runtime()), planned(plan_memory(o, model->config(), PlanUse::kTrain)));
}

uint64_t bytes_of_phase(const MemoryPlan& plan, const char* phase) {
  uint64_t bytes = 0;
  for (const PlanEntry& e : plan.parts) bytes += e.phase == phase ? e.bytes : 0;
  return bytes;
}

TEST(CriticRole, PolicyAndCriticShareTheirWorkspace) {
  const TempDir dir;
  const auto plan_with = [&](const Texts& texts) {
    return plan_memory(gae_options(dir, texts), real_fs(), PlanUse::kTrain);
  };
  const MemoryPlan usual = plan_with({"trainer.max_tokens_per_device=64"});
  const uint64_t policy = bytes_of_phase(usual, "train"), critic = bytes_of_phase(usual, "critic");
  EXPECT_GT(critic, 0u);
  EXPECT_GE(usual.train_workspace_bytes, std::max(policy, critic));
  EXPECT_LT(usual.train_workspace_bytes, policy + critic);
  const auto critic_bytes = [&](const char* text) {
    return bytes_of_phase(plan_with({"trainer.max_tokens_per_device=64", text}), "critic");
  };
  EXPECT_EQ(critic_bytes("critic.max_tokens_per_device=128"), critic) << "twice the policy's";
  EXPECT_LT(critic_bytes("critic.max_tokens_per_device=64"), critic);
  EXPECT_GT(critic_bytes("critic.forward_max_tokens_per_device=100000"), critic);
  const Texts counted = {"trainer.dynamic_batching=false", "trainer.micro_batch_size=2"};
  Texts four = counted, one = counted;
  four.push_back("critic.micro_batch_size=4");
  one.push_back("critic.micro_batch_size=1");
  EXPECT_EQ(bytes_of_phase(plan_with(four), "critic"),
            bytes_of_phase(plan_with(counted), "critic"));
  EXPECT_LT(bytes_of_phase(plan_with(one), "critic"), bytes_of_phase(plan_with(counted), "critic"));
}

// Two steps on groups of a host.
struct Steps {
  MetricList second;
  uint64_t policy = 0;
};

Steps two_steps(const Texts& texts) {
  const TempDir dir;
  OptionSet o = gae_options(dir, {"model.critic_path=" + scored_model(dir)});
  for (const std::string& text : texts) o.set_assignment(text);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  TrainerSession trainer(model, testing::for_session(o));
  Steps out;
  for (uint64_t step = 0; step < 2; ++step) out.second = trainer.step(made_batch(trainer, step));
  out.policy = model->weight_digest();
  return out;
}

TEST(CriticRole, EveryKeyThatShapesLearningActs) {
  const Steps plain = two_steps({});
  EXPECT_NE(plain.second.get("critic/values/mean"), 0.0);
  for (const Texts& texts : std::vector<Texts>{{"algo.lambda=0.5"},
                                               {"algo.gamma=0.9"},
                                               {"algo.gamma=0.9", "algo.gae_masked=zero"},
                                               {"algo.whiten=none"},
                                               {"critic.optimizer.lr=1e-3"},
                                               {"critic.optimizer.weight_decay=1"},
                                               {"critic.optimizer.grad_clip=1e-4"},
                                               {"model.critic_path="},
                                               {"algo.critic_warmup_steps=1"},
                                               {"algo.kl.where=reward", "algo.kl.coef=0.5"}}) {
    SCOPED_TRACE(texts.back());
    EXPECT_NE(two_steps(texts).policy, plain.policy);
  }
  EXPECT_NE(two_steps({"algo.gamma=0.9", "algo.gae_masked=zero"}).policy,
            two_steps({"algo.gamma=0.9"}).policy);
  // A clip that the values of one optimizer step never reach says nothing.
  EXPECT_EQ(two_steps({"algo.value_clip=0"}).policy, plain.policy);
  const Texts often = {"trainer.epochs=4", "algo.value_clip=0"};
  EXPECT_EQ(two_steps(often).second.get("critic/vf_clipfrac"), 0.0);
  EXPECT_GT(two_steps({"trainer.epochs=4", "algo.value_clip=1e-3"})
                .second.get("critic/vf_clipfrac")
                .value(),
            0.1);
}

TEST(CriticRole, BudgetsLeaveTheLossAndCountMicroBatches) {
  const Steps plain = two_steps({});
  for (const Texts& texts :
       std::vector<Texts>{{"critic.max_tokens_per_device=64"},
                          {"trainer.dynamic_batching=false", "trainer.micro_batch_size=16",
                           "critic.micro_batch_size=4"}}) {
    const Steps cut = two_steps(texts);
    // Gradients sum in another order, which moves the second step in the last digits.
    EXPECT_NEAR(cut.second.get("critic/vf_loss").value(),
                plain.second.get("critic/vf_loss").value(), 1e-5);
    EXPECT_GE(cut.second.get("critic/micro_batches").value(), 3.0);
    EXPECT_EQ(cut.second.get("training/micro_batches"), plain.second.get("training/micro_batches"));
  }
  EXPECT_EQ(plain.second.get("critic/micro_batches"), 1.0);
  EXPECT_EQ(two_steps({"critic.forward_max_tokens_per_device=40"}).policy, plain.policy);
  const Texts kl = {"algo.kl.where=reward", "algo.kl.coef=0.5"};
  Texts narrow = kl;
  narrow.push_back("reference.forward_max_tokens_per_device=40");
  EXPECT_EQ(two_steps(narrow).policy, two_steps(kl).policy);
}

TEST(CriticRole, TheScheduleKeepsItsProportion) {
  const TempDir dir;
  OptionSet o = gae_options(dir, {"optimizer.lr=1e-3", "schedule.name=linear",
                                  "schedule.total_steps=10", "schedule.min_lr=1e-4"});
  const CriticOptions c = critic_options_from(o, 64, 32);
  EXPECT_DOUBLE_EQ(c.schedule.lr, 1e-2);
  EXPECT_DOUBLE_EQ(c.schedule.min_lr, 1e-3);
  EXPECT_EQ(c.grad_clip, o.get_f64("optimizer.grad_clip"));
  EXPECT_EQ(c.max_tokens, 128);
  o.set_assignment("optimizer.weight_decay=0.3");
  EXPECT_EQ(critic_options_from(o, 64, 32).adamw.weight_decay, 0.3);
  o.set_assignment("critic.optimizer.weight_decay=0");
  EXPECT_EQ(critic_options_from(o, 64, 32).adamw.weight_decay, 0.0);
}

TEST(CriticRole, WhatDoesNotFitIsNamed) {
  const TempDir dir;
  const auto refused = [&](Code code, const Texts& texts) {
    const OptionSet o = gae_options(dir, texts);
    return expect_error(code, [&] {
      const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
      TrainerSession(model, testing::for_session(o));
    });
  };
  const Error shape =
      refused(Code::kIncompatible, {"model.critic_path=" + fixture_model("llama_value")});
  EXPECT_EQ(shape.key, "model.critic_path");
  EXPECT_TRUE(contains(shape.message, "the critic "));
  // Both shapes.
  EXPECT_TRUE(contains(shape.message, "vocab 64, hidden 32"));
  EXPECT_TRUE(contains(shape.message, "but the policy is llama with vocab 256"));
  for (const char* key : {"critic.max_tokens_per_device", "critic.forward_max_tokens_per_device",
                          "reference.forward_max_tokens_per_device"}) {
    const Texts texts = {str(key, "=30"), "algo.kl.where=loss"};
    const Error e = refused(Code::kConflict, texts);
    EXPECT_EQ(e.key, key);
    EXPECT_EQ(e.other_key, "engine.max_model_len");
  }
  const OptionSet o = gae_options(dir);
  const auto model = LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kTrain);
  TrainerSession trainer(model, testing::for_session(o));
  const Error given =
      expect_error(Code::kFailedPrecondition, [&] { trainer.step_with_advantages({}, {}); });
  EXPECT_EQ(given.key, "algo.advantage");
}

TEST(CriticRole, ASampleAboveTheCriticsBudgetGoesAlone) {
  const Steps plain = two_steps({});
  const Steps alone = two_steps({"critic.max_tokens_per_device=12", "trainer.oversize=alone"});
  EXPECT_NEAR(alone.second.get("critic/vf_loss").value(),
              plain.second.get("critic/vf_loss").value(), 1e-5);
  EXPECT_GT(alone.second.get("critic/micro_batches").value(), 8.0);
}

}  // namespace
}  // namespace rl
