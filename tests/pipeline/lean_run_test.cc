// Runs that keep less: rounded and lent gradients, states of fewer bits, and a reference that is
// the policy until its first update. Those that change no number have the bits of the plain run.
#include <gtest/gtest.h>

#include <numeric>

#include "host_batch.h"
#include "host_model.h"
#include "pipeline/session/weight_tensors.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::host_batch;
using Texts = std::vector<std::string>;

struct Outcome {
  testing::RunLog log;
  uint64_t digest;
};

OptionSet options_of(const TempDir& dir, const Texts& texts) {
  OptionSet o = testing::tiny_options(dir);
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

Outcome run(const OptionSet& o) {
  testing::Rig rig(o);
  Outcome out{rig.start_and_serve(), 0};
  out.digest = rig.model().weight_digest();
  return out;
}

TEST(LeanRun, LentGradientsChangeNoBit) {
  const TempDir dir;
  for (const Texts& texts : std::vector<Texts>{
           {}, {"algo.advantage=gae"}, {"trainer.grad_dtype=bf16", "trainer.num_minibatches=2"}}) {
    Texts lent = texts;
    lent.emplace_back("trainer.free_grad_buffers_on_publish=true");
    const Outcome a = run(options_of(dir, texts)), b = run(options_of(dir, lent));
    EXPECT_EQ(a.digest, b.digest);
    EXPECT_EQ(a.log.series("actor/grad_norm"), b.log.series("actor/grad_norm"));
  }
}

TEST(LeanRun, AResumeWithLentGradientsIsExact) {
  const TempDir dir;
  OptionSet o = options_of(
      dir, {"trainer.free_grad_buffers_on_publish=true", "algo.advantage=gae",
            "trainer.grad_dtype=bf16", "checkpoint.every_steps=1", "pipeline.total_steps=2"});
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  const Outcome whole = run(o);
  o.set_string("checkpoint.resume", whole.log.checkpoints[0]->path);
  EXPECT_EQ(run(o).digest, whole.digest);
}

// As Loop.MeanRewardRises does in fp32.
TEST(LeanRun, RoundedStatesAndGradientsLearn) {
  const TempDir dir;
  const auto mean = [](std::span<const double> some) {
    return std::accumulate(some.begin(), some.end(), 0.0) / static_cast<double>(some.size());
  };
  for (const Texts& texts :
       std::vector<Texts>{{"optimizer.state_dtype=bf16"},
                          {"optimizer.state_dtype=int8"},
                          {"trainer.grad_dtype=bf16"},
                          {"optimizer.state_dtype=int8", "trainer.grad_dtype=bf16",
                           "trainer.free_grad_buffers_on_publish=true"}}) {
    SCOPED_TRACE(texts.back());
    OptionSet o = options_of(dir, texts);
    o.set_i64("pipeline.total_steps", 20);
    const std::vector<double> rewards = run(o).log.series("critic/rewards/mean");
    ASSERT_EQ(rewards.size(), 20u);
    EXPECT_GT(mean(std::span(rewards).last(5)), mean(std::span(rewards).first(5)) + 0.2);
    EXPECT_GT(rewards.back(), rewards.front());
  }
}

// A reference with a path of its own is read from its file at once; that of the policy's own path
// is packed late. Both have the same weights.
TEST(LeanRun, AReferenceIsThePolicyUntilItMoves) {
  const TempDir dir;
  for (const char* where : {"loss", "reward"}) {
    Texts texts = {str("algo.kl.where=", where), "algo.kl.coef=0.5", "pipeline.total_steps=3",
                   "optimizer.lr=1e-2"};
    const OptionSet shared = options_of(dir, texts);
    OptionSet apart = shared;
    apart.set_string("model.reference_path", shared.get_string("model.path"));
    const Outcome a = run(shared), b = run(apart);
    EXPECT_EQ(a.digest, b.digest);
    const std::vector<double> kl = a.log.series("actor/kl");
    EXPECT_EQ(kl, b.log.series("actor/kl"));
    if (std::string_view(where) == "loss") {
      ASSERT_EQ(kl.size(), 3u);
      EXPECT_EQ(kl[0], 0) << "bit for bit the policy";
      EXPECT_GT(kl[2], 0);
    }
  }
}

TEST(LeanRun, AResumedRunHasTheReferenceOfTheBeginning) {
  const TempDir dir;
  OptionSet o = options_of(dir, {"algo.kl.where=loss", "algo.kl.coef=0.5", "optimizer.lr=1e-2",
                                 "pipeline.total_steps=3", "checkpoint.every_steps=1"});
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  const Outcome whole = run(o);
  o.set_string("checkpoint.resume", whole.log.checkpoints[0]->path);
  const Outcome resumed = run(o);
  EXPECT_EQ(resumed.digest, whole.digest);
  EXPECT_EQ(resumed.log.series("actor/kl").back(), whole.log.series("actor/kl").back());
}

class Sleeper : public testing::HostModel {
 public:
  explicit Sleeper(const Texts& texts = {})
      : HostModel(texts), trainer(std::make_shared<TrainerSession>(model, options)) {}
  std::shared_ptr<TrainerSession> trainer;
};

TEST(TrainerSessionSleep, StepsAroundItHaveTheSameBits) {
  for (const Texts& texts : std::vector<Texts>{{},
                                               {"algo.advantage=gae"},
                                               {"optimizer.ema=0.9", "trainer.grad_dtype=bf16"},
                                               {"trainer.free_grad_buffers_on_publish=true",
                                                "trainer.recompute_granularity=selective"}}) {
    Sleeper awake(texts), sleeps(texts);
    const std::vector<SamplePtr> batch = host_batch(*awake.trainer);
    for (int i = 0; i < 2; ++i) {
      awake.trainer->step(batch);
      sleeps.trainer->sleep();
      sleeps.trainer->sleep();
      sleeps.trainer->wake();
      sleeps.trainer->wake();
      sleeps.trainer->step(batch);
    }
    EXPECT_EQ(awake.model->weight_digest(), sleeps.model->weight_digest());
  }
}

TEST(TrainerSessionSleep, WhatNeedsTheTrainerIsRefused) {
  const TempDir dir;
  Sleeper s;
  const std::vector<SamplePtr> batch = host_batch(*s.trainer);
  s.trainer->sleep();
  const auto refused = [](const std::function<void()>& call) {
    EXPECT_EQ(expect_error(Code::kFailedPrecondition, call).expected, "rl_trainer_wake");
  };
  refused([&] { s.trainer->step(batch); });
  refused([&] { s.trainer->apply(); });
  refused([&] { s.trainer->logprobs(batch); });
  refused([&] { TrainerSession::gradient(s.trainer, ""); });
  refused([&] { s.trainer->save({.dir = dir.file("c"), .host = ""}); });
  refused([&] { s.trainer->load(dir.file("c")); });
  EXPECT_EQ(s.trainer->publish(), s.trainer->trained_version());
  s.trainer->wake();
  s.trainer->step(batch);
}

// Rounded gradients are copied for a host, and what it leaves alone stays.
TEST(RoundedGradients, AHostReadsAndWritesThem) {
  Sleeper step({"trainer.grad_dtype=bf16"}), halves({"trainer.grad_dtype=bf16"});
  const std::vector<SamplePtr> batch = host_batch(*step.trainer);
  step.trainer->step(batch);
  std::vector<SampleRewards> rewards;
  for (const SamplePtr& s : batch) rewards.push_back(rewards_of(*s));
  halves.trainer->backward({batch, rewards, {}, {}});
  const TensorPtr all = TrainerSession::gradient(halves.trainer, "");
  const auto* const values = static_cast<const float*>(all->data());
  EXPECT_GT(std::abs(std::accumulate(values, values + all->num_elements(), 0.0)), 0);
  halves.trainer->apply();
  EXPECT_EQ(step.model->weight_digest(), halves.model->weight_digest());
}

}  // namespace
}  // namespace rl
