// What a host gives beside a reward: kinds of reward, and its own advantages and policy loss, where
// those of the library, written again by the host, train to the same weights; what they may do, and
// what happens when they fail.
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

struct Calls {
  int asked = 0, ended = 0;
  int32_t answer = 0;
  double spoil = 0;  // added to what is given
  std::vector<uint64_t> sample_ids;
};
void on_end(void* user_data) { ++static_cast<Calls*>(user_data)->ended; }

// A minus B for a pair of samples, as dr_grpo: reward - mean of the group.
int32_t centred(void* user_data, const rl_algo_tokens* tokens, double* advantages) {
  Calls& calls = *static_cast<Calls*>(user_data);
  ++calls.asked;
  calls.sample_ids.assign(tokens->sample_ids, tokens->sample_ids + tokens->num_sequences);
  EXPECT_EQ(tokens->logprobs, nullptr);
  EXPECT_NE(tokens->old_logprobs, nullptr);
  double mean = 0;
  for (size_t i = 0; i < tokens->num_sequences; ++i) {
    EXPECT_EQ(tokens->groups[i], tokens->groups[0]);
    mean += tokens->rewards[i] / static_cast<double>(tokens->num_sequences);
  }
  size_t t = 0;
  for (size_t i = 0; i < tokens->num_sequences; ++i) {
    for (const size_t end = t + static_cast<size_t>(tokens->lengths[i]); t < end; ++t) {
      advantages[t] = tokens->rewards[i] - mean + calls.spoil;
    }
  }
  EXPECT_EQ(t, tokens->num_tokens);
  return calls.answer;
}

// -A log-prob.
int32_t reinforce(void* user_data, const rl_algo_tokens* tokens, const double* weights,
                  double* loss, double* gradient) {
  Calls& calls = *static_cast<Calls*>(user_data);
  ++calls.asked;
  EXPECT_EQ(tokens->rewards, nullptr);
  for (size_t t = 0; t < tokens->num_tokens; ++t) {
    EXPECT_EQ(gradient[t], 0);
    if (weights[t] == 0) {
      gradient[t] = std::numeric_limits<double>::quiet_NaN();  // nobody reads it
      continue;
    }
    *loss += weights[t] * (-tokens->advantages[t] * tokens->logprobs[t]) + calls.spoil;
    gradient[t] = weights[t] * -tokens->advantages[t] + calls.spoil;
  }
  return calls.answer;
}

// A trainer of its own on a host's model and batch.
class Custom {
 public:
  using Settings = std::vector<std::pair<const char*, const char*>>;
  explicit Custom(const Settings& settings) {
    for (const auto& [key, text] : settings) set(host_.options, key, text);
    EXPECT_RL_OK(rl_trainer_create(host_.model, host_.options, &trainer_, &err));
  }
  ~Custom() {
    rl_trainer_destroy(trainer_);
    rl_event_release(event_);
  }
  rl_trainer* trainer() { return trainer_; }
  Host& host() { return host_; }

  rl_status step(std::string* key = nullptr, std::string* message = nullptr) {
    rl_event_release(std::exchange(event_, nullptr));
    rl_error* err = nullptr;
    const rl_status status = train(trainer_, host_.batch, &event_, &err);
    if (key != nullptr) *key = text_of(err, RL_ERROR_KEY);
    if (message != nullptr) *message = text_of(err, RL_ERROR_MESSAGE);
    rl_error_release(err);
    return status;
  }
  double metric(const char* name) const {
    double value = -1;
    EXPECT_RL_OK(rl_event_metric_named(event_, name, RL_NUL_TERMINATED, &value, &err));
    return value;
  }
  uint64_t digest() {
    uint64_t value = 0;
    EXPECT_RL_OK(rl_model_digest(host_.model, &value, &err));
    return value;
  }

 private:
  Host host_;
  rl_trainer* trainer_ = nullptr;
  rl_event* event_ = nullptr;
};

const Custom::Settings kBuiltIn = {{"algo.advantage", "dr_grpo"}, {"algo.policy_loss", "none"}};
const Custom::Settings kOwnAdvantage = {{"algo.advantage", "custom"}, {"algo.policy_loss", "none"}};
const Custom::Settings kOwnLoss = {{"algo.advantage", "dr_grpo"}, {"algo.policy_loss", "custom"}};

TEST(AbiCustomAlgorithm, TheSameFormulasTrainToTheSameWeights) {
  Custom built_in(kBuiltIn), own_advantage(kOwnAdvantage), own_loss(kOwnLoss);
  Calls advantages, losses;
  EXPECT_RL_OK(
      rl_trainer_set_advantage(own_advantage.trainer(), centred, &advantages, on_end, &err));
  EXPECT_RL_OK(rl_trainer_set_loss(own_loss.trainer(), reinforce, &losses, on_end, &err));
  const uint64_t before = built_in.digest();
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(built_in.step(), RL_OK);
    EXPECT_EQ(own_advantage.step(), RL_OK);
    EXPECT_EQ(own_loss.step(), RL_OK);
  }
  EXPECT_NE(built_in.digest(), before);
  EXPECT_EQ(own_advantage.digest(), built_in.digest());
  EXPECT_EQ(own_loss.digest(), built_in.digest());
  EXPECT_NEAR(own_loss.metric("actor/pg_loss"), built_in.metric("actor/pg_loss"), 1e-12);
  EXPECT_EQ(advantages.asked, 2);
  EXPECT_EQ(losses.asked, 2);
  rl_sample_view first;
  rl_sample_view_init(&first, sizeof first);
  EXPECT_RL_OK(rl_batch_sample(own_advantage.host().batch, 0, &first, &err));
  ASSERT_EQ(advantages.sample_ids.size(), 2u);
  EXPECT_EQ(advantages.sample_ids[0], first.sample_id);
  EXPECT_EQ(advantages.ended, 0);
  EXPECT_RL_OK(rl_trainer_set_advantage(own_advantage.trainer(), nullptr, nullptr, nullptr, &err));
  EXPECT_EQ(advantages.ended, 1) << "replaced";
}

TEST(AbiCustomAlgorithm, WithoutAFunctionNothingRuns) {
  for (const auto& [settings, expected] :
       {std::pair(kOwnAdvantage, "algo.advantage"), std::pair(kOwnLoss, "algo.policy_loss")}) {
    Custom custom(settings);
    const uint64_t before = custom.digest();
    std::string key;
    EXPECT_EQ(custom.step(&key), RL_FAILED_PRECONDITION);
    EXPECT_EQ(key, expected);
    EXPECT_EQ(custom.digest(), before);
  }
}

TEST(AbiCustomAlgorithm, AdvantagesThatFailLeaveEverythingAsItWas) {
  Custom custom(kOwnAdvantage);
  Calls calls;
  EXPECT_RL_OK(rl_trainer_set_advantage(custom.trainer(), centred, &calls, on_end, &err));
  const uint64_t before = custom.digest();
  std::string key, message;
  calls.answer = 7;
  EXPECT_EQ(custom.step(&key, &message), RL_CANCELLED);
  EXPECT_EQ(key, "algo.advantage");
  EXPECT_NE(message.find("7"), std::string::npos) << message;
  calls.answer = 0;
  calls.spoil = std::numeric_limits<double>::infinity();
  EXPECT_EQ(custom.step(&key, &message), RL_NON_FINITE);
  EXPECT_NE(message.find("token 0 of sample"), std::string::npos) << message;
  EXPECT_EQ(custom.digest(), before);
  calls.spoil = 0;
  EXPECT_EQ(custom.step(), RL_OK);
  EXPECT_NE(custom.digest(), before);
}

TEST(AbiCustomAlgorithm, ALossThatFailsSkipsItsOptimizerStep) {
  Custom custom(kOwnLoss);
  Calls calls;
  EXPECT_RL_OK(rl_trainer_set_loss(custom.trainer(), reinforce, &calls, on_end, &err));
  const uint64_t before = custom.digest();
  calls.answer = 1;
  EXPECT_EQ(custom.step(), RL_OK);
  EXPECT_EQ(custom.metric("training/skipped_steps"), 1);
  calls.answer = 0;
  calls.spoil = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(custom.step(), RL_OK);
  EXPECT_EQ(custom.metric("training/skipped_steps"), 1);
  EXPECT_EQ(custom.digest(), before);
  calls.spoil = 0;
  EXPECT_EQ(custom.step(), RL_OK);
  EXPECT_EQ(custom.metric("training/skipped_steps"), 0);
  EXPECT_NE(custom.digest(), before);
}

struct Ending {
  rl_trainer* trainer = nullptr;
  rl_pipeline* pipeline = nullptr;
  int ended = 0;
};
void call_at_end(void* user_data) {
  Ending& ending = *static_cast<Ending*>(user_data);
  ++ending.ended;
  uint64_t version = 0;
  EXPECT_RL_OK(rl_trainer_publish(ending.trainer, &version, &err));
  rl_pipeline_stats stats;
  rl_pipeline_stats_init(&stats, sizeof stats);
  EXPECT_RL_OK(rl_pipeline_get_stats(ending.pipeline, &stats, &err));
}

TEST(AbiCustomAlgorithm, WhatEndsAFunctionMayCallTheObjectThatHadIt) {
  Host host;
  Ending ending{host.trainer, host.pipeline};
  EXPECT_RL_OK(rl_trainer_set_advantage(host.trainer, centred, &ending, call_at_end, &err));
  EXPECT_RL_OK(rl_trainer_set_loss(host.trainer, reinforce, &ending, call_at_end, &err));
  EXPECT_RL_OK(rl_pipeline_set_advantage(host.pipeline, centred, &ending, call_at_end, &err));
  EXPECT_RL_OK(rl_pipeline_set_loss(host.pipeline, reinforce, &ending, call_at_end, &err));
  EXPECT_RL_OK(rl_trainer_set_advantage(host.trainer, nullptr, nullptr, nullptr, &err));
  EXPECT_RL_OK(rl_trainer_set_loss(host.trainer, nullptr, nullptr, nullptr, &err));
  EXPECT_RL_OK(rl_pipeline_set_advantage(host.pipeline, nullptr, nullptr, nullptr, &err));
  EXPECT_RL_OK(rl_pipeline_set_loss(host.pipeline, nullptr, nullptr, nullptr, &err));
  EXPECT_EQ(ending.ended, 4);
}

struct Inside {
  rl_model* model = nullptr;
  rl_status version = RL_OK, algorithm = RL_INTERNAL;
};
int32_t call_back(void* user_data, const rl_algo_tokens* tokens, double* advantages) {
  Inside& inside = *static_cast<Inside*>(user_data);
  uint64_t version = 0;
  inside.version = rl_model_version(inside.model, &version, nullptr);
  rl_model_destroy(inside.model);
  inside.algorithm =
      rl_algo_advantages(nullptr, tokens, advantages, tokens->num_tokens, nullptr, 0, nullptr);
  return 0;
}

TEST(AbiCustomAlgorithm, AFunctionMayCallTheAlgorithmsAndNothingElse) {
  const Custom::Settings grpo_settings = {{"algo.policy_loss", "none"}};
  Custom custom(kOwnAdvantage), grpo(grpo_settings);
  Inside inside{custom.host().model};
  EXPECT_RL_OK(rl_trainer_set_advantage(custom.trainer(), call_back, &inside, nullptr, &err));
  EXPECT_EQ(custom.step(), RL_OK);
  EXPECT_EQ(grpo.step(), RL_OK);
  EXPECT_EQ(inside.version, RL_WRONG_THREAD);
  EXPECT_EQ(inside.algorithm, RL_OK);
  EXPECT_EQ(custom.digest(), grpo.digest()) << "the model is live, and trained as by grpo";
}

// One step of a run, samples scored by their slot, with parts half and double that, if wanted; the
// digest it ends with.
uint64_t run_pipeline(const Custom::Settings& settings, Calls& advantages, Calls& losses,
                      bool with_parts = false) {
  Host host;
  rl_pipeline_destroy(host.pipeline);
  for (const auto& [key, text] : settings) set(host.options, key, text);
  rl_pipeline* run = nullptr;
  EXPECT_RL_OK(rl_pipeline_create(host.model, host.options, &run, &err));
  EXPECT_RL_OK(rl_pipeline_set_advantage(run, centred, &advantages, on_end, &err));
  EXPECT_RL_OK(rl_pipeline_set_loss(run, reinforce, &losses, on_end, &err));
  EXPECT_RL_OK(rl_pipeline_start(run, &err));
  EXPECT_EQ(rl_pipeline_set_loss(run, reinforce, &losses, on_end, nullptr), RL_FAILED_PRECONDITION);
  const int32_t ids[] = {1, 2, 3};
  EXPECT_RL_OK(feed(run, ids, 3, &err));
  EXPECT_RL_OK(rl_pipeline_finish_feed(run, &err));
  rl_event* event = nullptr;
  while (rl_pipeline_next(run, -1, &event, nullptr) == RL_OK) {
    rl_event_view view;
    rl_event_view_init(&view, sizeof view);
    EXPECT_RL_OK(rl_event_get_view(event, &view, &err));
    if (view.kind == RL_EVENT_SCORE) {
      rl_sample_view sample;
      rl_sample_view_init(&sample, sizeof sample);
      EXPECT_RL_OK(rl_event_sample(event, 0, &sample, &err));
      const double reward = static_cast<double>(sample.slot % 2);
      const double parts[] = {reward / 2, reward * 2};
      if (with_parts) {
        EXPECT_EQ(score(run, sample.sample_id, reward, nullptr), RL_INVALID_ARGUMENT);
        const rl_score fewer = score_of(sample.sample_id, reward, parts, 1);
        const rl_score whole = score_of(sample.sample_id, reward, parts, 2);
        EXPECT_EQ(rl_pipeline_score(run, &fewer, 1, nullptr, nullptr), RL_INVALID_ARGUMENT);
        EXPECT_RL_OK(rl_pipeline_score(run, &whole, 1, nullptr, &err));
      } else {
        EXPECT_RL_OK(score(run, sample.sample_id, reward, &err));
      }
    }
    rl_event_release(event);
  }
  uint64_t digest = 0;
  EXPECT_RL_OK(rl_model_digest(host.model, &digest, &err));
  rl_pipeline_destroy(run);
  return digest;
}

TEST(AbiCustomAlgorithm, APipelineAsksTheHostOnceAStep) {
  Calls advantages, losses, unasked;
  const uint64_t own = run_pipeline({{"algo.advantage", "custom"}, {"algo.policy_loss", "custom"}},
                                    advantages, losses);
  EXPECT_EQ(advantages.asked, 1);
  EXPECT_EQ(losses.asked, 1);
  EXPECT_EQ(advantages.ended, 1);
  EXPECT_EQ(losses.ended, 2) << "also the one that came too late";
  EXPECT_EQ(run_pipeline(kBuiltIn, unasked, unasked), own);
  EXPECT_EQ(unasked.asked, 0);
}

// Scaled rewards: without the division by their std the sum of weighted kinds is that of one
// reward.
const Custom::Settings kTwoKinds = {{"algo.advantage", "gdpo"},
                                    {"algo.gdpo_weights", "1,0.25"},
                                    {"algo.adv_norm_std", "false"},
                                    {"algo.whiten", "none"},
                                    {"algo.policy_loss", "none"}};

TEST(AbiRewardParts, GdpoSumsTheKindsOfAReward) {
  Calls unasked;
  EXPECT_EQ(run_pipeline(kTwoKinds, unasked, unasked, /*with_parts=*/true),
            run_pipeline(kBuiltIn, unasked, unasked));
  Custom built_in(kBuiltIn), gdpo(kTwoKinds);
  std::string key;
  EXPECT_EQ(gdpo.step(&key), RL_INVALID_ARGUMENT) << "no parts yet";
  EXPECT_EQ(key, "algo.gdpo_weights");
  for (size_t i = 0; i < 2; ++i) {
    const double reward = i == 0 ? 1 : 0;
    const double parts[] = {reward / 2, reward * 2};
    EXPECT_RL_OK(set_parts(gdpo.host().batch, i, parts, 2, &err));
    rl_sample_view view;
    rl_sample_view_init(&view, sizeof view);
    EXPECT_RL_OK(rl_batch_sample(gdpo.host().batch, i, &view, &err));
    ASSERT_EQ(view.num_reward_parts, 2u);
    EXPECT_EQ(view.reward_parts[1], reward * 2);
  }
  EXPECT_EQ(gdpo.step(), RL_OK);
  EXPECT_EQ(built_in.step(), RL_OK);
  EXPECT_EQ(gdpo.digest(), built_in.digest());
}

TEST(AbiReward, OneThatIsNotFiniteIsNamedAndLeavesTheOneBefore) {
  Custom built_in(kBuiltIn);
  rl_batch* const batch = built_in.host().batch;
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    rl_error* error = nullptr;
    EXPECT_EQ(set_reward(batch, 0, bad, &error), RL_NON_FINITE);
    EXPECT_EQ(text_of(error, RL_ERROR_KEY), "scores[0].reward");
    rl_error_release(error);
  }
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_batch_sample(batch, 0, &view, &err));
  EXPECT_EQ(view.reward, 1);
}

TEST(AbiRewardParts, AHostsFunctionSeesNoBatchOfUnequalKinds) {
  Custom custom(kOwnAdvantage);
  Calls calls;
  EXPECT_RL_OK(rl_trainer_set_advantage(custom.trainer(), centred, &calls, on_end, &err));
  const double parts[] = {1, 2};
  EXPECT_RL_OK(set_parts(custom.host().batch, 0, parts, 2, &err));
  std::string key, message;
  EXPECT_EQ(custom.step(&key, &message), RL_INVALID_ARGUMENT);
  EXPECT_EQ(key, "reward_parts");
  EXPECT_NE(message.find("slot 1) has 0 parts, but that of sample"), std::string::npos) << message;
  EXPECT_EQ(calls.asked, 0);
  EXPECT_RL_OK(set_parts(custom.host().batch, 1, parts, 2, &err));
  EXPECT_EQ(custom.step(), RL_OK);
  EXPECT_EQ(calls.asked, 1);
  Custom weighed(
      {{"algo.advantage", "custom"}, {"algo.policy_loss", "none"}, {"algo.gdpo_weights", "1,2,3"}});
  EXPECT_RL_OK(rl_trainer_set_advantage(weighed.trainer(), centred, &calls, on_end, &err));
  EXPECT_RL_OK(set_parts(weighed.host().batch, 0, parts, 2, &err));
  EXPECT_RL_OK(set_parts(weighed.host().batch, 1, parts, 2, &err));
  EXPECT_EQ(weighed.step(&key, &message), RL_INVALID_ARGUMENT);
  EXPECT_EQ(key, "algo.gdpo_weights");
  EXPECT_NE(message.find("has 2 parts, but algo.gdpo_weights has 3 entries"), std::string::npos);
  EXPECT_EQ(calls.asked, 1);
}

TEST(AbiRewardParts, BadPartsAreNamed) {
  Host host;
  const double bad[] = {1, std::nan("")};
  rl_error* err = nullptr;
  EXPECT_EQ(set_parts(host.batch, 0, bad, 2, &err), RL_NON_FINITE);
  EXPECT_NE(text_of(err, RL_ERROR_MESSAGE).find("parts[1]"), std::string::npos);
  rl_error_release(err);
  EXPECT_EQ(set_parts(host.batch, 0, bad, 1025, nullptr), RL_INVALID_ARGUMENT);
  EXPECT_EQ(set_parts(host.batch, 2, bad, 1, nullptr), RL_OUT_OF_RANGE);
  set(host.options, "algo.advantage", "gdpo");
  set(host.options, "algo.gdpo_weights", "1,two");
  rl_trainer* trainer = nullptr;
  EXPECT_EQ(rl_trainer_create(host.model, host.options, &trainer, &err), RL_INVALID_ARGUMENT);
  EXPECT_NE(text_of(err, RL_ERROR_MESSAGE).find("algo.gdpo_weights[1]"), std::string::npos);
  rl_error_release(err);
}

// Advantages on arrays: one kind of weight 1 is grpo, whitened.
TEST(AbiRewardParts, ArraysHaveTheirKindsSequenceBySequence) {
  const int32_t lengths[] = {1, 2};
  const double rewards[] = {0, 0}, parts[] = {1, 5, 3, 5};
  rl_algo_tokens tokens;
  rl_algo_tokens_init(&tokens, sizeof tokens);
  tokens.lengths = lengths;
  tokens.num_sequences = 2;
  tokens.num_tokens = 3;
  tokens.rewards = rewards;
  tokens.reward_parts = parts;
  tokens.num_reward_parts = 2;
  rl_options* options = nullptr;
  EXPECT_RL_OK(rl_options_create(&options, &err));
  for (const auto& [key, text] : kTwoKinds) set(options, key, text);
  double advantages[3];
  EXPECT_RL_OK(rl_algo_advantages(options, &tokens, advantages, 3, nullptr, 0, &err));
  EXPECT_EQ(advantages[0], -1);
  EXPECT_EQ(advantages[1], 1);
  EXPECT_EQ(advantages[2], 1);
  tokens.num_reward_parts = 1;
  EXPECT_EQ(rl_algo_advantages(options, &tokens, advantages, 3, nullptr, 0, nullptr),
            RL_INVALID_ARGUMENT);
  rl_options_destroy(options);
}

TEST(AbiCustomAlgorithm, APipelineWithoutItsFunctionDoesNotStart) {
  Host host;
  rl_pipeline_destroy(host.pipeline);
  set(host.options, "algo.advantage", "custom");
  EXPECT_RL_OK(rl_pipeline_create(host.model, host.options, &host.pipeline, &err));
  EXPECT_EQ(rl_pipeline_start(host.pipeline, nullptr), RL_FAILED_PRECONDITION);
  Calls calls;
  EXPECT_RL_OK(rl_pipeline_set_advantage(host.pipeline, centred, &calls, on_end, &err));
  EXPECT_RL_OK(rl_pipeline_start(host.pipeline, &err));
}

}  // namespace
}  // namespace abi_test
