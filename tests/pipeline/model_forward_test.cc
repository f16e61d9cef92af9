// Forwards of a model without a trainer: the outputs of a trainer in the memory that the plan says,
// without gradients or optimizer states.
#include "pipeline/session/model_forward.h"

#include <gtest/gtest.h>

#include <cstring>

#include "host_batch.h"
#include "plan_arenas.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::for_session;
using testing::host_batch;
using testing::tiny_options;
using Texts = std::vector<std::string>;

class Served {
 public:
  explicit Served(PlanUse use, const Texts& texts = {}) : options(for_session(tiny_options(dir_))) {
    for (const std::string& text : texts) options.set_assignment(text);
    if (!is_rl(Settings(options).algo.objective)) {
      for (const char* key :
           {"pipeline.samples_per_prompt", "sampling.max_new_tokens", "sampling.ignore_eos",
            "engine.max_num_seqs", "engine.max_num_batched_tokens"}) {
        options.unset(key);
      }
    }
    model = LoadedModel::open(std::make_shared<Runtime>(options), options, use);
  }

 private:
  const TempDir dir_;

 public:
  OptionSet options;
  std::shared_ptr<LoadedModel> model;
};

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

constexpr ForwardOutput kOfLogits[] = {ForwardOutput::kLogprobs, ForwardOutput::kEntropies,
                                       ForwardOutput::kHidden, ForwardOutput::kLogits};

TEST(ModelForward, HasTheBitsOfATrainer) {
  Served trained(PlanUse::kTrain), served(PlanUse::kForward);
  TrainerSession trainer(trained.model, trained.options);
  const std::vector<SamplePtr> batch = host_batch(trainer, {.temperature = 0.7f});
  const std::vector<uint64_t> rows = {39, 0, 7};
  for (const ForwardOutput output : kOfLogits) {
    SCOPED_TRACE(static_cast<int>(output));
    const TensorPtr a = trainer.forward({output, batch}),
                    b = served.model->forward({output, batch});
    EXPECT_TRUE(same_bytes(*a, *b));
    EXPECT_EQ(a->shape()[0], is_per_token(output) ? 24 : 40);
    if (is_per_token(output)) continue;
    EXPECT_TRUE(same_bytes(*trainer.forward({output, batch, rows}),
                           *served.model->forward({output, batch, rows})));
  }
}

TEST(ModelForward, HoldsWhatItsPlanSays) {
  Served served(PlanUse::kForward), trained(PlanUse::kTrain);
  const MemoryPlan& plan = served.model->plan();
  EXPECT_EQ(served.model->runtime().ledger().bytes(), plan.arena_bytes);
  EXPECT_GT(plan.bytes_of("forward workspace"), 0u);
  for (const char* arena : {"gradients", "optimizer states", "packed weights, backward"}) {
    EXPECT_EQ(plan.bytes_of(arena), 0u) << arena;
    EXPECT_GT(trained.model->plan().bytes_of(arena), 0u) << arena;
  }
  EXPECT_GT(plan.max_tokens, 0);
  EXPECT_LT(plan.arena_bytes, trained.model->plan().arena_bytes);
}

TEST(ModelForward, ABudgetBoundsItsMicroBatches) {
  const uint64_t free = Served(PlanUse::kForward).model->plan().total_bytes;
  const auto with = [](uint64_t budget) {
    return Texts{str("runtime.memory_budget_bytes=", budget)};
  };
  Served bounded(PlanUse::kForward, with(free - 1));
  EXPECT_LE(bounded.model->plan().total_bytes, free - 1);
  EXPECT_EQ(
      expect_error(Code::kResourceExhausted, [&] { Served(PlanUse::kForward, with(1 << 20)); }).key,
      "runtime.memory_budget_bytes");
}

TEST(ModelForward, ARewardModelHasScoresAndValues) {
  const Texts texts = {"algo.objective=reward_model"};
  Served trained(PlanUse::kTrain, texts), served(PlanUse::kForward, texts);
  TrainerSession trainer(trained.model, trained.options);
  std::vector<SamplePtr> batch;
  for (int32_t i = 0; i < 3; ++i) {
    auto s = std::make_shared<Sample>();
    s->ids = {4, 5, 60 + i, 61, 7};
    s->prompt_tokens = 2;
    batch.push_back(std::move(s));
  }
  for (const ForwardOutput output :
       {ForwardOutput::kScores, ForwardOutput::kValues, ForwardOutput::kHidden}) {
    EXPECT_TRUE(
        same_bytes(*trainer.forward({output, batch}), *served.model->forward({output, batch})));
  }
  EXPECT_EQ(served.model->forward({ForwardOutput::kScores, batch})->shape(),
            std::vector<int64_t>{3});
  for (const ForwardOutput output :
       {ForwardOutput::kLogprobs, ForwardOutput::kEntropies, ForwardOutput::kLogits}) {
    for (const bool by_trainer : {false, true}) {
      const Error e = expect_error(Code::kFailedPrecondition, [&] {
        by_trainer ? trainer.forward({output, batch}) : served.model->forward({output, batch});
      });
      EXPECT_EQ(e.key, "algo.objective");
    }
  }
}

TEST(ModelForward, ACriticGivesTheValuesOfATrainer) {
  Served plain(PlanUse::kTrain), with_critic(PlanUse::kTrain, {"algo.advantage=gae"});
  TrainerSession a(plain.model, plain.options), b(with_critic.model, with_critic.options);
  const std::vector<SamplePtr> batch = host_batch(a);
  EXPECT_EQ(expect_error(Code::kFailedPrecondition,
                         [&] {
                           a.forward({ForwardOutput::kValues, batch});
                         })
                .key,
            "algo.objective");
  const TensorPtr first = b.forward({ForwardOutput::kValues, batch});
  EXPECT_EQ(first->shape(), std::vector<int64_t>{24});
  b.step(batch);
  EXPECT_FALSE(same_bytes(*first, *b.forward({ForwardOutput::kValues, batch})));
}

TEST(ModelForward, OtherUsesHaveNoMemoryForIt) {
  for (const PlanUse use : {PlanUse::kModel, PlanUse::kGenerate, PlanUse::kTrain}) {
    Served other(use);
    const Error e = expect_error(Code::kFailedPrecondition, [&] { other.model->forward({}); });
    EXPECT_EQ(e.expected, "RL_USE_FORWARD");
  }
}

TEST(ModelForward, ASampleThatCannotBeIsNamed) {
  Served served(PlanUse::kForward);
  std::vector<SamplePtr> batch(2, std::make_shared<Sample>());
  batch[0]->ids = {1, 2, 3};
  batch[0]->prompt_tokens = 4;
  for (const ForwardOutput output : kOfLogits) {
    EXPECT_EQ(expect_error(Code::kOutOfRange,
                           [&] {
                             served.model->forward({output, batch});
                           })
                  .key,
              "prompt_tokens");
  }
  batch[0]->prompt_tokens = 1;
  batch[1] = nullptr;
  EXPECT_EQ(expect_error(Code::kInvalidArgument,
                         [&] {
                           served.model->forward({ForwardOutput::kHidden, batch});
                         })
                .message,
            "sample 1 of the batch is null");
}

}  // namespace
}  // namespace rl
