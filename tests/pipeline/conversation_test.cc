// Conversations: exact ids, no loss on what the host adds, the trainer's log-probs, states, groups.
#include "pipeline/session/conversation.h"

#include <gtest/gtest.h>

#include "pipeline/config/run_options.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::tiny_options;

class Conversations : public ::testing::Test {
 protected:
  Conversations() : options_(tiny_options(dir_)) {
    options_.set_i64("engine.max_model_len", 128);
    model_ = LoadedModel::open(std::make_shared<Runtime>(options_), options_, PlanUse::kTrain);
    engine_ = std::make_shared<EngineSession>(model_, testing::for_session(options_));
  }

  std::shared_ptr<Conversation> start(std::vector<int32_t> prompt = {1, 2, 3}) {
    return std::make_shared<Conversation>(engine_, prompt);
  }
  Request turn(int64_t tokens = 8) const {
    Request r = request_from(options_);
    r.max_new_tokens = tokens;
    return r;
  }
  void talk(Conversation& c, int64_t tokens = 8) {
    c.generate(turn(tokens));
    engine_->run();
  }

  const TempDir dir_;
  OptionSet options_;
  std::shared_ptr<LoadedModel> model_;
  std::shared_ptr<EngineSession> engine_;
};

TEST_F(Conversations, TokensAreKeptAsSampledAndAsGiven) {
  const auto c = start();
  talk(*c, 6);
  const SamplePtr first = c->sample();
  c->append(std::vector<int32_t>{40, 41});
  c->append(std::vector<int32_t>{42});
  talk(*c, 4);
  const SamplePtr s = c->sample();
  ASSERT_EQ(s->ids.size(), 3u + 6u + 3u + 4u);
  EXPECT_EQ(std::vector<int32_t>(s->ids.begin(), s->ids.begin() + 9), first->ids);
  EXPECT_EQ(std::vector<int32_t>(s->ids.begin() + 9, s->ids.begin() + 12),
            (std::vector<int32_t>{40, 41, 42}));
  EXPECT_EQ(s->loss_mask, (std::vector<uint8_t>{1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1}));
  for (size_t i = 6; i < 9; ++i) {
    EXPECT_EQ(s->logprobs[i], 0.0f);
    EXPECT_EQ(s->logprobs_sampled[i], 0.0f);
    EXPECT_EQ(s->versions[i], kUnknownVersion);
  }
  const ConversationInfo info = c->info();
  EXPECT_EQ(info.turns, 2);
  EXPECT_EQ(info.num_ids, 16);
  EXPECT_FALSE(info.generating);
  EXPECT_EQ(info.finish, FinishReason::kLength);
  EXPECT_EQ(info.sample_id, s->id);
  EXPECT_TRUE(engine_->take_finished().empty());
}

TEST_F(Conversations, ATurnGoesOnFromItsConversationWhateverPromptIsGiven) {
  const auto c = start();
  Request given = turn(4);
  given.prompt = {9, 9};
  c->generate(given);
  engine_->run();
  const SamplePtr s = c->sample();
  ASSERT_EQ(s->ids.size(), 3u + 4u);
  EXPECT_EQ(std::vector<int32_t>(s->ids.begin(), s->ids.begin() + 3),
            (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(Conversations, ATurnIsOneSampleHoweverManyAreAskedFor) {
  const auto c = start();
  Request given = turn(4);
  given.num_samples = 3;
  for (int turns = 1; turns <= 2; ++turns) {
    c->generate(given);
    engine_->run();
    EXPECT_EQ(c->info().turns, turns);
    EXPECT_EQ(c->sample()->generated(), 4 * turns);
  }
  EXPECT_TRUE(engine_->take_finished().empty());
}

TEST_F(Conversations, SampledTokensHaveTheTrainersLogProbs) {
  std::vector<SamplePtr> batch;
  const auto first = start(), second = first->fork();
  for (const auto& c : {first, second}) {
    for (int i = 0; i < 3; ++i) {
      talk(*c, 5);
      c->append(std::vector<int32_t>{60 + i, 61, 62});
    }
    batch.push_back(c->sample());
    batch.back()->scored = true;
    batch.back()->reward = static_cast<double>(batch.size());
  }
  EXPECT_EQ(batch[0]->ordinal, batch[1]->ordinal);
  EXPECT_EQ(batch[1]->slot, 1u);
  EXPECT_NE(batch[0]->ids, batch[1]->ids);
  TrainerSession trainer(model_, testing::for_session(options_));
  const MetricList metrics = trainer.step(batch);
  EXPECT_EQ(metrics.get("training/logprob_max_abs_diff"), 0.0);
  EXPECT_EQ(metrics.get("training/logprob_compared_tokens"), 30.0);
}

TEST_F(Conversations, ALaterTurnFindsTheKeysAndValuesOfTheEarlierOnes) {
  const auto c = start(std::vector<int32_t>(40, 7));
  talk(*c, 20);
  c->append(std::vector<int32_t>{1, 2, 3});
  const EngineStats before = engine_->stats();
  talk(*c, 4);
  const EngineStats after = engine_->stats();
  EXPECT_GE(after.cached_tokens - before.cached_tokens, 48);
  EXPECT_LE(after.prefill_tokens - before.prefill_tokens, 63 - 48);
}

TEST_F(Conversations, AForkHasTheTurnsOfItsBeginning) {
  const auto c = start();
  talk(*c, 2);
  talk(*c, 2);
  const auto other = c->fork();
  EXPECT_EQ(other->info().turns, 2);
  talk(*other, 2);
  EXPECT_EQ(other->info().turns, 3);
  EXPECT_EQ(c->info().turns, 2);
}

TEST_F(Conversations, NothingChangesWhileATurnIsGenerated) {
  const auto c = start();
  c->generate(turn());
  engine_->step();
  EXPECT_TRUE(c->info().generating);
  EXPECT_EQ(c->info().num_ids, 3);
  const std::vector<int32_t> more = {5};
  const auto busy = [&](auto&& call) {
    const Error e = expect_error(Code::kFailedPrecondition, call);
    EXPECT_EQ(e.key, "conversation");
    EXPECT_TRUE(contains(e.message, "is generating"));
  };
  busy([&] { c->append(more); });
  busy([&] { c->generate(turn()); });
  busy([&] { c->sample(); });
  busy([&] { c->fork(); });
  engine_->run();
  c->append(more);
  EXPECT_EQ(c->sample()->ids.size(), 3u + 8u + 1u);
}

TEST_F(Conversations, AnAbortedTurnKeepsItsTokensAndGoesOnExactly) {
  const auto whole = start(), cut = start();
  talk(*whole, 8);
  cut->generate(turn(8));
  for (int i = 0; i < 3; ++i) engine_->step();
  engine_->abort_request(cut->info().sample_id);
  EXPECT_EQ(cut->info().finish, FinishReason::kAborted);
  EXPECT_EQ(cut->info().num_ids, 6);
  talk(*cut, 5);
  const SamplePtr s = cut->sample();
  EXPECT_EQ(s->num_aborts, 1u);
  EXPECT_EQ(s->generated(), 8);
  TrainerSession trainer(model_, testing::for_session(options_));
  EXPECT_EQ(trainer.logprobs(s->ids, 3, s->temperature), s->logprobs);
}

TEST_F(Conversations, WhatCannotBeAddedIsNamed) {
  const auto c = start();
  const auto refused = [&](Code code, std::vector<int32_t> ids, const std::string& text) {
    const Error e = expect_error(code, [&] { c->append(ids); });
    EXPECT_EQ(e.key, "content.ids");
    EXPECT_TRUE(contains(e.message, text));
  };
  refused(Code::kInvalidArgument, {}, "no tokens");
  refused(Code::kOutOfRange, {5, 1 << 20}, "ids[1]");
  refused(Code::kOutOfRange, std::vector<int32_t>(126, 5), "128");
  EXPECT_EQ(c->info().num_ids, 3);
  expect_error(Code::kInvalidArgument, [&] { start({}); });
  c->append(std::vector<int32_t>(125, 5));
  const Error full = expect_error(Code::kOutOfRange, [&] { c->generate(turn()); });
  EXPECT_EQ(full.key, "sampling.max_new_tokens");
  EXPECT_FALSE(c->info().generating);
}

TEST_F(Conversations, TurnsHaveOneTemperature) {
  const auto c = start();
  c->append(std::vector<int32_t>{9});
  Request cool = turn();
  cool.sampling.temperature = 0.5f;
  cool.sampling.top_logprobs = 2;
  c->generate(cool);
  engine_->run();
  EXPECT_EQ(c->sample()->temperature, 0.5f);
  EXPECT_EQ(c->sample()->top_ids.size(), 2u * 9u);
  EXPECT_EQ(c->sample()->top_ids[0], -1);
  Request warm = cool;
  warm.sampling.temperature = 1.0f;
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [&] { c->generate(warm); }).key,
            "sampling.temperature");
}

TEST_F(Conversations, EndsInAnyOrder) {
  auto c = start(), left = start();
  c->generate(turn());
  left->generate(turn());
  engine_->step();
  c.reset();
  EXPECT_EQ(engine_->stats().running, 1);
  engine_->close();
  EXPECT_EQ(left->info().finish, FinishReason::kAborted);
  EXPECT_EQ(left->sample()->generated(), 1);
  expect_error(Code::kFailedPrecondition, [&] { left->generate(turn()); });
  EXPECT_TRUE(engine_->take_finished().empty());
}

}  // namespace
}  // namespace rl
