// A host's training step in two halves: sessions that share a batch and add their gradients train
// as one session does on the whole of it; who may come between the halves; options between steps;
// and steps that are cancelled.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "host_batch.h"
#include "host_model.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/weight_tensors.h"
#include "run_rig.h"
#include "support/compare_values.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::host_batch;
using testing::relative_l2;
using Texts = std::vector<std::string>;

// A process of its own: runtime, model and trainer.
class Process : public testing::HostModel {
 public:
  explicit Process(const Texts& texts = {})
      : HostModel(texts), trainer(std::make_shared<TrainerSession>(model, options)) {}
  void backward(std::span<const SamplePtr> samples, const LossDenominators& whole = {}) {
    std::vector<SampleRewards> rewards;
    for (const SamplePtr& s : samples) rewards.push_back(rewards_of(*s));
    trainer->backward({samples, rewards, {}, whole});
  }
  std::span<float> gradients(std::string_view name = "") {
    const TensorPtr t = TrainerSession::gradient(trainer, name);
    return {static_cast<float*>(const_cast<void*>(t->data())),
            static_cast<size_t>(t->num_elements())};
  }
  std::vector<float> weights() const {
    const float* begin = model->model().master();
    return {begin, begin + model->model().layout().total()};
  }

  std::shared_ptr<TrainerSession> trainer;
};

LossDenominators counts_of(std::span<const SamplePtr> samples) {
  LossDenominators counts;
  for (const SamplePtr& s : samples) {
    const auto tokens = std::ranges::count(s->loss_mask, 1);
    counts.num_tokens += static_cast<double>(tokens);
    counts.num_sequences += tokens > 0;
  }
  return counts;
}

// Adds the gradients of two processes in both.
void all_reduce(Process& a, Process& b) {
  const std::span<float> x = a.gradients(), y = b.gradients();
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = y[i] = x[i] + y[i];
}

// What differs is the order of the sums over samples.
TEST(TrainerHalves, TwoProcessesTrainAsOneOnTheWholeBatch) {
  for (const char* agg : {"token_mean", "seq_mean_token_mean"}) {
    SCOPED_TRACE(agg);
    const Texts texts = {str("algo.loss_agg=", agg), "algo.entropy_coef=0.01"};
    Process whole(texts), left(texts), right(texts);
    const std::vector<SamplePtr> batch = host_batch(*whole.trainer);
    const auto halves = std::pair(std::span(batch).first(4), std::span(batch).last(4));
    const std::vector<float> before = whole.weights();
    for (uint64_t step = 1; step <= 3; ++step) {
      const TrainedStep one = whole.trainer->step(batch);
      left.backward(halves.first, counts_of(batch));
      right.backward(halves.second, counts_of(batch));
      all_reduce(left, right);
      const TrainedStep a = left.trainer->apply(), b = right.trainer->apply();
      EXPECT_EQ(a.step, step);
      EXPECT_EQ(a.version, one.version);
      EXPECT_EQ(a.get("actor/grad_norm"), b.get("actor/grad_norm"));
      EXPECT_NEAR(*a.get("actor/grad_norm"), *one.get("actor/grad_norm"), 1e-5);
      EXPECT_NEAR(*a.get("actor/loss") + *b.get("actor/loss"), *one.get("actor/loss"), 1e-6);
    }
    EXPECT_GT(relative_l2(whole.weights(), before), 1e-3) << "the steps changed the weights";
    EXPECT_EQ(left.weights(), right.weights());
    EXPECT_LE(relative_l2(left.weights(), whole.weights()), 1e-6);
  }
}

TEST(TrainerHalves, AWholeBatchHasTheBitsOfAStep) {
  Process step, halves;
  const std::vector<SamplePtr> batch = host_batch(*step.trainer);
  for (int i = 0; i < 2; ++i) {
    const TrainedStep a = step.trainer->step(batch);
    halves.backward(batch);
    const TrainedStep b = halves.trainer->apply();
    EXPECT_EQ(a.without_times().to_json(), b.without_times().to_json());
  }
  EXPECT_EQ(step.model->weight_digest(), halves.model->weight_digest());
}

// Samples and rewards of the first half may end before the second one.
TEST(TrainerHalves, TheBatchMayEndBetweenTheHalves) {
  for (const char* objective : {"rl", "sft"}) {
    SCOPED_TRACE(objective);
    const Texts texts = {str("algo.objective=", objective)};
    Process step(texts), halves(texts);
    step.trainer->step(host_batch(*step.trainer));
    halves.backward(host_batch(*halves.trainer));
    halves.trainer->apply();
    EXPECT_EQ(step.model->weight_digest(), halves.model->weight_digest());
  }
}

TEST(TrainerHalves, AProcessWithoutSamplesTakesPart) {
  Process whole, left, right;
  const std::vector<SamplePtr> batch = host_batch(*whole.trainer);
  whole.trainer->step(batch);
  left.backward(batch, counts_of(batch));
  right.backward({}, counts_of(batch));
  all_reduce(left, right);
  left.trainer->apply();
  right.trainer->apply();
  EXPECT_EQ(left.model->weight_digest(), whole.model->weight_digest());
  EXPECT_EQ(right.model->weight_digest(), whole.model->weight_digest());
}

TEST(TrainerHalves, GradientsAreThoseOfWeightsByNameAndOfAllInARow) {
  Process p({"model.freeze=model.embed_tokens.*"});
  p.backward(host_batch(*p.trainer));
  const std::span<float> all = p.gradients();
  size_t sum = 0;
  bool nonzero = false;
  for (const Parameter& parameter : p.model->model().layout().parameters()) {
    if (parameter.name.starts_with("model.embed_tokens")) continue;
    const TensorPtr t = TrainerSession::gradient(p.trainer, parameter.name);
    EXPECT_EQ(t->shape(), parameter.shape);
    EXPECT_FALSE(t->read_only());
    EXPECT_GE(static_cast<const float*>(t->data()), all.data());
    sum += static_cast<size_t>(t->num_elements());
    nonzero = nonzero || *static_cast<const float*>(t->data()) != 0;
  }
  EXPECT_LE(sum, all.size()) << "zeros may stand between them";
  EXPECT_GT(sum, all.size() * 9 / 10);
  EXPECT_TRUE(nonzero);
  const auto refused = [&](std::string name) {
    const Error e = expect_error(Code::kNotFound, [&] { p.gradients(name); });
    EXPECT_EQ(e.key, "name");
    return e.nearest;
  };
  refused("model.embed_tokens.weight");  // not trained
  const std::vector<std::string> nearest = refused("model.norm.weights");
  ASSERT_FALSE(nearest.empty());
  EXPECT_EQ(nearest.front(), "model.norm.weight");
}

TEST(TrainerHalves, AGradientOutlivesItsTrainer) {
  Process p;
  p.backward(host_batch(*p.trainer));
  const TensorPtr all = TrainerSession::gradient(p.trainer, "");
  const auto* values = static_cast<const float*>(all->data());
  const std::vector<float> before(values, values + all->num_elements());
  p.trainer.reset();
  EXPECT_TRUE(std::equal(before.begin(), before.end(), values));
}

TEST(TrainerHalves, OnlyForwardsMayComeBetweenTheHalves) {
  const auto refused = [](const char* what, auto&& between) {
    SCOPED_TRACE(what);
    Process p;
    const std::vector<SamplePtr> batch = host_batch(*p.trainer);
    p.backward(batch);
    between(p, batch);
    EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { p.trainer->apply(); }).expected,
              "rl_trainer_backward");
    expect_error(Code::kFailedPrecondition, [&] { p.gradients(); });
  };
  refused("a step", [](Process& p, auto& batch) { p.trainer->step(batch); });
  refused("options", [](Process& p, auto&) { p.trainer->set_options(p.options); });
  refused("an apply", [](Process& p, auto&) { p.trainer->apply(); });
  refused("weights", [](Process& p, auto&) {
    const TensorPtr norm = copy_weight(*p.model, "model.norm.weight");
    const NamedTensor one{"model.norm.weight", norm};
    set_weights(*p.model, {&one, 1});
  });
  refused("a failed backward", [](Process& p, auto& batch) {
    expect_error(Code::kOutOfRange,
                 [&] { p.backward(batch, {.num_tokens = 1, .num_sequences = 1}); });
  });
  Process none, with, without;
  expect_error(Code::kFailedPrecondition, [&] { none.trainer->apply(); });
  expect_error(Code::kFailedPrecondition, [&] { none.gradients(); });
  const std::vector<SamplePtr> batch = host_batch(*with.trainer);
  with.backward(batch);
  without.backward(batch);
  EXPECT_EQ(with.trainer->logprobs(batch).size(), 24u);
  with.trainer->hidden(batch[0]->ids);
  with.trainer->apply();
  without.trainer->apply();
  EXPECT_EQ(with.model->weight_digest(), without.model->weight_digest());
}

// The weights do not change in the first half; the second one leaves the gradients when it cannot
// begin.
TEST(TrainerHalves, RequestsOfEnginesHoldUpTheSecondHalfOnly) {
  Process p;
  EngineSession engine(p.model, p.options);
  Request r = request_from(p.options);
  r.prompt = {1, 2, 3};
  engine.submit(r);
  p.backward(host_batch(*p.trainer));
  expect_error(Code::kBusy, [&] { p.trainer->apply(); });
  engine.run();
  engine.take_finished();
  EXPECT_EQ(p.trainer->apply().step, 1u);
}

TEST(TrainerHalves, WhatNeedsTheWholeBatchIsRefusedByName) {
  const LossDenominators whole{.num_tokens = 1000, .num_sequences = 100};
  const auto refused = [&](const Texts& texts, const char* key, const LossDenominators& counts) {
    SCOPED_TRACE(key);
    Process p(texts);
    const std::vector<SamplePtr> batch = host_batch(*p.trainer);
    EXPECT_EQ(expect_error(Code::kUnsupported, [&] { p.backward(batch, counts); }).key, key);
  };
  refused({"algo.advantage=gae"}, "algo.advantage", {});
  refused({"algo.advantage=reinforce_pp"}, "algo.whiten", whole);
  refused({"algo.reward.normalize=true"}, "algo.reward.normalize", whole);
  refused({"algo.adv_std_scope=batch"}, "algo.adv_std_scope", whole);
  refused({"algo.advantage=gpg"}, "algo.advantage", whole);
  refused({"algo.advantage=flash_reinforce", "algo.whiten=none"}, "algo.advantage", whole);
  refused({"algo.kl.where=loss", "algo.kl.controller=adaptive"}, "algo.kl.controller", whole);
}

TEST(TrainerHalves, AdvantagesMayBeGiven) {
  Process step, halves;
  const std::vector<SamplePtr> batch = host_batch(*step.trainer);
  const std::vector<double> advantages = {1, -1, 0.5, -0.5, 2, -2, 1, -1};
  const std::vector<SampleRewards> rewards(8);
  step.trainer->step_with_advantages(batch, rewards, advantages);
  halves.trainer->backward({batch, rewards, advantages, {}});
  halves.trainer->apply();
  EXPECT_EQ(step.model->weight_digest(), halves.model->weight_digest());
  EXPECT_EQ(
      expect_error(Code::kInvalidArgument,
                   [&] {
                     halves.trainer->backward({batch, rewards, std::span(advantages).first(7), {}});
                   })
          .key,
      "step.advantages");
  EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                         [&] {
                           halves.trainer->backward({batch, rewards, {}, {}});
                         })
                .message,
            "sample 1 of the batch is not scored");
}

TEST(TrainerSetOptions, ChangeBetweenSteps) {
  Process changed, other({"optimizer.lr=1e-4"});
  const std::vector<SamplePtr> batch = host_batch(*changed.trainer);
  OptionSet slower = changed.options;
  slower.set_assignment("optimizer.lr=1e-4");
  changed.trainer->set_options(slower);
  EXPECT_EQ(changed.trainer->step(batch).get("actor/lr"), 1e-4);
  other.trainer->step(batch);
  EXPECT_EQ(changed.model->weight_digest(), other.model->weight_digest());
}

TEST(TrainerSetOptions, AllProblemsAreReportedAndNothingChanges) {
  Process p;
  const std::vector<SamplePtr> batch = host_batch(*p.trainer);
  const auto refused = [&](Code code, const char* key, const Texts& texts) {
    OptionSet o = p.options;
    for (const std::string& text : texts) o.set_assignment(text);
    const Error e = expect_error(code, [&] { p.trainer->set_options(o); });
    EXPECT_EQ(e.key, key) << e.message;
    return e.parts.size();
  };
  refused(Code::kNotChangeable, "trainer.max_tokens_per_device",
          {"trainer.max_tokens_per_device=64", "optimizer.lr=1e-4"});
  refused(Code::kConflict, "pipeline.total_steps", {"pipeline.total_steps=9"});
  EXPECT_EQ(refused(Code::kNotChangeable, "engine.block_size",
                    {"engine.block_size=32", "runtime.seed=9"}),
            2u);
  EXPECT_EQ(p.trainer->step(batch).get("actor/lr"), 3e-3);
}

// Calls `during` from the loss of a minibatch, which the step computes on its own thread.
void call_in_loss(TrainerSession& trainer, std::function<void(int call)> during) {
  trainer.set_custom_loss(
      [calls = 0, during = std::move(during)](const AlgoArrays& in, std::span<const double> weights,
                                              std::span<double> gradient) mutable {
        double loss = 0;
        for (size_t t = 0; t < weights.size(); ++t) {
          loss -= weights[t] * in.advantages[t];
          gradient[t] -= weights[t] * in.advantages[t];
        }
        during(++calls);
        return loss;
      });
}

const Texts kTwoMinibatches = {"algo.policy_loss=custom", "trainer.num_minibatches=2"};

TEST(TrainerCancel, BeforeTheFirstOptimizerStepNothingHasChanged) {
  Texts texts = kTwoMinibatches;
  texts.insert(texts.end(), {"trainer.dynamic_batching=false", "trainer.micro_batch_size=2"});
  Process p(texts), other(texts);
  const std::vector<SamplePtr> batch = host_batch(*p.trainer);
  const uint64_t before = p.model->weight_digest();
  p.trainer->cancel();  // no effect: nothing runs
  bool cancels = true;
  call_in_loss(*p.trainer, [&](int) {
    if (cancels) p.trainer->cancel();
  });
  call_in_loss(*other.trainer, [](int) {});
  const Error e = expect_error(Code::kCancelled, [&] { p.trainer->step(batch); });
  EXPECT_EQ(e.message, "the training step was cancelled before any weight changed");
  EXPECT_FALSE(p.model->half_trained());
  EXPECT_EQ(p.model->weight_digest(), before);
  cancels = false;
  EXPECT_EQ(p.trainer->step(batch).step, 1u);
  other.trainer->step(batch);
  EXPECT_EQ(p.model->weight_digest(), other.model->weight_digest());
}

TEST(TrainerCancel, BetweenTwoOptimizerStepsTheModelIsHalfTrained) {
  Process p(kTwoMinibatches);
  const std::vector<SamplePtr> batch = host_batch(*p.trainer);
  call_in_loss(*p.trainer, [&](int call) {
    if (call == 1) p.trainer->cancel();
  });
  const Error e = expect_error(Code::kCancelled, [&] { p.trainer->step(batch); });
  EXPECT_TRUE(p.model->half_trained());
  EXPECT_NE(e.message.find("half-trained"), std::string::npos);
  expect_error(Code::kFailedPrecondition, [&] { p.trainer->step(batch); });
  expect_error(Code::kFailedPrecondition, [&] { p.backward(batch); });
  EXPECT_EQ(p.trainer->publish(), 1u);
  EXPECT_EQ(p.trainer->step(batch).step, 1u);
}

TEST(TrainerCancel, AfterTheLastOptimizerStepTheStepIsFinished) {
  Process p(kTwoMinibatches), other(kTwoMinibatches);
  const std::vector<SamplePtr> batch = host_batch(*p.trainer);
  call_in_loss(*p.trainer, [&](int call) {
    if (call == 2) p.trainer->cancel();
  });
  call_in_loss(*other.trainer, [](int) {});
  EXPECT_EQ(p.trainer->step(batch).get("training/optimizer_steps"), 2);
  other.trainer->step(batch);
  EXPECT_EQ(p.model->weight_digest(), other.model->weight_digest());
}

TEST(TrainerCancel, EndsABackwardAndChangesNothing) {
  const Texts texts = {"algo.policy_loss=custom", "trainer.dynamic_batching=false",
                       "trainer.micro_batch_size=2"};
  Process p(texts);
  const std::vector<SamplePtr> batch = host_batch(*p.trainer);
  const uint64_t before = p.model->weight_digest();
  bool cancels = true;
  call_in_loss(*p.trainer, [&](int) {
    if (cancels) p.trainer->cancel();
  });
  expect_error(Code::kCancelled, [&] { p.backward(batch); });
  EXPECT_EQ(p.model->weight_digest(), before);
  EXPECT_FALSE(p.model->half_trained());
  expect_error(Code::kFailedPrecondition, [&] { p.trainer->apply(); });
  cancels = false;
  p.backward(batch);
  EXPECT_EQ(p.trainer->apply().step, 1u);
}

}  // namespace
}  // namespace rl
