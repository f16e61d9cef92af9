// The loop as a host sees it: learning, determinism, resume, evaluations.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::Rig;
using testing::RunLog;
using testing::tiny_options;

double mean(const std::vector<double>& v, size_t first, size_t last) {
  return std::accumulate(v.begin() + first, v.begin() + last, 0.0) /
         static_cast<double>(last - first);
}

TEST(Loop, MeanRewardRises) {
  const TempDir dir;
  for (const char* model : {"llama", "smollm2"}) {
    SCOPED_TRACE(model);
    OptionSet o = tiny_options(dir, model);
    o.set_i64("pipeline.total_steps", 20);
    Rig rig(o);
    const RunLog log = rig.start_and_serve();
    const std::vector<double> rewards = log.series("critic/rewards/mean");
    ASSERT_EQ(rewards.size(), 20u);
    // An untrained model draws ids evenly: a quarter of them is rewarded.
    EXPECT_NEAR(mean(rewards, 0, 2), 0.25, 0.15);
    EXPECT_GT(mean(rewards, 15, 20), mean(rewards, 0, 5) + 0.2);
    EXPECT_EQ(rig.pipeline().status().ledger.attempts_trained, 20 * 16);
    EXPECT_EQ(rig.model().version(), 20u);
  }
}

TEST(Loop, SampledLogprobsEqualTheTrainersInEveryStep) {
  const TempDir dir;
  Rig rig(tiny_options(dir));
  const RunLog log = rig.start_and_serve();
  for (const double d : log.series("training/logprob_max_abs_diff")) EXPECT_EQ(d, 0.0);
  for (const double n : log.series("training/logprob_compared_tokens")) EXPECT_EQ(n, 4 * 4 * 8);
}

// Activations overwrite keys and values, so none of before is found when the weights stay.
TEST(Loop, ASkippedStepLeavesNoPrefixBehind) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  std::string ids = "1";
  for (int i = 2; i <= 20; ++i) ids += str(", ", i);
  testing::write_lines(dir.file("data.jsonl"),
                       std::vector<std::string>(4, str("{\"ids\": [", ids, "]}")));
  o.set_text("algo.adv_norm_std", "false");
  Rig rig(o);
  uint64_t steps = 0;
  rig.on_step = [&](Pipeline&, const StepEvent& e) { steps = e.step; };
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    p.score(s->id, steps == 0 ? (s->slot % 2 == 0 ? 1e300 : -1e300) : testing::low_id_reward(*s));
  };
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.series("training/skipped_steps"), (std::vector<double>{1, 0, 0}));
  for (const double d : log.series("training/logprob_max_abs_diff")) EXPECT_EQ(d, 0.0);
}

TEST(Loop, TbbGivesTheBitsOfPlainThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer cannot see the synchronisation inside TBB";
#endif
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("runtime.threads", 2);
  Rig plain(o), tbb(o, true);
  EXPECT_EQ(plain.start_and_serve().fingerprint(), tbb.start_and_serve().fingerprint());
  EXPECT_EQ(plain.model().weight_digest(), tbb.model().weight_digest());
}

TEST(Loop, EqualSeedsGiveEqualMetricsAndWeightsAtAnyThreadCount) {
  const TempDir dir;
  std::string metrics;
  uint64_t digest = 0;
  for (const int64_t threads : {1, 1, 2}) {
    OptionSet o = tiny_options(dir);
    o.set_i64("runtime.threads", threads);
    o.set_i64("trainer.num_minibatches", 2);
    Rig rig(o);
    const RunLog log = rig.start_and_serve();
    if (metrics.empty()) {
      metrics = log.fingerprint();
      digest = rig.model().weight_digest();
      continue;
    }
    EXPECT_EQ(log.fingerprint(), metrics) << threads;
    EXPECT_EQ(rig.model().weight_digest(), digest) << threads;
  }
  OptionSet other = tiny_options(dir);
  other.set_u64("runtime.seed", 8);
  other.set_i64("trainer.num_minibatches", 2);
  Rig rig(other);
  EXPECT_NE(rig.start_and_serve().fingerprint(), metrics);
}

TEST(Loop, ArrivalOrderOfScoresChangesNothing) {
  const TempDir dir;
  Rig straight(tiny_options(dir));
  const std::string metrics = straight.start_and_serve().fingerprint();
  Rig reversed(tiny_options(dir));
  std::vector<SamplePtr> waiting;
  reversed.on_score = [&](Pipeline& p, const SamplePtr& s) {
    waiting.push_back(s);
    if (waiting.size() < 16) return;
    std::reverse(waiting.begin(), waiting.end());
    for (const SamplePtr& w : waiting) p.score(w->id, testing::low_id_reward(*w));
    waiting.clear();
  };
  EXPECT_EQ(reversed.start_and_serve().fingerprint(), metrics);
  EXPECT_EQ(straight.model().weight_digest(), reversed.model().weight_digest());
}

TEST(Loop, AResumedRunEqualsTheUninterruptedOne) {
  const TempDir dir;
  for (const char* kl : {"none", "loss"}) {
    SCOPED_TRACE(kl);
    OptionSet o = tiny_options(dir);
    o.set_string("algo.kl.where", kl);
    if (std::string(kl) == "loss") o.set_f64("algo.kl.coef", 0.01);
    o.set_i64("pipeline.total_steps", 6);
    Rig whole(o);
    const RunLog expected = whole.start_and_serve();

    o.set_string("checkpoint.dir", dir.file(str("checkpoints_", kl)));
    o.set_i64("checkpoint.every_steps", 3);
    o.set_i64("pipeline.total_steps", 3);
    o.set_string("metrics.jsonl", dir.file("metrics.jsonl"));
    {
      Rig first(o);
      EXPECT_EQ(first.start_and_serve().checkpoints.size(), 1u);
    }
    o.set_string("checkpoint.resume", "auto");
    o.set_i64("pipeline.total_steps", 6);
    Rig second(o);
    EXPECT_EQ(second.pipeline().status().step, 3u);
    EXPECT_FALSE(second.pipeline().resumed_from().empty());
    const RunLog rest = second.start_and_serve();
    ASSERT_EQ(rest.steps.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(rest.steps[i].without_times().to_json(),
                expected.steps[i + 3].without_times().to_json());
    }
    EXPECT_EQ(second.model().weight_digest(), whole.model().weight_digest());
    const std::string lines = read_text_file(real_fs(), dir.file("metrics.jsonl"), 1 << 20);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 6);
  }
}

// Resumed from another directory, so that its own checkpoint of that step is not the loaded one.
TEST(Loop, ACheckpointOfTheSameStepOfAnEarlierRunIsReplaced) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  o.set_i64("checkpoint.every_steps", 1);
  std::vector<std::string> paths;
  for (const char* name : {"other", "own"}) {
    o.set_string("checkpoint.dir", dir.file(name));
    Rig rig(o);
    paths.push_back(rig.start_and_serve().checkpoints.at(0)->path);
  }
  o.set_string("checkpoint.resume", paths[0]);
  o.set_i64("pipeline.total_steps", 2);
  Rig rig(o);
  EXPECT_EQ(rig.pipeline().checkpoint(0), paths[1]);
}

TEST(Loop, ACheckpointOfAnotherConfigurationIsRefused) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 1);
  o.set_string("checkpoint.dir", dir.file("checkpoints"));
  o.set_i64("checkpoint.every_steps", 1);
  {
    Rig rig(o);
    rig.start_and_serve();
  }
  expect_error(Code::kAlreadyExists, [&] { Rig again(o); });
  o.set_string("checkpoint.resume", "auto");
  for (const char* other : {"optimizer.lr=1e-4", "engine.max_model_len=31"}) {
    SCOPED_TRACE(other);
    OptionSet changed = o;
    changed.set_assignment(other);
    expect_error(Code::kIncompatible, [&] { Rig rig(changed); });
  }
}

TEST(Loop, EvaluationsAreGreedyMarkedAndNeverTrainedOn) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  testing::write_lines(dir.file("eval.jsonl"), testing::id_rows(5));
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_i64("eval.every_steps", 3);
  o.set_i64("eval.max_prompts", 4);
  Rig plain(tiny_options(dir));
  plain.start_and_serve();
  Rig rig(o);
  rig.pipeline().request_eval();
  const RunLog log = rig.start_and_serve();
  ASSERT_EQ(log.evals.size(), 2u);
  EXPECT_EQ(log.evals[0]->step, 0u);
  EXPECT_EQ(log.evals[1]->step, 3u);
  std::vector<SamplePtr> eval;
  for (const SamplePtr& s : log.samples) {
    if (s->purpose == Purpose::kEval) eval.push_back(s);
  }
  ASSERT_EQ(eval.size(), 8u);
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) sum += testing::low_id_reward(*eval[i]);
  EXPECT_EQ(log.evals[0]->num_scored, 4);
  EXPECT_DOUBLE_EQ(log.evals[0]->mean_reward, sum / 4);
  EXPECT_EQ(eval[0]->tag, "0");
  // Evaluating leaves no trace in the weights.
  EXPECT_EQ(rig.model().weight_digest(), plain.model().weight_digest());
}

TEST(Loop, ATimelineShowsEveryLaneOfAStep) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_i64("pipeline.total_steps", 2);
  o.set_bool("profiler.timeline.enable", true);
  o.set_string("profiler.timeline.dir", dir.file("trace"));
  Rig rig(o);
  rig.start_and_serve();
  const auto trace =
      nlohmann::json::parse(read_text_file(real_fs(), dir.file("trace/trace.json"), 1 << 24));
  std::map<std::string, int> count;
  for (const auto& e : trace.at("traceEvents")) {
    ++count[e.at("ph") == "M" ? e.at("args").at("name") : e.at("name")];
    EXPECT_GE(e.value("dur", 0.0), 0.0);
  }
  for (const char* lane : {"pipeline", "engine", "reward", "train"}) {
    EXPECT_EQ(count[lane], 1) << lane;
  }
  for (const char* once : {"pipeline.step", "pipeline.draw", "reward.wait"}) {
    EXPECT_EQ(count[once], 2) << once;
  }
  for (const char* often : {"engine.prefill", "engine.decode", "train.forward", "train.backward"}) {
    EXPECT_GE(count[often], 2) << often;
  }
}

TEST(Loop, AHostFedRunEqualsOneFromAFile) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_bool("data.shuffle", false);
  o.set_i64("pipeline.total_steps", 2);
  Rig from_file(o);
  const RunLog expected = from_file.start_and_serve();
  o.unset("data.path");
  o.unset("data.shuffle");
  Rig fed(o);
  const std::vector<std::string> rows = testing::id_rows(8);
  for (const std::string& row : rows) EXPECT_TRUE(fed.pipeline().feed_line(row));
  fed.pipeline().start();
  fed.pipeline().end_feed();
  const RunLog log = fed.serve();
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(fed.model().weight_digest(), from_file.model().weight_digest());
  expect_error(Code::kFailedPrecondition, [&] { fed.pipeline().feed_line(rows[0]); });
}

TEST(Loop, TheFeedPushesBackWhenFull) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  o.set_string("data.path", "");
  Rig rig(o);
  const int64_t capacity = rig.pipeline().status().feed_capacity;
  for (int64_t i = 0; i < capacity; ++i) EXPECT_TRUE(rig.pipeline().feed_ids({1, 2, 3}, "x"));
  EXPECT_FALSE(rig.pipeline().feed_ids({1, 2, 3}, "x"));
  EXPECT_FALSE(rig.pipeline().feed_ids({1, 2, 3}, "x", 1'000'000));
  EXPECT_EQ(rig.pipeline().status().feed_size, capacity);
  const Error e = expect_error(Code::kOutOfRange, [&] { rig.pipeline().feed_ids({1, 256}, "x"); });
  EXPECT_EQ(e.location, str("feed:", capacity + 1));
}

TEST(Loop, OptionsChangeBetweenStepsOnly) {
  const TempDir dir;
  OptionSet o = tiny_options(dir);
  Rig rig(o);
  OptionSet slower = o;
  slower.set_f64("optimizer.lr", 1e-3);
  rig.on_step = [&](Pipeline& p, const StepEvent& e) {
    if (e.step == 1) p.set_options(slower);
  };
  const RunLog log = rig.start_and_serve();
  const std::vector<double> lr = log.series("actor/lr");
  EXPECT_EQ(lr.front(), 3e-3);
  EXPECT_EQ(lr.back(), 1e-3);
  OptionSet fixed = slower;
  fixed.set_i64("pipeline.prompts_per_step", 2);
  EXPECT_EQ(expect_error(Code::kNotChangeable, [&] { rig.pipeline().set_options(fixed); }).key,
            "pipeline.prompts_per_step");
}

}  // namespace
}  // namespace rl
