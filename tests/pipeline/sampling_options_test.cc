// Every option of sampling.*: its value changes the samples of a request, and what is wrong with it
// is told by its name.
#include <gtest/gtest.h>

#include "pipeline/run_rig.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/session/run_rules.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

using Assignments = std::vector<std::string>;

class SamplingOptions : public ::testing::Test {
 protected:
  SamplingOptions() {
    options_ = tiny_options(dir_);
    options_.set_assignment("sampling.max_new_tokens=16");
    runtime_ = std::make_shared<Runtime>(options_);
    model_ = LoadedModel::open(runtime_, options_, PlanUse::kModel);
  }
  OptionSet with(const Assignments& assignments) const {
    OptionSet o = options_;
    for (const std::string& a : assignments) o.set_assignment(a);
    return o;
  }
  // The sample of a new engine's first request.
  Sample generate(const Assignments& assignments) const {
    EngineSession engine(model_, testing::for_session(options_));
    Request r = request_from(with(assignments));
    r.prompt = {1, 2, 3};
    engine.submit(r);
    engine.run();
    return *engine.take_finished().at(0);
  }
  // The one thing that is wrong with a run.
  Error refusal(const Assignments& assignments) const {
    const std::vector<Error> errors = run_violations(with(assignments), *model_);
    EXPECT_EQ(errors.size(), 1u) << assignments.front();
    return errors.empty() ? Error(Code::kOk, "") : errors.front();
  }

  TempDir dir_;
  OptionSet options_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<LoadedModel> model_;
};

TEST_F(SamplingOptions, EveryKeyChangesTheSample) {
  const std::vector<int32_t> bare = generate({}).ids;
  const std::string sixth = std::to_string(bare[5]);
  for (const Assignments& changes : {
           Assignments{"sampling.temperature=0"},
           {"sampling.temperature=3"},
           {"sampling.top_k=2"},
           {"sampling.top_p=0.05"},
           {"sampling.min_p=0.9"},
           {"sampling.repetition_penalty=4"},
           {"sampling.temperature=0.2", "sampling.presence_penalty=2"},
           {"sampling.temperature=0.2", "sampling.frequency_penalty=2"},
           {"sampling.logit_bias=" + sixth + ":-100"},
           {"sampling.allowed_token_ids=7,8,9"},
           {"sampling.max_new_tokens=5"},
           {"sampling.stop_token_ids=" + sixth},
       }) {
    const std::vector<int32_t> ids = generate(changes).ids;
    EXPECT_NE(ids, bare) << changes.front();
    if (changes.size() == 1) continue;
    EXPECT_NE(ids, generate({changes.front()}).ids) << changes.back();
  }
}

TEST_F(SamplingOptions, MinNewTokensHoldsStopsBack) {
  const std::vector<int32_t> bare = generate({}).ids;
  const std::string stop = "sampling.stop_token_ids=" + std::to_string(bare[3]);
  EXPECT_EQ(generate({stop}).ids.size(), 4u);
  EXPECT_GT(generate({stop, "sampling.min_new_tokens=6"}).ids.size(), 3u + 6);
}

TEST_F(SamplingOptions, LogprobsKeepsTheMostProbableIds) {
  const Sample bare = generate({});
  const Sample s = generate({"sampling.logprobs=5"});
  EXPECT_EQ(s.ids, bare.ids);
  EXPECT_EQ(bare.num_top, 0u);
  EXPECT_EQ(s.num_top, 5u);
  EXPECT_EQ(s.top_ids.size(), 5u * 16);
}

TEST_F(SamplingOptions, ABiasIsAnIdAColonAndANumber) {
  const SamplingParams p =
      request_from(with({"sampling.logit_bias=0:1.5,255:-100,7:1e-3"})).sampling;
  ASSERT_EQ(p.logit_bias.size(), 3u);
  EXPECT_EQ(p.logit_bias[0].id, 0);
  EXPECT_EQ(p.logit_bias[0].bias, 1.5f);
  EXPECT_EQ(p.logit_bias[1].id, 255);
  EXPECT_EQ(p.logit_bias[1].bias, -100.0f);
  EXPECT_EQ(p.logit_bias[2].bias, 1e-3f);
  for (const char* bad : {"5", "5:", ":1", "5:1:2", "5: 1", " 5:1", "x:1", "5:x", "5.0:1", "5:1f",
                          "+5:1", "99999999999:1", "5:1e99", ":"}) {
    OptionSet o = options_;
    o.set_string_list("sampling.logit_bias", {"1:1", bad});
    const Error e = expect_error(Code::kInvalidArgument, [&] { request_from(o); });
    EXPECT_EQ(e.key, "sampling.logit_bias") << bad;
    EXPECT_EQ(e.location, "sampling.logit_bias[1]") << bad;
  }
  for (const char* bad : {"5:100.5", "5:-101", "5:inf", "5:nan", "-1:1"}) {
    OptionSet o = options_;
    o.set_string_list("sampling.logit_bias", {bad});
    EXPECT_EQ(expect_error(Code::kOutOfRange, [&] { request_from(o); }).key, "sampling.logit_bias")
        << bad;
  }
}

TEST_F(SamplingOptions, WhatTheModelCannotDoIsRefusedBeforeTheRun) {
  for (const char* bad : {"sampling.logit_bias=256:1", "sampling.allowed_token_ids=0,256",
                          "sampling.stop_token_ids=256"}) {
    const Error e = refusal({bad});
    EXPECT_EQ(e.code, Code::kOutOfRange) << e.message;
    EXPECT_TRUE(std::string(bad).starts_with(e.key)) << e.key;
    EXPECT_TRUE(contains(e.message, "256 ids"));
  }
  EXPECT_EQ(refusal({"sampling.logit_bias=4:1,4:2"}).key, "sampling.logit_bias");
  const Assignments held = {"sampling.ignore_eos=false", "sampling.min_new_tokens=12"};
  EXPECT_TRUE(run_violations(with(held), *model_).empty());
  const Error e = refusal({held[0], held[1], "sampling.allowed_token_ids=2"});
  EXPECT_EQ(e.code, Code::kConflict);
  EXPECT_EQ(e.key, "sampling.min_new_tokens");
}

// While stops are held back, another id must be left to sample.
TEST_F(SamplingOptions, AMinimumNeedsAnIdThatDoesNotStop) {
  const auto held = [](const char* allowed, const char* eos) {
    return Assignments{"sampling.min_new_tokens=2", "sampling.stop_token_ids=4,5",
                       str("sampling.allowed_token_ids=", allowed),
                       str("sampling.ignore_eos=", eos)};
  };
  EXPECT_TRUE(run_violations(with(held("4,5,6", "false")), *model_).empty());
  EXPECT_TRUE(run_violations(with(held("2,4,5", "true")), *model_).empty());
  for (const Assignments& none_left : {held("4,5", "true"), held("2,4,5", "false")}) {
    const Error e = refusal(none_left);
    EXPECT_EQ(e.code, Code::kConflict);
    EXPECT_EQ(e.key, "sampling.min_new_tokens");
    EXPECT_EQ(e.expected, "an id that may be sampled and is not a stop id, or 0");
  }
}

TEST_F(SamplingOptions, ValuesOutsideTheirRangeAreRefused) {
  for (const char* bad :
       {"sampling.repetition_penalty=0", "sampling.presence_penalty=2.5",
        "sampling.presence_penalty=nan", "sampling.frequency_penalty=-2.1", "sampling.logprobs=21",
        "sampling.logprobs=-1", "sampling.min_new_tokens=-1", "sampling.allowed_token_ids=-1"}) {
    OptionSet o = options_;
    try {
      o.set_assignment(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_TRUE(std::string(bad).starts_with(e.key)) << bad << ": " << e.message;
      EXPECT_FALSE(e.expected.empty()) << bad;
    }
  }
}

TEST_F(SamplingOptions, AnEvaluationIsRefusedByItsOwnOption) {
  const Error e = refusal({"eval.path=e", "eval.temperature=1e-7"});
  EXPECT_EQ(e.code, Code::kOutOfRange);
  EXPECT_EQ(e.key, "eval.temperature");
  EXPECT_TRUE(e.message.starts_with("eval.temperature is ")) << e.message;
}

using Responses = std::vector<std::vector<int32_t>>;  // whole samples, by slot

// Group 0 of a run.
Responses first_group(const OptionSet& options) {
  Rig rig(options);
  Responses out(4);
  for (const SamplePtr& s : rig.start_and_serve().samples) {
    if (s->ordinal == 0) out.at(s->slot) = s->ids;
  }
  return out;
}

// The two have the seed, the number, the slots and the prompt in common, so greedy responses are
// the same.
TEST_F(SamplingOptions, AHostsFirstRequestDrawsOtherNumbersThanTheFirstGroupOfARun) {
  for (const bool greedy : {true, false}) {
    SCOPED_TRACE(greedy);
    const OptionSet o = with({greedy ? "sampling.temperature=0" : "sampling.temperature=1",
                              "data.shuffle=false", "pipeline.total_steps=1"});
    const Responses of_run = first_group(o);
    EngineSession engine(model_, testing::for_session(options_));
    Request request = request_from(o);
    request.prompt = {1, 10, 20};  // row 0
    request.num_samples = 4;
    engine.submit(request);
    engine.run();
    const std::vector<SamplePtr> samples = engine.take_finished();
    ASSERT_EQ(samples.size(), 4u);
    for (const SamplePtr& s : samples) {
      EXPECT_EQ(s->ordinal, 0u);
      EXPECT_EQ(s->ids == of_run.at(s->slot), greedy) << "slot " << s->slot;
    }
  }
}

// Evaluations are greedy and free of rules, so that a held stop cannot outlast their budget.
TEST_F(SamplingOptions, EvaluationsAreWithoutRules) {
  write_lines(dir_.file("eval.jsonl"), id_rows(2));
  OptionSet o = with({"sampling.min_new_tokens=12", "sampling.logprobs=2", "eval.every_steps=1",
                      "sampling.allowed_token_ids=200,201,202", "eval.max_new_tokens=4",
                      "pipeline.total_steps=1"});
  o.set_string("eval.path", dir_.file("eval.jsonl"));
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.end, Code::kDone);
  int trained = 0, evaluated = 0;
  for (const SamplePtr& s : log.samples) {
    const bool eval = s->purpose == Purpose::kEval;
    (eval ? evaluated : trained)++;
    EXPECT_EQ(s->num_top, eval ? 0u : 2u);
    EXPECT_EQ(s->generated(), eval ? 4 : 16);
    for (size_t i = static_cast<size_t>(s->prompt_tokens); !eval && i < s->ids.size(); ++i) {
      EXPECT_TRUE(s->ids[i] >= 200 && s->ids[i] <= 202);
    }
  }
  EXPECT_EQ(trained, 16);
  EXPECT_GT(evaluated, 0);
}

}  // namespace
}  // namespace rl::testing
