// Pipelines of ranks that have the stages of a model, perhaps in parts: they generate the same
// samples in step, the first rank of each group has its host's scores and replies, and the run is
// that of one rank.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "../pipeline/late_scorer.h"
#include "../pipeline/scored_model.h"
#include "../pipeline/turn_rig.h"
#include "rank_pipelines.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

using Texts = std::vector<std::string>;

OptionSet with(OptionSet o, int stages, const Texts& assignments) {
  o.set_i64("parallel.pipeline", stages);
  for (const std::string& text : assignments) o.set_assignment(text);
  return o;
}
OptionSet options_of(const TempDir& dir, int stages, const Texts& assignments = {}) {
  return with(tiny_options(dir), stages, assignments);
}

// The groups of ranks that have one model each, of a run with two stages.
const std::vector<Texts> kGroups = {{},
                                    {"parallel.data=2"},
                                    {"parallel.tensor=2", "parallel.reduction_parts=2"},
                                    {"parallel.context=2"}};

// The first ranks of all groups have the events of their group's samples, no other rank has any.
void expect_same_run(const std::vector<RankRun>& stages, const std::vector<RankRun>& whole) {
  EXPECT_EQ(common_steps(stages[0]), common_steps(whole[0]));
  EXPECT_EQ(samples_of(stages), samples_of(whole));
  EXPECT_EQ(stages[0].log.steps[0].get("training/logprob_max_abs_diff"), 0);
  for (size_t r = 0; r < stages.size(); ++r) {
    EXPECT_EQ(stages[r].log.steps.size(), whole[0].log.steps.size()) << r;
    EXPECT_EQ(stages[r].log.steps[0].size() == 0, r > 0) << r;
    if (r < stages.size() / 2) continue;  // perhaps of the first stage
    EXPECT_TRUE(stages[r].log.samples.empty()) << r;
    EXPECT_EQ(stages[r].log.num_turns, 0) << r;
  }
}

TEST(StageRuns, AreThoseOfOneRank) {
  const std::vector<Texts> cases = {
      {},
      {"algo.kl.where=loss", "algo.kl.coef=0.1"},
      {"pipeline.score_events=group", "algo.advantage=remax"},
      {"pipeline.filter=mean", "pipeline.filter_low=0.2"},
      {"pipeline.max_concurrent_prompts_per_engine=2", "model.path=smollm2"}};
  for (Texts assignments : cases) {
    SCOPED_TRACE(assignments.empty() ? "" : assignments[0]);
    for (std::string& text : assignments) {
      if (text == "model.path=smollm2") text = "model.path=" + fixture_model("smollm2");
    }
    const TempDir dir;
    expect_same_run(run_pipelines(options_of(dir, 2, assignments)),
                    run_pipelines(options_of(dir, 1, assignments)));
  }
}

TEST(StageRuns, AreThoseOfTheSameGroupsWithoutStages) {
  for (const Texts& group : kGroups) {
    SCOPED_TRACE(group.empty() ? "" : group[0]);
    const TempDir dir;
    expect_same_run(run_pipelines(options_of(dir, 2, group)),
                    run_pipelines(options_of(dir, 1, group)));
  }
}

TEST(StageRuns, ARewardModelIsWholeOnEveryStage) {
  const TempDir dir;
  const Texts scored = {"model.reward_path=" + scored_model(dir)};
  const std::vector<RankRun> stages = run_pipelines(options_of(dir, 2, scored));
  EXPECT_EQ(common_steps(stages[0]), common_steps(run_pipelines(options_of(dir, 1, scored))[0]));
  EXPECT_NE(stages[0].log.steps[0].get("critic/score/mean"), 0);
}

TEST(StageRuns, RepliesReachAllStages) {
  const TempDir dir;
  const Prepare tools = [](Rig& rig, int) { rig.on_turn = use_tool; };
  const std::vector<RankRun> stages = run_pipelines(with(turn_options(dir), 2, {}), tools);
  expect_same_run(stages, run_pipelines(turn_options(dir), tools));
  EXPECT_GT(stages[0].log.num_turns, 0);
}

// Scores and replies that come at any time, deadlines that are met or not: stages never part.
TEST(StageRuns, StayTogetherWhateverComesWhen) {
  const TempDir dir;
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    Texts assignments = kGroups[static_cast<size_t>(round)];
    for (const std::string& text : {std::string("pipeline.prompts_per_step=4"),
                                    str("pipeline.reward_timeout_ns=", 4 + 9 * round, "ms"),
                                    str("pipeline.reply_timeout_ns=", 4 + 7 * round, "ms")})
      assignments.push_back(text);
    const OptionSet o = with(turn_options(dir), 2, assignments);
    const std::vector<RankRun> ranks = run_pipelines(o, [&](Rig& rig, int) {
      rig.on_turn = [](Pipeline& p, const TurnEvent& e) {
        std::this_thread::sleep_for(std::chrono::microseconds(37 * e.sample->ids.back()));
        try {
          use_tool(p, e);
        } catch (const Error& error) {
          EXPECT_EQ(error.code, Code::kLate) << error.message;
        }
      };
      rig.on_score = [](Pipeline& p, const SamplePtr& s) {
        std::this_thread::sleep_for(std::chrono::microseconds(23 * s->ids.back()));
        score_unless_late(p, s);
      };
    });
    for (const RankRun& rank : ranks) EXPECT_EQ(rank.log.steps.size(), ranks[0].log.steps.size());
  }
}

OptionSet saving(const TempDir& dir, int stages, int steps, Texts assignments) {
  for (const char* text : {"checkpoint.every_steps=1", "checkpoint.keep_last=0",
                           "checkpoint.contents=model,optimizer,extra,hf_model"})
    assignments.emplace_back(text);
  OptionSet o = options_of(dir, stages, assignments);
  o.set_string("checkpoint.dir", dir.file("saved"));
  o.set_i64("pipeline.total_steps", steps);
  return o;
}

// With checkpoint.async and without, with divided states and without.
TEST(StageRuns, SaveWhatOneRankSavesAndResume) {
  const std::vector<Texts> cases = {
      {"checkpoint.async=true"},
      {"parallel.tensor=2", "parallel.reduction_parts=2"},
      {"parallel.data=2", "parallel.zero_stage=2", "checkpoint.async=true"},
      {"parallel.data=2", "parallel.zero_stage=1", "parallel.tensor=2",
       "parallel.reduction_parts=2"}};
  for (Texts assignments : cases) {
    SCOPED_TRACE(assignments[0]);
    const TempDir dir, other;
    const std::vector<RankRun> whole = run_pipelines(saving(other, 1, 3, assignments));
    const std::vector<RankRun> begun = run_pipelines(saving(dir, 2, 2, assignments));
    EXPECT_EQ(begun[0].log.checkpoints.size(), 2u);
    for (size_t r = 1; r < begun.size(); ++r) EXPECT_TRUE(begun[r].log.checkpoints.empty());
    assignments.emplace_back("checkpoint.resume=auto");
    const std::vector<RankRun> resumed = run_pipelines(saving(dir, 2, 3, assignments));
    ASSERT_EQ(resumed[0].log.steps.size(), 1u);
    for (const RankRun& rank : resumed) EXPECT_FALSE(rank.resumed_from.empty());
    expect_same_files(resumed[0].log.checkpoints.back()->path,
                      whole[0].log.checkpoints.back()->path);
    const std::vector<RankRun> one = run_pipelines(saving(dir, 1, 4, assignments));
    EXPECT_EQ(one[0].log.steps.size(), 1u);
  }
}

// Once all have ended, the ranks of the first group make a checkpoint together.
TEST(StageRuns, SaveTogetherAfterTheEnd) {
  const TempDir dir, other;
  OptionSet o = saving(dir, 2, 2, {"parallel.data=2"});
  o.set_i64("checkpoint.every_steps", 0);
  std::vector<std::string> paths(4);
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    Rig rig(o, std::move(runtime));
    rig.on_step = [rank](Pipeline& p, const StepEvent& e) {
      if (rank != 0 || e.step != 1) return;  // it runs on
      EXPECT_EQ(expect_error(Code::kUnsupported, [&] { p.checkpoint(kSecond); }).key,
                "parallel.pipeline");
    };
    rig.start_and_serve();
    if (rank % 2 == 0) {
      paths[rank] = rig.pipeline().checkpoint(0);
    } else {
      expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().checkpoint(0); });
    }
  });
  EXPECT_EQ(paths[2], paths[0]);
  const std::vector<RankRun> whole = run_pipelines(saving(other, 1, 2, {"parallel.data=2"}));
  expect_same_files(paths[0], whole[0].log.checkpoints.back()->path);
}

TEST(StageRuns, EvaluateTogether) {
  const TempDir dir;
  write_lines(dir.file("eval.jsonl"), id_rows(3));
  const auto values = [&](int stages, const Texts& group) {
    OptionSet o = options_of(dir, stages, group);
    o.set_i64("eval.every_steps", 2);
    o.set_string("eval.path", dir.file("eval.jsonl"));
    std::string out;
    for (const RankRun& rank : run_pipelines(o)) {
      for (const auto& eval : rank.log.evals) out += str(eval->step, " ", eval->mean_reward, "\n");
    }
    return out;
  };
  for (const Texts& group : kGroups) {
    SCOPED_TRACE(group.empty() ? "" : group[0]);
    const std::string stages = values(2, group);
    EXPECT_FALSE(stages.empty());
    EXPECT_EQ(stages, values(1, group));
  }
}

TEST(StageRuns, EndTogetherWhenOneIsStopped) {
  const TempDir dir;
  for (const int stopped : {0, 1, 3}) {
    SCOPED_TRACE(stopped);
    expect_a_stop_ends_all(options_of(dir, 2, {"parallel.data=2"}), stopped);
  }
}

TEST(StageRuns, TheFirstStageHasItsHost) {
  const TempDir dir;
  run_pipelines(options_of(dir, 2), [&](Rig& rig, int rank) {
    if (rank == 0) return;
    const auto refused = [&](const std::function<void()>& call) {
      const Error e = expect_error(Code::kFailedPrecondition, call);
      EXPECT_EQ(e.location, "rank 1");
      EXPECT_TRUE(contains(e.message, "rank 0")) << e.message;
    };
    refused([&] { rig.pipeline().score(Score{.sample_id = 1, .reward = 1}); });
    refused([&] { rig.pipeline().request_eval(); });
  });
}

}  // namespace
}  // namespace rl::testing
