// Scores that fail, come late, twice, for nothing, or not at all.
#include <cmath>
#include <limits>
#include <thread>

#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::kSecond;
using testing::low_id_reward;
using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

TEST(Scores, AFailedRewardDropsItsGroupByNameAndTheStepGoesOn) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->ordinal == 5 && s->slot == 2)
      p.fail(s->id, "the judge is away");
    else if (s->ordinal != 5)
      p.score(s->id, low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.dropped[0]->ordinal, 5u);
  EXPECT_EQ(log.dropped[0]->reason, DropReason::kRewardError);
  EXPECT_TRUE(contains(log.dropped[0]->message, "the judge is away"));
  EXPECT_EQ(log.series("training/samples"), (std::vector<double>{16, 12, 16}));
  const LedgerCounts c = rig.pipeline().status().ledger;
  EXPECT_EQ(c.attempts_trained, 44);
  EXPECT_EQ(c.attempts_discarded[static_cast<size_t>(DropReason::kRewardError)], 4);
  EXPECT_EQ(c.attempts_in_flight, 0);
  EXPECT_EQ(log.steps[1].get("pipeline/prompts_dropped/reward_error"), 1.0);
}

TEST(Scores, AStepWithoutAnyRewardIsAStepWithoutUpdate) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  const uint64_t before = rig.model().weight_digest();
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->slot == 0) p.fail(s->id, "none");
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.dropped.size(), 4u);
  EXPECT_EQ(log.steps[0].get("training/samples"), 0.0);
  EXPECT_EQ(rig.model().weight_digest(), before);
  EXPECT_EQ(rig.model().version(), 0u);
}

TEST(Scores, ALateRewardDropsItsGroupAndIsReported) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  o.set_i64("pipeline.reward_timeout_ns", 200'000'000);
  Rig rig(o);
  uint64_t silent = 0;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    if (s->ordinal == 1 && s->slot == 3)
      silent = s->id;
    else
      p.score(s->id, low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.dropped[0]->reason, DropReason::kRewardTimeout);
  EXPECT_EQ(log.steps[0].get("training/samples"), 12.0);
  expect_error(Code::kLate, [&] { rig.pipeline().score(silent, 1); });
  EXPECT_EQ(rig.pipeline().status().ledger.late_scores, 1);
}

TEST(Scores, DoubleUnknownAndNonFiniteScoresAreRefusedAndCounted) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    expect_error(Code::kNonFinite, [&] { p.score(s->id, std::nan("")); });
    expect_error(Code::kNonFinite,
                 [&] { p.score(s->id, std::numeric_limits<double>::infinity()); });
    p.score(s->id, low_id_reward(*s));
    if (s->slot == 0) expect_error(Code::kDuplicate, [&] { p.score(s->id, 1); });
    expect_error(Code::kNotFound, [&] { p.score(1'000'000, 1); });
    expect_error(Code::kNotFound, [&] { p.score(0, 1); });
    expect_error(Code::kNotFound, [&] { p.score(uint64_t{1} << 63, 1); });
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 1u);
  const LedgerCounts c = rig.pipeline().status().ledger;
  EXPECT_EQ(c.nonfinite_scores, 32);
  // The last score of the step may find the group used already: it is a duplicate all the same.
  EXPECT_EQ(c.duplicate_scores, 4);
  EXPECT_EQ(c.unknown_scores, 32);
  expect_error(Code::kDuplicate, [&] { rig.pipeline().score(log.samples[0]->id, 1); });
}

TEST(Scores, AStepTellsHowManyWereRefused) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    expect_error(Code::kNonFinite, [&] { p.score(s->id, std::nan("")); });
    if (s->slot == 0) expect_error(Code::kNotFound, [&] { p.score(1'000'000, 1); });
    p.score(s->id, low_id_reward(*s));
  };
  EXPECT_EQ(rig.start_and_serve().series("pipeline/refused_scores"), std::vector<double>{16 + 4});
}

TEST(Scores, ManyScoresAreAllTriedAndTheFirstRefusalIsReported) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  std::vector<Score> scores;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    scores.push_back({s->id, low_id_reward(*s)});
    if (scores.size() < 16) return;
    scores.insert(scores.begin() + 2, {999'999, 1.0});
    scores.push_back({999'998, 1.0});
    std::vector<Code> results(scores.size(), Code::kInternal);
    const Error e = expect_error(Code::kNotFound, [&] {
      p.score_many(scores, [&](size_t i, Code code) { results[i] = code; });
    });
    EXPECT_TRUE(contains(e.message, "2 of 18"));
    ASSERT_EQ(e.parts.size(), 2u);
    EXPECT_EQ(e.parts[0].key, "scores[2]");
    EXPECT_EQ(e.parts[1].key, "scores[17]");
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i], i == 2 || i == 17 ? Code::kNotFound : Code::kOk) << i;
    }
  };
  EXPECT_EQ(rig.start_and_serve().steps.size(), 1u);
}

TEST(Scores, ComeFromManyThreads) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  std::vector<std::jthread> judges;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    judges.emplace_back([&p, s] { p.score(s->id, low_id_reward(*s)); });
  };
  const RunLog log = rig.start_and_serve();
  judges.clear();
  Rig one(tiny_options(dir));
  EXPECT_EQ(one.start_and_serve().fingerprint(), log.fingerprint());
}

TEST(Scores, FailuresInAnEvaluationAreCountedThere) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(4));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  rig.pipeline().request_eval();
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    EXPECT_GT(p.status().unscored, 0) << "of evaluations too";
    if (s->purpose == Purpose::kEval && s->tag == "2")
      p.fail(s->id, "broken");
    else
      p.score(s->id, 0.5);
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 1u);
  EXPECT_EQ(log.evals[0]->num_scored, 3);
  EXPECT_EQ(log.evals[0]->num_failed, 1);
  EXPECT_EQ(log.evals[0]->mean_reward, 0.5);
}

// Group 1 fails while the host still owes a score of group 2.
TEST(Scores, ADroppedGroupIsReportedWhileOthersWaitForTheirScores) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  Rig rig(o);
  Pipeline& p = rig.pipeline();
  p.start();
  uint64_t owed = 0, failed = 0;
  for (int i = 0; i < 16; ++i) {
    const EventQueue::Popped got = p.next(60 * kSecond);
    ASSERT_EQ(got.status, Code::kOk);
    ASSERT_EQ(static_cast<EventKind>(got.event->kind()), EventKind::kScore);
    const SamplePtr s = static_cast<ScoreEvent&>(*got.event).sample;
    if (s->slot == 3 && s->ordinal == 1) {
      failed = s->id;
    } else if (s->slot == 3 && s->ordinal == 2) {
      owed = s->id;
    } else {
      p.score(s->id, low_id_reward(*s));
    }
  }
  p.fail(failed, "no reward");
  const EventQueue::Popped got = p.next(10 * kSecond);
  ASSERT_EQ(got.status, Code::kOk);
  EXPECT_EQ(static_cast<EventKind>(got.event->kind()), EventKind::kGroupDropped);
  p.score(owed, 1);
  EXPECT_EQ(rig.serve().steps.size(), 1u);
}

TEST(Scores, ALateRewardOfAnEvaluationIsAFailureOfIt) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(4));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_i64("pipeline.total_steps", 1);
  o.set_i64("pipeline.reward_timeout_ns", 200'000'000);
  Rig rig(o);
  rig.pipeline().request_eval();
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->purpose == Purpose::kTrain || s->tag != "2") p.score(s->id, 0.5);
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 1u);
  EXPECT_EQ(log.evals[0]->num_scored, 3);
  EXPECT_EQ(log.evals[0]->num_failed, 1);
  ASSERT_EQ(log.dropped.size(), 1u);
  EXPECT_EQ(log.dropped[0]->reason, DropReason::kRewardTimeout);
}

TEST(Scores, AnEvaluationRequestedInTheMiddleOfAStepFollowsIt) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(2));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  Rig rig(o);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->purpose == Purpose::kTrain && s->ordinal == 5 && s->slot == 0) p.request_eval();
    p.score(s->id, low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 1u);
  EXPECT_EQ(log.evals[0]->step, 2u);
  EXPECT_EQ(log.evals[0]->num_scored, 2);
}

}  // namespace
}  // namespace rl
