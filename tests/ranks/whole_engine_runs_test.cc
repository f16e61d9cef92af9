// Pipelines of ranks that divide a model to train it, and generate each for itself with all parts
// and stages of it (engine.tensor_parallel_size = 1): every rank has prompts, engine and host of
// its own, and trained samples have the log-probs that they were sampled with.
#include <gtest/gtest.h>

#include <algorithm>

#include "../pipeline/plan_arenas.h"
#include "../pipeline/turn_rig.h"
#include "model/rollout_weights.h"
#include "model/weight_pieces.h"
#include "pipeline/plan/plan.h"
#include "pipeline/ranks/rank_options.h"
#include "rank_pipelines.h"
#include "support/expect_error.h"
#include "support/random_llama.h"

namespace rl::testing {
namespace {

using Texts = std::vector<std::string>;

OptionSet with(OptionSet o, const Texts& assignments) {
  for (const std::string& text : assignments) o.set_assignment(text);
  return o;
}
// Every rank has an engine of its own, and weights come in several buckets.
OptionSet whole_engines(const OptionSet& o) {
  return with(o, {"engine.tensor_parallel_size=1", "sync.bucket_bytes=64KiB"});
}

// A layout of ranks, and the one of fewest ranks that trains with the same bits.
struct Layouts {
  Texts divided, same;
};
const Layouts kTensor = {{"parallel.tensor=2", "parallel.reduction_parts=2"},
                         {"parallel.reduction_parts=2"}};

// What follows from samples and training alone, not from how many engines there are.
std::string trained_steps(const RankRun& rank) {
  std::string out;
  for (const MetricList& step : rank.log.steps) {
    MetricList trained;
    for (const Metric& m : step.without_times()) {
      const bool of_engine = m.name.starts_with("comm/") || m.name.starts_with("perf/") ||
                             m.name.starts_with("rollout/");
      if (!of_engine) trained.set(m.name, m.value);
    }
    out += trained.to_json() + "\n";
  }
  return out;
}

void expect_prompts_of_their_own(const std::vector<RankRun>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_FALSE(ranks[r].log.samples.empty()) << r;
    for (const SamplePtr& s : ranks[r].log.samples) EXPECT_EQ(s->ordinal % ranks.size(), r);
    EXPECT_EQ(ranks[r].log.steps[0].size() == 0, r > 0) << r;
  }
}

void expect_same_run(const std::vector<RankRun>& ranks, const std::vector<RankRun>& same) {
  expect_prompts_of_their_own(ranks);
  EXPECT_EQ(samples_of(ranks), samples_of(same));
  EXPECT_EQ(trained_steps(ranks[0]), trained_steps(same[0]));
  for (const MetricList& step : ranks[0].log.steps) {
    EXPECT_EQ(step.get("training/logprob_max_abs_diff"), 0);
    EXPECT_GT(step.get("training/logprob_compared_tokens").value(), 0);
  }
}

TEST(WholeEngineRuns, AreThoseOfFewerRanks) {
  const std::vector<Layouts> layouts = {
      kTensor,
      {{"parallel.tensor=2", "parallel.reduction_parts=2", "parallel.data=2"},
       {"parallel.reduction_parts=2", "parallel.data=2"}},
      {{"parallel.tensor=2", "parallel.reduction_parts=2", "parallel.context=2"},
       {"parallel.reduction_parts=2", "parallel.context=2"}},
      {{"parallel.pipeline=2"}, {}},
      {{"parallel.pipeline=2", "parallel.tensor=2", "parallel.reduction_parts=2",
        "model.path=" + fixture_model("smollm2")},
       {"parallel.reduction_parts=2", "model.path=" + fixture_model("smollm2")}}};
  for (const Layouts& layout : layouts) {
    SCOPED_TRACE(layout.divided[0]);
    const TempDir dir;
    expect_same_run(run_pipelines(whole_engines(options_with(dir, layout.divided))),
                    run_pipelines(options_with(dir, layout.same)));
  }
}

// Three tensor-parallel ranks in two groups are six engines.
TEST(WholeEngineRuns, SixOfThreeByTwoRanks) {
  const TempDir dir;
  const OptionSet o =
      with(tiny_options(dir),
           {"model.path=" + write_random_llama(dir.file("three"), {.hidden = 48, .heads = 3}),
            "parallel.reduction_parts=3", "parallel.data=2", "pipeline.prompts_per_step=6"});
  const std::vector<RankRun> ranks =
      run_pipelines(whole_engines(with(o, {"parallel.tensor=3", "parallel.zero_stage=1"})));
  ASSERT_EQ(ranks.size(), 6u);
  expect_same_run(ranks, run_pipelines(o));
}

TEST(WholeEngineRuns, AlgorithmsAreThoseOfOneRank) {
  const std::vector<Texts> cases = {{"algo.advantage=gae", "critic.optimizer.lr=1e-3"},
                                    {"algo.kl.where=loss", "algo.kl.coef=0.1"},
                                    {"pipeline.score_events=group", "algo.advantage=remax"},
                                    {"trainer.num_minibatches=2", "trainer.epochs=2"},
                                    {"engine.num_engines=2", "engine.max_num_seqs=4"}};
  for (const Texts& assignments : cases) {
    SCOPED_TRACE(assignments[0]);
    const TempDir dir;
    const OptionSet o = options_with(dir, assignments);
    expect_same_run(run_pipelines(whole_engines(with(o, kTensor.divided))),
                    run_pipelines(with(o, kTensor.same)));
  }
}

// Of four ranks two have no prompt in a step.
TEST(WholeEngineRuns, SomeRanksMayHaveNoPrompt) {
  const TempDir dir;
  const OptionSet o = options_with(dir, {"parallel.data=2", "pipeline.prompts_per_step=2"});
  const std::vector<RankRun> ranks = run_pipelines(whole_engines(with(o, kTensor.divided))),
                             same = run_pipelines(with(o, kTensor.same));
  EXPECT_EQ(samples_of(ranks), samples_of(same));
  EXPECT_EQ(trained_steps(ranks[0]), trained_steps(same[0]));
}

TEST(WholeEngineRuns, EveryHostRepliesToItsSamples) {
  const TempDir dir;
  const Prepare tools = [](Rig& rig, int) { rig.on_turn = use_tool; };
  const OptionSet o = with(turn_options(dir), {"pipeline.prompts_per_step=4"});
  const std::vector<RankRun> ranks = run_pipelines(whole_engines(with(o, kTensor.divided)), tools);
  expect_same_run(ranks, run_pipelines(with(o, kTensor.same), tools));
  for (const RankRun& rank : ranks) EXPECT_GT(rank.log.num_turns, 0);
}

// The plan is that of the stage with most layers.
void expect_at_most(const Arenas& held, const Arenas& plan) {
  ASSERT_EQ(held.size(), plan.size());
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(std::get<std::string>(held[i]), std::get<std::string>(plan[i]));
    EXPECT_LE(std::get<uint64_t>(held[i]), std::get<uint64_t>(plan[i])) << i;
  }
}

// Weights of engines, the buffer and all else that a rank holds.
TEST(WholeEngineRuns, ThePlanIsWhatARankHolds) {
  for (const Texts& layout :
       {Texts{"parallel.tensor=2", "parallel.reduction_parts=2"},
        Texts{"parallel.pipeline=2", "parallel.tensor=2", "parallel.reduction_parts=4",
              "parallel.pipeline_last_layers=1"}}) {
    SCOPED_TRACE(layout[0]);
    const TempDir dir;
    const OptionSet o = whole_engines(
        with(tiny_options(dir),
             Texts{"model.path=" +
                   write_random_llama(dir.file("deep"), {.hidden = 64, .layers = 3, .heads = 4})}));
    run_pipelines(with(o, layout), [&](Rig& rig, int rank) {
      const MemoryPlan& plan = rig.pipeline().plan();
      const Arenas held = live(rig.runtime()), most = planned(plan);
      if (rank < 2) {
        EXPECT_EQ(held, most);
      } else {
        expect_at_most(held, most);
      }
      EXPECT_LE(plan.bytes_of(kPublicationBuffer), uint64_t{64} << 10);
      EXPECT_GT(plan.bytes_of(kPublicationBuffer), 0u);
    });
  }
}

// As many bytes as docs/parallel.md says.
TEST(WholeEngineRuns, AMetricCountsTheWeightsThatARankSends) {
  const TempDir dir;
  const OptionSet o =
      options_with(dir, {"parallel.tensor=2", "parallel.reduction_parts=2", "parallel.pipeline=2"});
  uint64_t expected = 0;
  const std::vector<RankRun> ranks = run_pipelines(whole_engines(o), [&](Rig& rig, int rank) {
    if (rank != 0) return;
    const Model& model = rig.model().model();
    const auto bytes = [&](int64_t first) {
      ModelConfig config = model.config();
      config.split.first = first;
      return bytes_of(weight_pieces(model.compute().device(), config, model.compute_dtype()));
    };
    const uint64_t own = bytes(0), stage = bytes(0) + bytes(1);
    expected = own + stage;
  });
  for (const double sent : ranks[0].log.series("comm/weight_bytes"))
    EXPECT_EQ(sent, static_cast<double>(expected));
  for (const double sent : run_pipelines(o)[0].log.series("comm/weight_bytes")) EXPECT_EQ(sent, 0);
}

OptionSet saving(const OptionSet& given, const TempDir& dir, int steps) {
  OptionSet o =
      with(given, {"checkpoint.every_steps=1", "checkpoint.keep_last=0",
                   "checkpoint.contents=model,optimizer,extra,hf_model", "checkpoint.resume=auto"});
  o.set_string("checkpoint.dir", dir.file("saved"));
  o.set_i64("pipeline.total_steps", steps);
  return o;
}

// Four ranks save a checkpoint, and two go on from it, then one: as a run of the same bits without
// a break.
TEST(WholeEngineRuns, SavedByFourRanksAndResumedByTwo) {
  const std::vector<Layouts> fours = {
      {{"parallel.tensor=4", "parallel.reduction_parts=4"}, {"parallel.reduction_parts=4"}},
      {{"parallel.tensor=2", "parallel.reduction_parts=4", "parallel.pipeline=2"},
       {"parallel.reduction_parts=4"}}};
  for (const Layouts& four : fours) {
    for (const char* const async : {"false", "true"}) {
      SCOPED_TRACE(str(four.divided[0], ", checkpoint.async ", async));
      const TempDir dir, other;
      const std::string model =
          write_random_llama(dir.file("model"), {.hidden = 64, .layers = 2, .heads = 4});
      const OptionSet o =
          with(tiny_options(dir), {"model.path=" + model, str("checkpoint.async=", async)});
      const std::vector<RankRun> whole = run_pipelines(saving(with(o, four.same), other, 4));
      const std::vector<RankRun> begun =
          run_pipelines(saving(whole_engines(with(o, four.divided)), dir, 2));
      EXPECT_EQ(begun[0].log.checkpoints.size(), 2u);
      for (size_t r = 1; r < begun.size(); ++r) EXPECT_TRUE(begun[r].log.checkpoints.empty());
      const Texts two = {"parallel.tensor=2", "parallel.reduction_parts=4"};
      const std::vector<RankRun> resumed =
          run_pipelines(saving(whole_engines(with(o, two)), dir, 3));
      ASSERT_EQ(resumed[0].log.steps.size(), 1u);
      EXPECT_EQ(resumed[0].log.steps[0].get("pipeline/prompts_trained"), 12);
      for (const RankRun& rank : resumed) EXPECT_FALSE(rank.resumed_from.empty());
      const std::vector<RankRun> one = run_pipelines(saving(with(o, four.same), dir, 4));
      expect_same_files(one[0].log.checkpoints.back()->path, whole[0].log.checkpoints.back()->path);
    }
  }
}

TEST(WholeEngineRuns, GroupsSaveTogether) {
  for (const char* const zero : {"0", "2"}) {
    SCOPED_TRACE(zero);
    const TempDir dir, other;
    const OptionSet o = options_with(dir, {"parallel.data=2", str("parallel.zero_stage=", zero)});
    const std::vector<RankRun> whole = run_pipelines(saving(with(o, kTensor.same), other, 2));
    const std::vector<RankRun> ranks =
        run_pipelines(saving(whole_engines(with(o, kTensor.divided)), dir, 2));
    EXPECT_EQ(ranks[0].log.checkpoints.size(), 2u);
    expect_same_files(ranks[0].log.checkpoints.back()->path, whole[0].log.checkpoints.back()->path);
  }
}

// When an option says so, and when the host asks.
TEST(WholeEngineRuns, RankZeroEvaluates) {
  const TempDir dir;
  write_lines(dir.file("eval.jsonl"), id_rows(3));
  OptionSet o = options_with(dir, {"eval.every_steps=2"});
  o.set_string("eval.path", dir.file("eval.jsonl"));
  const Prepare ask = [](Rig& rig, int rank) {
    if (rank == 0) return rig.pipeline().request_eval();
    const Error e = expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().request_eval(); });
    EXPECT_EQ(e.location, str("rank ", rank));
  };
  const auto values = [](const std::vector<RankRun>& ranks) {
    std::string out;
    for (const auto& eval : ranks[0].log.evals)
      out += str(eval->step, " ", eval->mean_reward, "\n");
    return out;
  };
  const std::vector<RankRun> ranks = run_pipelines(whole_engines(with(o, kTensor.divided)), ask);
  EXPECT_EQ(ranks[0].log.evals.size(), 2u);
  EXPECT_EQ(values(ranks), values(run_pipelines(with(o, kTensor.same), ask)));
  EXPECT_TRUE(ranks[1].log.evals.empty());
}

TEST(WholeEngineRuns, EndTogetherWhenOneIsStopped) {
  const TempDir dir, saved;
  const OptionSet o = whole_engines(
      with(options_with(dir, kTensor.divided), {"parallel.data=2", "checkpoint.every_steps=2"}));
  for (const int stopped : {0, 1, 3}) {
    SCOPED_TRACE(stopped);
    expect_a_stop_ends_all(with(o, {"checkpoint.dir=" + saved.file(str("saved", stopped))}),
                           stopped);
  }
}

// A stop whose deadline passes while a step trains gives it up on all ranks.
TEST(WholeEngineRuns, GiveAStepUpTogether) {
  const TempDir dir;
  const OptionSet o = whole_engines(
      with(options_with(dir, {"trainer.num_minibatches=4", "trainer.max_tokens_per_device=48",
                              "algo.advantage=custom"}),
           kTensor.divided));
  expect_a_step_given_up(o);
}

TEST(WholeEngineRuns, EndWithTheRankThatIsDestroyed) {
  const TempDir dir;
  const OptionSet o = whole_engines(
      with(options_with(dir, kTensor.divided), {"parallel.data=2", "pipeline.total_steps=100"}));
  for (const int destroyed : {0, 3}) {
    SCOPED_TRACE(destroyed);
    run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
      const int rank = runtime->ranks().rank();
      Rig rig(o, std::move(runtime));
      if (rank == destroyed) {
        rig.pipeline().start();
        EXPECT_EQ(rig.pipeline().next(60 * kSecond).status, Code::kOk);
        return;
      }
      rig.ends_with = RankError(destroyed, "").code;
      rig.start_and_serve();
      const auto failure = rig.pipeline().failure();
      ASSERT_NE(failure, nullptr);
      EXPECT_EQ(failure->location, str("rank ", destroyed));
    });
  }
}

TEST(WholeEngineRuns, WhatOneRankWouldJudgeOrChangeAloneIsRefused) {
  const std::vector<std::pair<Texts, std::string>> cases = {
      {{"pipeline.filter=mean", "pipeline.filter_low=0.2"}, "pipeline.filter"},
      {{"pipeline.discard_zero_advantage=true"}, "pipeline.discard_zero_advantage"},
      {{"eval.weights=ema", "optimizer.ema=0.9", "eval.every_steps=1"}, "eval.weights"},
      {{"checkpoint.metric=eval/rewards/mean", "checkpoint.keep_best=1", "checkpoint.keep_last=1",
        "eval.every_steps=1"},
       "checkpoint.metric"}};
  for (const auto& [assignments, key] : cases) {
    SCOPED_TRACE(key);
    const TempDir dir;
    write_lines(dir.file("eval.jsonl"), id_rows(3));
    OptionSet o = with(options_with(dir, kTensor.divided), assignments);
    o.set_string("checkpoint.dir", dir.file("saved"));
    o.set_string("eval.path", dir.file("eval.jsonl"));
    const Error e = expect_error(Code::kUnsupported, [&] { Rig rig(whole_engines(o)); });
    EXPECT_EQ(e.key, key);
    EXPECT_EQ(e.other_key, "parallel.tensor");
  }
}

TEST(WholeEngineRuns, RanksHaveTheSameLayout) {
  const TempDir dir;
  const auto text_of = [&](const Texts& assignments) {
    return shared_options(with(whole_engines(options_with(dir, kTensor.divided)), assignments));
  };
  EXPECT_NE(text_of({}), text_of({"sync.bucket_bytes=128KiB"}));
  EXPECT_NE(text_of({}), text_of({"engine.tensor_parallel_size=0"}));
}

}  // namespace
}  // namespace rl::testing
