// Pipelines of several ranks: each generates a part of the prompts with its own engine and all
// train on all of them, so that weights stay equal, samples are those of one rank, and what exists
// once comes from rank 0.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "rank_pipelines.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

OptionSet options_of(const TempDir& dir, int ranks, std::vector<std::string> assignments = {}) {
  assignments.push_back(str("parallel.data=", ranks));
  return options_with(dir, assignments);
}

// Samples by ordinal and slot.
std::map<std::pair<uint64_t, uint32_t>, std::vector<int32_t>> samples_of(
    const std::vector<RankRun>& ranks, uint64_t end) {
  std::map<std::pair<uint64_t, uint32_t>, std::vector<int32_t>> out;
  for (const RankRun& rank : ranks) {
    for (const SamplePtr& s : rank.log.samples) {
      if (s->ordinal >= end) continue;
      EXPECT_TRUE(out.emplace(std::pair(s->ordinal, s->slot), s->ids).second);
    }
  }
  return out;
}

void expect_equal_ranks(const std::vector<RankRun>& ranks) {
  for (const RankRun& rank : ranks) {
    EXPECT_EQ(rank.digest, ranks[0].digest);
    EXPECT_EQ(rank.log.steps.size(), ranks[0].log.steps.size());
  }
}

TEST(RankRuns, EndWithEqualWeightsTwice) {
  for (const int size : {2, 3}) {
    const TempDir dir;
    const std::vector<RankRun> ranks = run_pipelines(options_of(dir, size));
    expect_equal_ranks(ranks);
    EXPECT_EQ(ranks[0].log.steps.size(), 3u);
    const std::vector<RankRun> again = run_pipelines(options_of(dir, size));
    EXPECT_EQ(again[0].digest, ranks[0].digest);
    EXPECT_EQ(again[0].log.fingerprint(), ranks[0].log.fingerprint());
  }
}

// Random numbers follow from ordinal and slot, so the first step's samples are those of one rank.
TEST(RankRuns, FirstStepIsThatOfOneRank) {
  const TempDir dir;
  const std::vector<RankRun> one = run_pipelines(options_of(dir, 1));
  const std::vector<RankRun> three = run_pipelines(options_of(dir, 3));
  EXPECT_EQ(samples_of(three, 4), samples_of(one, 4));
  EXPECT_EQ(samples_of(one, 4).size(), 16u);
  // How rows are grouped in forwards differs, and gradients are summed in another order.
  const auto differs = [](const std::string& name) {
    return name.starts_with("timing_") || name.starts_with("perf/") ||
           name.starts_with("rollout/") || name == "training/micro_batches" ||
           name == "training/computed_rows";
  };
  int64_t compared = 0;
  for (const Metric& m : one[0].log.steps[0]) {
    if (differs(m.name)) continue;
    const std::optional<double> got = three[0].log.steps[0].get(m.name);
    ASSERT_TRUE(got.has_value()) << m.name;
    const double bound = m.name.starts_with("actor/") ? 1e-5 * std::abs(m.value) + 1e-9 : 0;
    EXPECT_NEAR(*got, m.value, bound) << m.name;
    ++compared;
  }
  EXPECT_GT(compared, 40);
  EXPECT_EQ(three[0].log.steps[0].get("training/logprob_max_abs_diff"), 0);
  EXPECT_EQ(three[0].log.steps[0].get("training/logprob_compared_tokens"),
            one[0].log.steps[0].get("training/loss_tokens"));
  EXPECT_EQ(three[0].log.steps[0].get("rollout/decode_tokens"),
            one[0].log.steps[0].get("rollout/decode_tokens"));
}

// The first rank has the metrics, files, evaluations and checkpoints; each has the score events of
// the samples that it generated.
TEST(RankRuns, WhatExistsOnceIsTheFirstRanks) {
  const TempDir dir;
  write_lines(dir.file("eval.jsonl"), id_rows(3));
  const std::string metrics = dir.file("metrics.jsonl");
  OptionSet o = options_of(dir, 2, {"eval.every_steps=1", "checkpoint.every_steps=1"});
  o.set_string("eval.path", dir.file("eval.jsonl"));
  o.set_string("checkpoint.dir", dir.file("saved"));
  o.set_string("metrics.jsonl", metrics);
  o.set_string("buffer.record_dir", dir.file("batches"));
  const std::vector<RankRun> ranks = run_pipelines(o, [](Rig& rig, int rank) {
    if (rank == 0) return;
    EXPECT_EQ(
        expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().request_eval(); }).location,
        "rank 1");
    expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().checkpoint(0); });
  });
  expect_equal_ranks(ranks);
  EXPECT_EQ(ranks[0].log.evals.size(), 3u);
  EXPECT_EQ(ranks[0].log.checkpoints.size(), 3u);
  EXPECT_TRUE(ranks[1].log.evals.empty());
  EXPECT_TRUE(ranks[1].log.checkpoints.empty());
  for (const MetricList& m : ranks[0].log.steps) EXPECT_GT(m.size(), 40u);
  for (const MetricList& m : ranks[1].log.steps) EXPECT_EQ(m.size(), 0u);
  for (const int rank : {0, 1}) {
    for (const SamplePtr& s : ranks[static_cast<size_t>(rank)].log.samples) {
      const bool own = s->ordinal % 2 == static_cast<uint64_t>(rank);
      EXPECT_TRUE(own || s->purpose == Purpose::kEval);
    }
  }
  int lines = 0;
  std::ifstream in(metrics);
  for (std::string line; std::getline(in, line);) ++lines;
  EXPECT_EQ(lines, 3);
  const auto files = std::filesystem::directory_iterator(dir.file("batches"));
  EXPECT_EQ(std::distance(begin(files), end(files)), 3);
}

TEST(RankRuns, MetricsCountTheGroupsOfAllRanks) {
  const TempDir dir;
  const std::vector<RankRun> ranks = run_pipelines(options_of(dir, 3));
  const MetricList& last = ranks[0].log.steps.back();
  EXPECT_EQ(last.get("pipeline/prompts_drawn"), 12);
  EXPECT_EQ(last.get("pipeline/prompts_trained"), 12);
  EXPECT_EQ(last.get("pipeline/samples_trained"), 48);
  EXPECT_EQ(last.get("training/samples"), 16);
  int64_t own = 0;
  for (const RankRun& rank : ranks) own += rank.ledger.prompts_trained;
  EXPECT_EQ(own, 12);
}

// A group that one rank's host fails is missing from the batch of all.
TEST(RankRuns, TrainOnWhatIsLeft) {
  const TempDir dir;
  const std::vector<RankRun> ranks = run_pipelines(options_of(dir, 2), [](Rig& rig, int) {
    rig.on_score = [](Pipeline& p, const SamplePtr& s) {
      if (s->ordinal != 1) return p.score(s->id, low_id_reward(*s));
      if (s->slot == 2) p.fail(s->id, "no judge");
    };
  });
  expect_equal_ranks(ranks);
  EXPECT_EQ(ranks[0].log.steps[0].get("training/samples"), 12);
  EXPECT_EQ(ranks[0].log.steps[1].get("training/samples"), 16);
  EXPECT_EQ(ranks[0].log.steps[0].get("pipeline/prompts_dropped"), 1);
  EXPECT_TRUE(ranks[0].log.dropped.empty());
  EXPECT_EQ(ranks[1].log.dropped.size(), 1u);
}

// More ranks than prompts: some only train.
TEST(RankRuns, MayGenerateNothing) {
  const TempDir dir;
  const std::vector<RankRun> ranks =
      run_pipelines(options_of(dir, 3, {"pipeline.prompts_per_step=2", "pipeline.total_steps=2"}));
  expect_equal_ranks(ranks);
  EXPECT_EQ(ranks[0].log.steps[1].get("training/samples"), 8);
}

TEST(RankRuns, TrainOnGivenResponses) {
  const TempDir dir;
  std::vector<std::string> rows;
  for (int i = 0; i < 8; ++i) {
    rows.push_back(str("{\"ids\": [1, ", i + 3, "], \"response\": [", i + 4, ", 9, ", i, "]}"));
  }
  OptionSet o = tiny_options(dir);
  o = OptionSet();
  for (const char* text : {"runtime.threads=1", "model.dtype=fp32", "engine.max_model_len=32",
                           "algo.objective=sft", "pipeline.prompts_per_step=4", "optimizer.lr=3e-3",
                           "pipeline.total_steps=2", "parallel.data=2"}) {
    o.set_assignment(text);
  }
  write_lines(dir.file("answers.jsonl"), rows);
  o.set_string("model.path", fixture_model("llama"));
  o.set_string("data.path", dir.file("answers.jsonl"));
  const std::vector<RankRun> ranks = run_pipelines(o);
  expect_equal_ranks(ranks);
  EXPECT_EQ(ranks[0].log.steps[0].get("training/samples"), 4);
}

OptionSet saving(const TempDir& dir, int ranks, int steps, const std::string& resume) {
  OptionSet o = options_of(dir, ranks, {"checkpoint.every_steps=1", "checkpoint.keep_last=0"});
  o.set_string("checkpoint.dir", dir.file("saved"));
  o.set_i64("pipeline.total_steps", steps);
  if (!resume.empty()) o.set_string("checkpoint.resume", resume);
  return o;
}

TEST(RankRuns, ResumeAsIfTheyHadNotStopped) {
  const TempDir dir, other;
  const std::vector<RankRun> whole = run_pipelines(saving(other, 3, 3, ""));
  run_pipelines(saving(dir, 3, 2, ""));
  const std::vector<RankRun> resumed = run_pipelines(saving(dir, 3, 3, "auto"));
  expect_equal_ranks(resumed);
  EXPECT_EQ(resumed[0].log.steps.size(), 1u);
  EXPECT_EQ(resumed[0].digest, whole[0].digest);
  EXPECT_EQ(resumed[0].log.steps[0].get("pipeline/prompts_trained"), 12);
  for (const RankRun& rank : resumed) EXPECT_FALSE(rank.resumed_from.empty());
}

TEST(RankRuns, StagesOfZeroSaveAndResume) {
  const TempDir other;
  const std::vector<RankRun> whole = run_pipelines(saving(other, 3, 3, ""));
  for (const char* async : {"false", "true"}) {
    for (const int stage : {1, 2}) {
      SCOPED_TRACE(str("stage ", stage, ", checkpoint.async ", async));
      const TempDir dir;
      const auto at_stage = [&](int steps, const std::string& resume) {
        OptionSet o = saving(dir, 3, steps, resume);
        o.set_i64("parallel.zero_stage", stage);
        o.set_text("checkpoint.async", async);
        return o;
      };
      run_pipelines(at_stage(2, ""), [](Rig& rig, int rank) {
        if (rank != 0) return;
        const Error e = expect_error(Code::kUnsupported, [&] { rig.pipeline().checkpoint(0); });
        EXPECT_EQ(e.key, "parallel.zero_stage");
      });
      const std::vector<RankRun> resumed = run_pipelines(at_stage(3, "auto"));
      expect_equal_ranks(resumed);
      EXPECT_EQ(resumed[0].digest, whole[0].digest);
      EXPECT_EQ(resumed[0].log.checkpoints.size(), 1u);
      const std::vector<RankRun> one = run_pipelines(saving(dir, 1, 4, "auto"));
      EXPECT_EQ(one[0].log.steps.size(), 1u);
    }
  }
}

TEST(RankRuns, AnotherNumberOfRanksMayResume) {
  for (const int size : {1, 2}) {
    const TempDir dir;
    run_pipelines(saving(dir, 3, 2, ""));
    const std::vector<RankRun> resumed = run_pipelines(saving(dir, size, 3, "auto"));
    expect_equal_ranks(resumed);
    EXPECT_EQ(resumed[0].log.steps.size(), 1u);
    EXPECT_EQ(resumed[0].log.steps[0].get("pipeline/prompts_trained"), 12);
    EXPECT_EQ(resumed[0].log.steps[0].get("training/global_step"), 3);
  }
}

TEST(RankRuns, EndTogetherWhenOneIsStopped) {
  const TempDir dir;
  const std::vector<RankRun> ranks =
      run_pipelines(options_of(dir, 3, {"pipeline.total_steps=100"}), [](Rig& rig, int rank) {
        if (rank != 1) return;
        rig.on_step = [](Pipeline& p, const StepEvent& e) {
          if (e.step == 2) p.stop(0);
        };
      });
  expect_equal_ranks(ranks);
  EXPECT_EQ(ranks[0].log.steps.size(), 2u);
}

TEST(RankRuns, EndWithTheRankThatIsDestroyed) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 2, {"pipeline.total_steps=100"});
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const int rank = runtime->ranks().rank();
    Rig rig(o, std::move(runtime));
    if (rank == 1) {  // it never scores
      rig.pipeline().start();
      EXPECT_EQ(rig.pipeline().next(60 * kSecond).status, Code::kOk);
      return;
    }
    rig.ends_with = RankError(1, "").code;
    rig.start_and_serve();
    const auto failure = rig.pipeline().failure();
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->location, "rank 1");
    EXPECT_TRUE(contains(failure->message, "destroyed"));
  });
}

TEST(RankRuns, RefuseWhatOneRankWouldDecideAlone) {
  const TempDir dir;
  const auto refused = [&](std::vector<std::string> assignments, const char* key) {
    OptionSet o = options_of(dir, 2, std::move(assignments));
    if (std::string_view(key) == "data.path") o.unset("data.path");
    const Error e = expect_error(Code::kUnsupported, [&] { Rig rig(o); });
    EXPECT_EQ(e.key, key);
    EXPECT_EQ(e.other_key, "parallel.data");
  };
  refused({}, "data.path");
  refused({"pipeline.filter=mean", "pipeline.filter_low=0.1"}, "pipeline.filter");
  refused({"pipeline.discard_zero_advantage=true"}, "pipeline.discard_zero_advantage");
}

TEST(RankRuns, OptionsOfARunDoNotChange) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 2, {"pipeline.total_steps=2"});
  const std::vector<RankRun> ranks = run_pipelines(o, [&](Rig& rig, int) {
    rig.on_step = [&](Pipeline& p, const StepEvent& e) {
      if (e.step != 1) return;
      OptionSet other = o;
      other.set_text("optimizer.lr", "0.5");
      EXPECT_EQ(expect_error(Code::kUnsupported, [&] { p.set_options(other); }).key,
                "parallel.data");
    };
  });
  expect_equal_ranks(ranks);
}

}  // namespace
}  // namespace rl::testing
