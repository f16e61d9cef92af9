// Every refusal of a sample with its fields: which limit, which value, where it was seen; and what
// is just allowed.
#include "train/batch/sample_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "critic_rig.h"
#include "support/expect_error.h"
#include "train/roles/teacher.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

Sample of_tokens(size_t tokens) { return make_sample(std::vector<int32_t>(tokens, 5), 2, 0, 0); }

SampleLimits wide_limits() {
  return {
      .vocab = 100, .max_positions = 90, .max_rows = 90, .rows_key = "some.key", .max_sample = 90};
}

// A sample of `most` tokens passes; one token more is named with the limit.
void expect_most(const SampleLimits& limits, size_t most, const char* key) {
  SCOPED_TRACE(key);
  EXPECT_NO_THROW(check_sequence(of_tokens(most), limits));
  const Error e =
      expect_error(Code::kOutOfRange, [&] { check_sequence(of_tokens(most + 1), limits); });
  EXPECT_EQ(e.key, key);
  EXPECT_EQ(e.expected, str("at most ", most, " tokens"));
  EXPECT_EQ(e.message, str("sample 1 has ", most + 1, " tokens, but ", key, " allows ", most));
}

TEST(SampleCheck, ALengthHasThreeLimits) {
  SampleLimits limits = wide_limits();
  limits.max_sample = 45;
  expect_most(limits, 45, "engine.max_model_len");
  limits = wide_limits();
  limits.max_rows = 40;  // the last token is no row
  expect_most(limits, 41, "some.key");
  limits = wide_limits();
  limits.max_positions = 50;
  expect_most(limits, 51, "engine.max_model_len");
  // Of several, the length of a sample is named first, then the rows.
  const auto first = [](const SampleLimits& all) {
    return expect_error(Code::kOutOfRange, [&] { check_sequence(of_tokens(30), all); }).key;
  };
  EXPECT_EQ(first({100, 10, 10, "some.key", 10}), "engine.max_model_len");
  EXPECT_EQ(first({100, 10, 10, "some.key", 30}), "some.key");
}

Error refused(const Sample& s, Code code = Code::kOutOfRange) {
  return expect_error(code, [&] { check_trainable(s, wide_limits()); });
}

TEST(SampleCheck, AnIdOutsideTheVocabularyIsNamedWithItsIndex) {
  Sample s = of_tokens(6);
  s.ids = {0, 99, 0, 99, 5, 99};
  EXPECT_NO_THROW(check_trainable(s, wide_limits()));
  for (const int32_t id : {100, -1}) {
    s.ids[4] = id;
    const Error e = refused(s);
    EXPECT_EQ(e.key, "ids");
    EXPECT_EQ(e.expected, "0..99");
    EXPECT_TRUE(contains(e.message, str("sample 1: ids holds ", id, " at index 4, expected")));
  }
}

TEST(SampleCheck, APromptHasAtLeastOneTokenAndAtMostAll) {
  Sample s = of_tokens(6);
  for (const int32_t prompt : {0, 7, -1}) {
    s.prompt_tokens = prompt;
    const Error e = refused(s);
    EXPECT_EQ(e.key, "prompt_tokens");
    EXPECT_EQ(e.expected, "1..6, the number of tokens");
    EXPECT_TRUE(contains(e.message, str("prompt_tokens is ", prompt)));
  }
  for (const int32_t prompt : {1, 6}) {
    const Sample whole = make_sample(std::vector<int32_t>(6, 5), prompt, 0, 0);
    EXPECT_NO_THROW(check_trainable(whole, wide_limits()));
  }
}

TEST(SampleCheck, ATemperatureHasAFiniteInverse) {
  Sample s = of_tokens(6);
  for (const float temperature : {1e-37f, 0.01f, 1e37f}) {
    s.temperature = temperature;
    EXPECT_NO_THROW(check_trainable(s, wide_limits())) << temperature;
  }
  for (const float temperature : {-1.0f, 0.0f, 1e-39f, INFINITY, NAN}) {
    s.temperature = temperature;
    const Error e = refused(s);
    EXPECT_EQ(e.key, "temperature") << temperature;
    EXPECT_EQ(e.expected, "a value above 0 with a finite inverse");
  }
}

TEST(SampleCheck, ArraysHaveAnEntryForEachGeneratedToken) {
  using Change = std::function<void(Sample&)>;
  const std::vector<std::pair<const char*, Change>> cases = {
      {"logprobs", [](Sample& s) { s.logprobs.pop_back(); }},
      {"versions", [](Sample& s) { s.versions.pop_back(); }},
      {"loss_mask", [](Sample& s) { s.loss_mask.pop_back(); }},
  };
  for (const auto& [field, change] : cases) {
    Sample s = of_tokens(6);
    change(s);
    const Error e = refused(s, Code::kInvalidArgument);
    EXPECT_EQ(e.key, field);
    EXPECT_EQ(e.expected, "4, one per generated token");
    EXPECT_EQ(e.message,
              str("sample 1: ", field, " has 3 entries, expected 4, one per generated token"));
  }
  Sample empty = make_sample({1, 2, 3}, 3, 0, 0);
  EXPECT_NO_THROW(check_trainable(empty, wide_limits()));
  empty.loss_mask = {1};
  EXPECT_EQ(refused(empty, Code::kInvalidArgument).expected, "0, one per generated token");
}

TEST(SampleCheck, LogprobsMayBeMissingAsAWhole) {
  Sample s = of_tokens(6);
  EXPECT_FALSE(lacks_logprobs(s));
  s.logprobs.clear();
  EXPECT_TRUE(lacks_logprobs(s));
  EXPECT_NO_THROW(check_trainable(s, wide_limits()));
  s.ids.resize(2);
  EXPECT_FALSE(lacks_logprobs(s)) << "it has no generated token";
}

TEST(SampleCheck, AMaskAndAPurposeHaveTheirValues) {
  Sample s = of_tokens(6);
  s.loss_mask = {0, 1, 1, 2};
  const Error mask = refused(s);
  EXPECT_EQ(mask.key, "loss_mask");
  EXPECT_EQ(mask.expected, "0 or 1");
  EXPECT_TRUE(contains(mask.message, "loss_mask holds 2 at index 3"));
  s = of_tokens(6);
  s.purpose = Purpose::kEval;
  EXPECT_EQ(refused(s, Code::kInvalidArgument).key, "purpose");
  EXPECT_NO_THROW(check_sequence(s, wide_limits())) << "a forward takes it";
}

// Two pairs, of ordinals 0 and 3.
std::vector<Sample> two_pairs() {
  return {make_sample({1, 2, 3}, 2, 0, 0), make_sample({1, 2, 4, 5}, 2, 0, 1),
          make_sample({7, 8, 9}, 1, 3, 0), make_sample({7, 6}, 1, 3, 1)};
}

std::string pair_error(const std::function<void(std::vector<Sample>&)>& spoil) {
  std::vector<Sample> samples = two_pairs();
  spoil(samples);
  std::vector<const Sample*> all;
  for (const Sample& s : samples) all.push_back(&s);
  const Error e =
      expect_error(Code::kFailedPrecondition, [&] { check_pairs(Objective::kRewardModel, all); });
  EXPECT_EQ(e.key, "algo.objective");
  EXPECT_TRUE(contains(e.message, "; algo.objective = reward_model needs a chosen response"));
  return e.message.substr(0, e.message.find(';'));
}

TEST(SampleCheck, PairsMayComeInAnyOrder) {
  std::vector<Sample> samples = two_pairs();
  const std::vector<const Sample*> all = {&samples[1], &samples[3], &samples[2], &samples[0]};
  EXPECT_NO_THROW(check_pairs(Objective::kDpo, all));
  EXPECT_NO_THROW(check_pairs(Objective::kDpo, {}));
}

TEST(SampleCheck, WhatIsNoPairIsNamed) {
  using Samples = std::vector<Sample>;
  EXPECT_EQ(pair_error([](Samples& s) { s.pop_back(); }),
            "sample 301 (ordinal 3, slot 0) is the only sample of its pair");
  EXPECT_EQ(pair_error([](Samples& s) { s.erase(s.begin()); }),
            "sample 2 (ordinal 0, slot 1) is the only sample of its pair");
  EXPECT_EQ(pair_error([](Samples& s) { s[2].slot = 1; }),
            "sample 301 (ordinal 3, slot 1) is the only sample of its pair");
  EXPECT_EQ(pair_error([](Samples& s) { s[3].slot = 0; }),
            "sample 302 (ordinal 3, slot 0) is not part of a pair");
  EXPECT_EQ(pair_error([](Samples& s) { s[1].ordinal = 1, s[1].slot = 2; }),
            "sample 1 (ordinal 0, slot 0) is the only sample of its pair");
  EXPECT_EQ(pair_error([](Samples& s) { s[0].slot = s[1].slot = 2; }),
            "sample 1 (ordinal 0, slot 2) is not part of a pair");
  EXPECT_EQ(pair_error([](Samples& s) { s[3].ids[0] = 6; }),
            "sample 302 (ordinal 3, slot 1) has a different prompt than sample 301");
  EXPECT_EQ(pair_error([](Samples& s) {
              s[3] = make_sample({7, 8, 6}, 2, 3, 1);
            }),
            "sample 302 (ordinal 3, slot 1) has a different prompt than sample 301");
  EXPECT_EQ(pair_error([](Samples& s) {
              s[2].loss_mask = {0, 0};
            }),
            "sample 301 (ordinal 3, slot 0) has no token that carries loss");
  EXPECT_EQ(pair_error([](Samples& s) {
              s[1].loss_mask = {0, 0};
            }),
            "sample 2 (ordinal 0, slot 1) has no token that carries loss");
}

TrainerOptions narrow_options() {
  TrainerOptions o;
  o.max_tokens = 64;
  o.batch.forward_max_tokens = 40;
  o.batch.reference_max_tokens = 30;
  o.kl_in_loss = true;
  return o;
}

// 30 rows of a reference are 31 tokens.
TEST(SampleCheck, AReferenceRefusesBeforeAnythingRuns) {
  TrainRig rig({.with_reference = true}, narrow_options());
  const Sample fits = of_tokens(31), longer = of_tokens(32);
  rig.trainer->check(std::vector<TrainSample>{{&fits, 0, {}, {}}});
  const Error e = expect_error(Code::kOutOfRange, [&] {
    rig.trainer->check(std::vector<TrainSample>{{&fits, 0, {}, {}}, {&longer, 0, {}, {}}});
  });
  EXPECT_EQ(e.key, "reference.forward_max_tokens_per_device");
  EXPECT_EQ(e.expected, "at most 31 tokens");
  const std::vector<float> given(30);
  rig.trainer->check(std::vector<TrainSample>{{&longer, 0, {}, given}});
  const Sample beyond = of_tokens(42);
  const Error own = expect_error(Code::kOutOfRange, [&] {
    rig.trainer->check(std::vector<TrainSample>{{&beyond, 0, {}, std::vector<float>(40)}});
  });
  EXPECT_EQ(own.key, "trainer.logprob_max_tokens_per_device");
  EXPECT_EQ(own.expected, "at most 41 tokens");
}

TEST(SampleCheck, AReferenceThatIsMissingIsNamedForSamplesThatNeedOne) {
  TrainRig rig({}, narrow_options());
  const Sample prompt = make_sample({1, 2, 3}, 3, 0, 0), s = of_tokens(6);
  rig.trainer->check(std::vector<TrainSample>{{&prompt, 0, {}, {}}});
  const Error e = expect_error(Code::kFailedPrecondition, [&] {
    rig.trainer->check(std::vector<TrainSample>{{&prompt, 0, {}, {}}, {&s, 0, {}, {}}});
  });
  EXPECT_EQ(e.key, "model.reference_path");
  EXPECT_TRUE(contains(e.message, "sample 1 has no reference log-probs"));
  EXPECT_TRUE(contains(e.message, "algo.kl.where is loss"));
  const Error null = expect_error(Code::kInvalidArgument, [&] {
    rig.trainer->check(std::vector<TrainSample>{{&prompt, 0, {}, {}}, {nullptr, 0, {}, {}}});
  });
  EXPECT_EQ(null.message, "sample 1 of the step is null");
}

TEST(SampleCheck, LogprobsAreBoundByTheBudgetOfTheirModel) {
  TrainRig rig({.with_reference = true}, narrow_options());
  const auto logprobs = [&](const Model& model, size_t tokens, size_t room) {
    const Sample s = of_tokens(tokens);
    const Sample* const in[] = {&s};
    std::vector<float> values(room);
    const std::span<float> out[] = {values};
    rig.trainer->logprobs(model, in, out);
  };
  logprobs(*rig.reference, 31, 29);
  const Error reference =
      expect_error(Code::kOutOfRange, [&] { logprobs(*rig.reference, 32, 30); });
  EXPECT_EQ(reference.key, "reference.forward_max_tokens_per_device");
  logprobs(rig.model(), 41, 39);
  const Error own = expect_error(Code::kOutOfRange, [&] { logprobs(rig.model(), 42, 40); });
  EXPECT_EQ(own.key, "trainer.logprob_max_tokens_per_device");
  const Error array = expect_error(Code::kInvalidArgument, [&] { logprobs(rig.model(), 9, 8); });
  EXPECT_EQ(array.key, "out");
  EXPECT_EQ(array.expected, "7, one per generated token");
  const Sample s = of_tokens(9);
  const Sample* const in[] = {&s};
  const Error spans =
      expect_error(Code::kInvalidArgument, [&] { rig.trainer->logprobs(rig.model(), in, {}); });
  EXPECT_EQ(spans.message, "out has 0 spans, expected 1");
}

// The last token is a row of hidden states and scores.
TEST(SampleCheck, HiddenStatesAndScoresHaveARowForTheLastToken) {
  TrainerOptions o;
  o.max_tokens = 256;
  TrainRig large({}, o);
  const auto positions = static_cast<size_t>(large.model().max_positions());
  EXPECT_EQ(hidden_of(large, of_tokens(positions))->shape()[0], large.model().max_positions());
  const Error longer =
      expect_error(Code::kOutOfRange, [&] { hidden_of(large, of_tokens(positions + 1)); });
  EXPECT_EQ(longer.key, "engine.max_model_len");
  EXPECT_EQ(longer.expected, str("at most ", positions, " tokens"));
  o.batch.forward_max_tokens = 20;
  o.objective = Objective::kRewardModel;
  TrainRig rig({}, o);
  EXPECT_EQ(hidden_of(rig, of_tokens(20))->shape()[0], 20);
  const auto score = [&](size_t tokens) {
    const Sample s = of_tokens(tokens);
    const Sample* const in[] = {&s};
    float out = 0;
    rig.trainer->scores(in, {&out, 1});
  };
  score(20);
  for (const auto& call : {std::function<void()>([&] { hidden_of(rig, of_tokens(21)); }),
                           std::function<void()>([&] { score(21); })}) {
    const Error e = expect_error(Code::kOutOfRange, call);
    EXPECT_EQ(e.key, "trainer.logprob_max_tokens_per_device");
    EXPECT_EQ(e.expected, "at most 20 tokens");
  }
}

// Scoring alone would allow more rows than a micro-batch of training has.
TEST(SampleCheck, AMicroBatchOfScoresHasARowForTheLastToken) {
  TrainerOptions by_budget;
  by_budget.objective = Objective::kRewardModel;
  by_budget.max_tokens = 20;
  by_budget.max_sequence = 40;
  TrainerOptions by_length = by_budget;
  by_length.max_tokens = 64;
  by_length.batch.seq_len = 20;
  for (const auto& [key, options] : {std::pair("trainer.max_tokens_per_device", by_budget),
                                     std::pair("trainer.seq_len", by_length)}) {
    SCOPED_TRACE(key);
    TrainRig rig({}, options);
    const auto check = [&](size_t tokens) {
      const Sample chosen = of_tokens(tokens);
      Sample rejected = of_tokens(6);
      rejected.slot = 1;
      rig.trainer->check(std::vector<TrainSample>{{&chosen, 0, {}, {}}, {&rejected, 0, {}, {}}});
    };
    EXPECT_NO_THROW(check(20));
    const Error e = expect_error(Code::kOutOfRange, [&] { check(21); });
    EXPECT_EQ(e.key, key);
    EXPECT_EQ(e.expected, "at most 20 tokens");
  }
}

TEST(SampleCheck, ACriticHasLimitsOfItsOwn) {
  CriticOptions o;
  o.max_tokens = 64;
  o.batch.forward_max_tokens = 20;
  CriticRig rig({}, o);
  const auto values = [&](size_t tokens, size_t room) {
    const Sample s = make_sample(std::vector<int32_t>(tokens, 5), 2, 0, 0);
    const Sample* const in[] = {&s};
    std::vector<float> floats(room);
    const std::span<float> out[] = {floats};
    rig.critic->values(in, out);
  };
  values(21, 19);
  const Error length = expect_error(Code::kOutOfRange, [&] { values(22, 20); });
  EXPECT_EQ(length.key, "critic.forward_max_tokens_per_device");
  EXPECT_EQ(length.expected, "at most 21 tokens");
  const Error array = expect_error(Code::kInvalidArgument, [&] { values(9, 6); });
  EXPECT_EQ(array.key, "values");
  EXPECT_EQ(array.expected, "7, one per generated token");
  const Sample s = of_tokens(6);
  const std::vector<float> four(4), three(3);
  const auto refused_step = [&](const CriticSample& bad) {
    const CriticSample batch[] = {{&s, four, four}, bad};
    return expect_error(Code::kInvalidArgument, [&] { rig.critic->step(batch); });
  };
  EXPECT_EQ(refused_step({nullptr, {}, {}}).message, "sample 1 of the critic's step is null");
  EXPECT_TRUE(contains(refused_step({&s, three, four}).message, "old_values has 3 entries"));
  EXPECT_TRUE(contains(refused_step({&s, four, three}).message, "returns has 3 entries"));
}

TEST(SampleCheck, ATeacherHasTheForwardBudgetOfTheTrainer) {
  TrainerOptions o;
  o.batch.forward_max_tokens = 20;
  TrainRig rig({}, o);
  const TrainShape shape = shape_of(rig.model());
  const Arena workspace("test teacher workspace", Teacher::workspace_bytes(shape, o));
  const Teacher teacher(rig.model(), o, workspace.data(), {nullptr, 0, &real_clock()});
  EXPECT_NO_THROW(teacher.check(of_tokens(21)));
  const Error e = expect_error(Code::kOutOfRange, [&] { teacher.check(of_tokens(22)); });
  EXPECT_EQ(e.key, "trainer.logprob_max_tokens_per_device");
  EXPECT_EQ(e.expected, "at most 21 tokens");
}

}  // namespace
}  // namespace rl::testing
