// Runs that generate while they train (pipeline.mode one_step_off and async): which weights a
// sample is of, that nothing is lost or too old, and what publications do to samples under way.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "buffer/buffer_file.h"
#include "late_scorer.h"
#include "pipeline/plan/plan.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::LateScorer;
using testing::low_id_reward;
using testing::Rig;
using testing::RunLog;
using testing::score_unless_late;
using testing::tiny_options;
using Texts = std::vector<std::string>;

const Texts kOneStepOff = {"pipeline.mode=one_step_off", "model.compute_copies=2"};
const Texts kAsync = {"pipeline.mode=async", "model.compute_copies=2"};
// Publications come while samples are generated: a step has several micro-batches.
const Texts kLong = {"trainer.max_tokens_per_device=48", "sampling.max_new_tokens=24",
                     "pipeline.total_steps=5"};

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

OptionSet options(const TempDir& dir, const Texts& texts) {
  OptionSet o = tiny_options(dir);
  for (const std::string& text : texts) o.set_assignment(text);
  return o;
}

std::set<uint64_t> versions_of(const Sample& s) {
  std::set<uint64_t> out(s.versions.begin(), s.versions.end());
  out.erase(kUnknownVersion);
  return out;
}

void expect_closed_ledger(const Pipeline& pipeline) {
  const LedgerCounts c = pipeline.status().ledger;
  EXPECT_EQ(c.attempts_in_flight, 0);
  EXPECT_EQ(c.tokens_in_flight, 0);
  EXPECT_EQ(c.attempts_started, c.attempts_trained + c.discarded());
  EXPECT_EQ(c.prompts_drawn, c.prompts_trained + c.dropped());
  EXPECT_EQ(c.tokens_generated, c.tokens_trained + c.tokens_discarded);
}

int64_t dropped_for(const RunLog& log, DropReason reason) {
  return std::ranges::count_if(log.dropped, [&](const auto& d) { return d->reason == reason; });
}

struct Outcome {
  std::string metrics;
  uint64_t digest = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome(const OptionSet& o) {
  Rig rig(o);
  const RunLog log = rig.start_and_serve();
  return {log.fingerprint(), rig.model().weight_digest()};
}

TEST(OneStepOff, ASampleIsOfTheWeightsBeforeThoseThatItTrains) {
  const TempDir dir;
  Rig rig(options(dir, kOneStepOff + Texts{"pipeline.total_steps=5"}));
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.samples.size(), 5u * 16);
  for (const SamplePtr& s : log.samples) {
    const uint64_t step = s->ordinal / 4;  // steps done when it is trained on
    EXPECT_EQ(versions_of(*s), std::set<uint64_t>{step == 0 ? 0 : step - 1});
  }
  EXPECT_EQ(log.series("pipeline/staleness/max"), (std::vector<double>{0, 1, 1, 1, 1}));
  EXPECT_EQ(log.series("pipeline/samples_by_staleness/1"),
            (std::vector<double>{0, 16, 16, 16, 16}));
  EXPECT_EQ(log.series("pipeline/groups_queued"), (std::vector<double>{4, 4, 4, 4, 0}));
  EXPECT_EQ(rig.model().version(), 5u);
  expect_closed_ledger(rig.pipeline());
}

TEST(OneStepOff, EqualSeedsGiveEqualBitsAtAnyThreadCount) {
  const TempDir dir;
  const Texts filtered = {"pipeline.filter=mean", "pipeline.filter_low=0.2",
                          "pipeline.filter_max_rounds=3"};
  for (const Texts& more : {Texts{}, filtered, Texts{"algo.advantage=remax"}}) {
    const OptionSet base = options(dir, kOneStepOff + kLong + more);
    std::vector<Outcome> all;
    for (const int64_t threads : {1, 2, 4}) {
      OptionSet o = base;
      o.set_i64("runtime.threads", threads);
      all.push_back(outcome(o));
    }
    EXPECT_EQ(all[0].metrics, all[1].metrics);
    EXPECT_EQ(all[0], all[1]);
    EXPECT_EQ(all[0], all[2]);
  }
}

TEST(Async, WithoutStalenessItIsSync) {
  const TempDir dir;
  for (const Texts& more :
       {Texts{}, Texts{"trainer.num_minibatches=2"},
        Texts{"algo.kl.where=loss", "algo.kl.coef=0.1"}, Texts{"algo.advantage=gae"},
        Texts{"pipeline.discard_zero_advantage=true"}}) {
    SCOPED_TRACE(more.empty() ? "" : more.front());
    const Outcome sync = outcome(options(dir, more + kLong));
    const OptionSet o = options(
        dir, kAsync + kLong + more + Texts{"pipeline.max_staleness=0", "pipeline.queue_size=0"});
    Rig rig(o);
    const RunLog log = rig.start_and_serve();
    EXPECT_EQ(rig.model().weight_digest(), sync.digest);
    for (const double age : log.series("pipeline/staleness/max")) EXPECT_EQ(age, 0);
  }
}

TEST(Async, NothingIsOlderThanTheBoundAndNothingIsThrownAway) {
  const TempDir dir;
  for (const char* staleness : {"1", "3"}) {
    for (const char* partial : {"false", "true"}) {
      SCOPED_TRACE(str(staleness, " ", partial));
      Rig rig(options(
          dir, kAsync + kLong +
                   Texts{str("pipeline.max_staleness=", staleness),
                         str("pipeline.partial_rollout=", partial), "pipeline.total_steps=8"}));
      LateScorer scorer(rig);
      const RunLog log = rig.start_and_serve();
      ASSERT_EQ(log.steps.size(), 8u);
      EXPECT_TRUE(log.dropped.empty());
      for (const MetricList& m : log.steps) {
        EXPECT_EQ(m.get("training/samples"), 16);
        EXPECT_LE(m.get("pipeline/staleness/max").value(), std::stod(staleness));
        EXPECT_EQ(m.get("training/logprob_max_abs_diff"), 0);
      }
      expect_closed_ledger(rig.pipeline());
      EXPECT_EQ(rig.pipeline().status().ledger.attempts_trained, 8 * 16);
      EXPECT_EQ(rig.model().version(), 8u);
    }
  }
}

TEST(Async, RolloutPausesAtItsBounds) {
  const TempDir dir;
  const auto most_open = [&](const Texts& texts) {
    Rig rig(options(dir, kAsync + texts));
    rig.pipeline().start();  // nobody scores
    int64_t seen = 0;
    for (int i = 0; i < 300; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      seen = std::max(seen, rig.pipeline().status().ledger.prompts_open);
    }
    EXPECT_TRUE(rig.pipeline().stop(60 * testing::kSecond));
    expect_closed_ledger(rig.pipeline());
    return seen;
  };
  const Texts steps = {"pipeline.max_staleness=3", "pipeline.total_steps=9"};
  EXPECT_EQ(most_open(steps + Texts{"pipeline.queue_size=0"}), 4);
  EXPECT_EQ(most_open(steps + Texts{"pipeline.queue_size=0", "pipeline.over_sampling_prompts=3"}),
            7);
  EXPECT_EQ(most_open(steps + Texts{"pipeline.queue_size=2"}), 12);
  EXPECT_EQ(most_open(steps + Texts{"pipeline.queue_size=3"}), 16);
  EXPECT_EQ(most_open({"pipeline.total_steps=1"}), 4) << "one batch is enough for the last step";
}

TEST(Async, APublicationWaitsForSamplesUnlessTheyMayGoOn) {
  const TempDir dir;
  const auto most_versions = [&](const Texts& texts) {
    Rig rig(options(dir, kAsync + kLong + Texts{"pipeline.max_staleness=4"} + texts));
    size_t most = 0;
    rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
      most = std::max(most, versions_of(*s).size());
      score_unless_late(p, s);
    };
    rig.start_and_serve();
    return most;
  };
  const Texts partial = {"pipeline.partial_rollout=true"};
  EXPECT_EQ(most_versions({}), 1u);
  EXPECT_GT(most_versions(partial), 1u);
  // One micro-batch a step: a sample lives through many steps.
  const Texts quick = partial + Texts{"trainer.max_tokens_per_device=1024",
                                      "pipeline.prompts_per_step=1", "pipeline.total_steps=12",
                                      "pipeline.samples_per_prompt=2", "engine.max_num_seqs=2"};
  EXPECT_LE(most_versions(quick + Texts{"pipeline.partial_rollout_max_aborts=1"}), 2u);
}

TEST(Async, GroupsThatLiveThroughTooManyStepsAreCancelled) {
  const TempDir dir;
  Rig rig(options(
      dir,
      kAsync + kLong + Texts{"pipeline.partial_rollout=true", "pipeline.max_off_policy_steps=0"}));
  rig.on_score = score_unless_late;
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.steps.size(), 5u);
  EXPECT_GT(dropped_for(log, DropReason::kCancelled), 0);
  EXPECT_EQ(dropped_for(log, DropReason::kCancelled), static_cast<int64_t>(log.dropped.size()));
  for (const SamplePtr& s : log.samples) EXPECT_EQ(versions_of(*s).size(), 1u);
  expect_closed_ledger(rig.pipeline());
  EXPECT_EQ(rig.pipeline().status().ledger.attempts_trained, 5 * 16);
}

TEST(Async, ALowerBoundDropsWhatIsTooOldForIt) {
  const TempDir dir;
  const OptionSet base =
      options(dir, kAsync + kLong + Texts{"pipeline.queue_size=0", "pipeline.total_steps=6"});
  Rig rig(base);
  rig.on_score = score_unless_late;
  rig.on_step = [&](Pipeline& p, const StepEvent& e) {
    if (e.step != 2) return;
    OptionSet next = base;
    next.set_i64("pipeline.max_staleness", 0);
    p.set_options(next);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(dropped_for(log, DropReason::kStale), 4);
  EXPECT_EQ(log.dropped.size(), 4u);
  const std::vector<double> ages = log.series("pipeline/staleness/max");
  EXPECT_EQ(ages[1], 1);
  EXPECT_EQ(ages[5], 0);
  expect_closed_ledger(rig.pipeline());
}

TEST(Async, TokensOfOlderVersionsCanBeMasked) {
  const TempDir dir;
  const Texts partial = {"pipeline.partial_rollout=true", "pipeline.mask_off_policy_tokens=true"};
  Rig rig(options(dir, kAsync + kLong + partial));
  std::map<uint64_t, int64_t> latest;  // tokens of the last version of a sample, by ordinal
  int64_t all = 0;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    latest[s->ordinal] += std::ranges::count(s->versions, s->versions.back());
    all += s->generated();
    p.score(s->id, low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  double trained = 0, kept = 0;
  for (const double tokens : log.series("training/loss_tokens")) trained += tokens;
  for (const auto& [ordinal, tokens] : latest) kept += static_cast<double>(tokens);
  EXPECT_EQ(trained, kept);
  EXPECT_LT(trained, static_cast<double>(all));
}

TEST(Async, KeptKeysAndValuesAreMarked) {
  const TempDir dir;
  const Texts keep = {"engine.keep_kv_on_publish=true", "engine.preemption=swap",
                      "engine.swap_space_bytes=1MiB"};
  const auto mixed_tokens = [&](const Texts& texts) {
    Rig rig(options(dir, kAsync + kLong + texts));
    int64_t mixed = 0;
    rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
      for (int64_t t = 0; t < s->generated(); ++t) mixed += s->has_mixed_kv(t);
      p.score(s->id, low_id_reward(*s));
    };
    rig.start_and_serve();
    return mixed;
  };
  EXPECT_GT(mixed_tokens(keep + Texts{"pipeline.partial_rollout=true"}), 0);
  EXPECT_EQ(mixed_tokens({"pipeline.partial_rollout=true"}), 0);
  const OptionSet o = options(dir, kAsync + keep);
  const Error e = expect_error(Code::kConflict, [&] { Rig rig(o); });
  EXPECT_EQ(e.key, "engine.keep_kv_on_publish");
  EXPECT_EQ(e.other_key, "pipeline.partial_rollout");
}

TEST(Async, AnEvaluationKeepsToOneVersion) {
  const TempDir dir;
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(3));
  OptionSet o = options(dir, kAsync + kLong + Texts{"pipeline.partial_rollout=true"});
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_i64("eval.every_steps", 1);
  o.set_i64("eval.max_new_tokens", 24);
  Rig rig(o);
  std::map<uint64_t, std::set<uint64_t>> of_eval;  // versions by evaluation
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    if (s->purpose == Purpose::kEval) of_eval[s->ordinal / 3].merge(versions_of(*s));
    p.score(s->id, low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 5u);
  ASSERT_EQ(of_eval.size(), 5u);
  for (const auto& [index, versions] : of_eval) {
    EXPECT_EQ(versions, std::set<uint64_t>{log.evals[index]->version});
    EXPECT_EQ(log.evals[index]->num_scored, 3);
  }
}

// What was open is drawn again, and nothing is trained on twice or skipped.
TEST(Async, AResumedRunDrawsAgainWhatWasOpen) {
  const TempDir dir;
  for (const Texts& mode : {kOneStepOff, kAsync + Texts{"pipeline.max_staleness=2"}}) {
    OptionSet o =
        options(dir, mode + kLong + Texts{"checkpoint.every_steps=2", "pipeline.total_steps=4"});
    o.set_string("checkpoint.dir", dir.file(str("checkpoints_", mode.size())));
    o.set_string("buffer.record_dir", dir.file(str("batches_", mode.size())));
    {
      Rig first(o);
      first.on_score = score_unless_late;
      first.on_step = [](Pipeline& p, const StepEvent& e) {
        if (e.step == 3) p.stop(0);
      };
      first.start_and_serve();
      expect_closed_ledger(first.pipeline());
    }
    std::filesystem::remove_all(dir.file(str("checkpoints_", mode.size(), "/step_000004")));
    o.set_string("checkpoint.resume", "auto");
    Rig second(o);
    EXPECT_EQ(second.pipeline().status().step, 2u);
    const RunLog log = second.start_and_serve();
    EXPECT_EQ(log.steps.size(), 2u);
    expect_closed_ledger(second.pipeline());
    const LedgerCounts c = second.pipeline().status().ledger;
    EXPECT_EQ(c.prompts_trained, 16);
    EXPECT_EQ(c.prompts_drawn, 16);
    std::set<uint64_t> trained;
    for (int step = 1; step <= 4; ++step) {
      BufferFileReader reader(
          real_fs(), dir.file(str("batches_", mode.size(), "/step_00000", step, ".rlbuf")));
      while (const auto group = reader.next()) {
        EXPECT_TRUE(trained.insert(group->ordinal).second) << group->ordinal;
      }
    }
    EXPECT_EQ(trained.size(), 16u);
    EXPECT_EQ(*trained.rbegin(), 15u);
  }
}

TEST(Async, LeftOverRowsOfAFeedAreDropped) {
  const TempDir dir;
  OptionSet o = options(dir, kAsync + Texts{"pipeline.total_steps=0"});
  o.unset("data.path");
  Rig rig(o);
  const std::vector<int32_t> ids = {1, 2, 3};
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(rig.pipeline().feed_ids(ids, "", 0));
  rig.pipeline().end_feed();
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(dropped_for(log, DropReason::kShutdown), 2);
  expect_closed_ledger(rig.pipeline());
}

TEST(Async, AStopEndsEveryGroup) {
  const TempDir dir;
  Rig rig(options(
      dir, kAsync + kLong + Texts{"pipeline.total_steps=50", "pipeline.partial_rollout=true"}));
  rig.on_score = score_unless_late;
  rig.on_step = [](Pipeline& p, const StepEvent& e) {
    if (e.step == 2) p.stop(0);
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_LT(log.steps.size(), 50u);
  EXPECT_GT(dropped_for(log, DropReason::kShutdown), 0);
  expect_closed_ledger(rig.pipeline());
  EXPECT_EQ(rig.model().version(), log.steps.size());
}

TEST(Async, TurnsGoOnUnderLaterWeights) {
  const TempDir dir;
  Rig rig(
      options(dir, kAsync + Texts{"pipeline.turns=always", "pipeline.partial_rollout=true",
                                  "pipeline.total_steps=4", "trainer.max_tokens_per_device=48"}));
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps.size(), 4u);
  EXPECT_GT(log.num_turns, 0);
  expect_closed_ledger(rig.pipeline());
}

TEST(AheadPlan, EngineAndTrainingHaveMemoryOfTheirOwn) {
  const TempDir dir;
  const OptionSet o = options(dir, kAsync);
  const MemoryPlan plan = plan_memory(o, real_fs(), PlanUse::kPipeline);
  EXPECT_EQ(plan.bytes_of(kPhaseWorkspace), 0u);
  EXPECT_EQ(plan.bytes_of(kEngineWorkspace), plan.kv_bytes + plan.engine_workspace_bytes);
  EXPECT_EQ(plan.bytes_of(kTrainingWorkspace), plan.train_workspace_bytes);
  Rig rig(o);
  uint64_t held = 0;
  for (const auto& e : rig.runtime().ledger().entries()) held += e.bytes;
  EXPECT_EQ(held, rig.pipeline().plan().arena_bytes);
}

}  // namespace
}  // namespace rl
