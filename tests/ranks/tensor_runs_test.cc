// Pipelines of ranks that divide a model: they generate the same samples in step, the first rank of
// each group has its host's scores and replies, and the run is that of one rank with the same
// parts, whatever comes when.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "../pipeline/late_scorer.h"
#include "../pipeline/turn_rig.h"
#include "rank_pipelines.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

OptionSet divided(OptionSet o, int tensor, int data = 1,
                  const std::vector<std::string>& assignments = {}) {
  o.set_i64("parallel.reduction_parts", 2);
  o.set_i64("parallel.tensor", tensor);
  o.set_i64("parallel.data", data);
  for (const std::string& text : assignments) o.set_assignment(text);
  return o;
}

OptionSet options_of(const TempDir& dir, int tensor, int data = 1,
                     const std::vector<std::string>& assignments = {}) {
  return divided(tiny_options(dir), tensor, data, assignments);
}

// A run of a rank for each part, and one of ranks that have all parts.
struct Both {
  std::vector<RankRun> divided, whole;
};
Both run_both(
    const std::function<OptionSet(int tensor)>& options,
    const Prepare& prepare = [](auto&&...) {}) {
  return {run_pipelines(options(2), prepare), run_pipelines(options(1), prepare)};
}

// Ranks T * i to T * i + T - 1 are a group; equal ranks of groups have the same pieces.
void expect_same_run(const Both& runs, int data = 1) {
  ASSERT_EQ(runs.divided.size(), static_cast<size_t>(2 * data));
  EXPECT_EQ(common_steps(runs.divided[0]), common_steps(runs.whole[0]));
  EXPECT_EQ(samples_of(runs.divided), samples_of(runs.whole));
  for (size_t r = 0; r < runs.divided.size(); ++r) {
    const RankRun& rank = runs.divided[r];
    EXPECT_EQ(rank.digest, runs.divided[r % 2].digest) << r;
    EXPECT_EQ(rank.log.steps.size(), runs.whole[0].log.steps.size()) << r;
    EXPECT_EQ(rank.log.steps[0].size() == 0, r > 0) << r;
    if (r % 2 == 0) continue;
    EXPECT_TRUE(rank.log.samples.empty()) << r;
    EXPECT_TRUE(rank.log.dropped.empty()) << r;
    EXPECT_EQ(rank.log.num_turns, 0) << r;
  }
}

TEST(TensorRuns, AreThoseOfOneRankWithTheSameParts) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"algo.advantage=gae", "critic.optimizer.lr=1e-3"},
      {"algo.kl.where=loss", "algo.kl.coef=0.1"},
      {"pipeline.score_events=group", "algo.advantage=remax"},
      {"pipeline.filter=mean", "pipeline.filter_low=0.2"},
      {"pipeline.max_concurrent_prompts_per_engine=2"}};
  for (const auto& assignments : cases) {
    SCOPED_TRACE(assignments.empty() ? "" : assignments[0]);
    const TempDir dir;
    const Both runs = run_both([&](int tensor) { return options_of(dir, tensor, 1, assignments); });
    expect_same_run(runs);
    EXPECT_EQ(runs.divided[0].log.steps[0].get("training/logprob_max_abs_diff"), 0);
    EXPECT_GT(runs.divided[0].log.steps[0].get("training/logprob_compared_tokens").value(), 0);
  }
}

TEST(TensorRuns, GroupsShareTheWork) {
  const TempDir dir;
  const Both runs = run_both([&](int tensor) { return options_of(dir, tensor, 2); });
  expect_same_run(runs, 2);
  EXPECT_EQ(runs.divided[0].log.steps[0].get("training/logprob_max_abs_diff"), 0);
  for (const SamplePtr& s : runs.divided[2].log.samples) EXPECT_EQ(s->ordinal % 2, 1u);
}

TEST(TensorRuns, RepliesReachAllRanks) {
  const TempDir dir;
  const Both runs = run_both([&](int tensor) { return divided(turn_options(dir), tensor); },
                             [](Rig& rig, int) { rig.on_turn = use_tool; });
  expect_same_run(runs);
  EXPECT_GT(runs.divided[0].log.num_turns, 0);
}

// Of one group a sample is failed, of another one gets no score, and of a third no reply.
TEST(TensorRuns, DropTheSameGroups) {
  const TempDir dir;
  const auto options = [&](int tensor) {
    return divided(turn_options(dir), tensor, 1,
                   {"pipeline.prompts_per_step=4", "pipeline.reward_timeout_ns=1500ms",
                    "pipeline.reply_timeout_ns=1500ms"});
  };
  const Both runs = run_both(options, [](Rig& rig, int) {
    rig.on_turn = [](Pipeline& p, const TurnEvent& e) {
      if (e.sample->ordinal == 2 && e.sample->slot == 1) return;
      try {
        use_tool(p, e);
      } catch (const Error& error) {  // its group is the one that is failed
        EXPECT_EQ(error.code, Code::kLate) << error.message;
      }
    };
    rig.on_score = [](Pipeline& p, const SamplePtr& s) {
      if (s->slot == 0 && s->ordinal == 0) return p.fail(s->id, "no judge");
      if (s->slot == 0 && s->ordinal == 5) return;
      score_unless_late(p, s);
    };
  });
  ASSERT_EQ(runs.divided[0].log.steps.size(), 2u);
  EXPECT_EQ(common_steps(runs.divided[0]), common_steps(runs.whole[0]));
  EXPECT_EQ(runs.divided[0].log.steps[0].get("training/samples"), 4);
  EXPECT_EQ(runs.divided[0].log.steps[1].get("training/samples"), 6);
  EXPECT_EQ(runs.divided[0].log.dropped.size(), 3u);
  EXPECT_TRUE(runs.divided[1].log.dropped.empty());
}

// Scores and replies that come at any time, deadlines that are met or not: ranks never part.
TEST(TensorRuns, StayTogetherWhateverComesWhen) {
  const TempDir dir;
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    const OptionSet o = divided(turn_options(dir), 2, 1 + round % 2,
                                {"pipeline.prompts_per_step=4", "pipeline.total_steps=4",
                                 str("pipeline.reward_timeout_ns=", 2 + 4 * round, "ms"),
                                 str("pipeline.reply_timeout_ns=", 2 + 3 * round, "ms")});
    const std::vector<RankRun> ranks = run_pipelines(o, [&](Rig& rig, int rank) {
      if (rank % 2 == 1) return;
      rig.on_turn = [](Pipeline& p, const TurnEvent& e) {
        std::this_thread::sleep_for(std::chrono::microseconds(37 * e.sample->ids.back()));
        const std::vector<int32_t> ids = {5};
        Reply reply{.sample_id = e.sample->id, .turn = static_cast<uint64_t>(e.turn)};
        reply.finish = e.turn > 1;
        if (!reply.finish) reply.ids = ids;
        try {
          p.reply_many({&reply, 1}, [](size_t, Code) {});
        } catch (const Error& e) {
          EXPECT_EQ(e.code, Code::kLate) << e.message;
        }
      };
      rig.on_score = [](Pipeline& p, const SamplePtr& s) {
        std::this_thread::sleep_for(std::chrono::microseconds(23 * s->ids.back()));
        score_unless_late(p, s);
      };
    });
    for (size_t r = 0; r < ranks.size(); ++r) {
      EXPECT_EQ(ranks[r].log.steps.size(), 4u);
      EXPECT_EQ(ranks[r].digest, ranks[r % 2].digest);
    }
  }
}

TEST(TensorRuns, LateScoresOfAnotherThread) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 2);
  std::vector<uint64_t> steps(2);
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    Rig rig(o, std::move(runtime));
    std::optional<LateScorer> scorer;
    if (rank == 0) scorer.emplace(rig);
    steps[rank] = rig.start_and_serve().steps.size();
  });
  EXPECT_EQ(steps, (std::vector<uint64_t>{3, 3}));
}

OptionSet saving(const TempDir& dir, int tensor, int data, int steps, const std::string& resume) {
  OptionSet o = options_of(dir, tensor, data,
                           {"checkpoint.every_steps=1", "checkpoint.keep_last=0",
                            "checkpoint.contents=model,optimizer,extra,hf_model"});
  o.set_string("checkpoint.dir", dir.file("saved"));
  o.set_i64("pipeline.total_steps", steps);
  if (!resume.empty()) o.set_string("checkpoint.resume", resume);
  return o;
}

TEST(TensorRuns, SaveWhatOneRankSavesAndResume) {
  for (const char* async : {"false", "true"}) {
    for (const auto& [data, zero] :
         {std::pair(1, 0), std::pair(2, 0), std::pair(2, 2), std::pair(2, 3)}) {
      SCOPED_TRACE(str("checkpoint.async ", async, ", parallel.data ", data, ", zero ", zero));
      const TempDir dir, other;
      const auto options = [&, data = data, zero = zero](const TempDir& to, int tensor, int steps,
                                                         const char* resume) {
        OptionSet o = saving(to, tensor, data, steps, resume);
        o.set_i64("parallel.zero_stage", zero);
        o.set_text("checkpoint.async", async);
        return o;
      };
      const std::vector<RankRun> whole = run_pipelines(options(other, 1, 3, ""));
      const std::vector<RankRun> begun = run_pipelines(options(dir, 2, 2, ""));
      EXPECT_EQ(begun[0].log.checkpoints.size(), 2u);
      for (size_t r = 1; r < begun.size(); ++r) EXPECT_TRUE(begun[r].log.checkpoints.empty());
      const std::vector<RankRun> resumed = run_pipelines(options(dir, 2, 3, "auto"));
      ASSERT_EQ(resumed[0].log.steps.size(), 1u);
      EXPECT_EQ(resumed[0].log.steps[0].get("pipeline/prompts_trained"), 12);
      for (const RankRun& rank : resumed) EXPECT_FALSE(rank.resumed_from.empty());
      expect_same_files(resumed[0].log.checkpoints.back()->path,
                        whole[0].log.checkpoints.back()->path);
      const std::vector<RankRun> one = run_pipelines(options(dir, 1, 4, "auto"));
      EXPECT_EQ(one[0].log.steps.size(), 1u);
    }
  }
}

// Once all have ended, the ranks of the first group make a checkpoint together.
TEST(TensorRuns, SaveTogetherAfterTheEnd) {
  const TempDir dir;
  OptionSet o = saving(dir, 2, 2, 1, "");
  o.set_i64("checkpoint.every_steps", 0);
  std::vector<std::string> paths(4);
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    Rig rig(o, std::move(runtime));
    rig.start_and_serve();
    if (rank < 2) {
      paths[rank] = rig.pipeline().checkpoint(0);
    } else {
      expect_error(Code::kFailedPrecondition, [&] { rig.pipeline().checkpoint(0); });
    }
  });
  EXPECT_EQ(paths[1], paths[0]);
  const TempDir other;
  const std::vector<RankRun> whole = run_pipelines(saving(other, 1, 2, 1, ""));
  expect_same_files(paths[0], whole[0].log.checkpoints.back()->path);
}

TEST(TensorRuns, EvaluateTogether) {
  const TempDir dir;
  write_lines(dir.file("eval.jsonl"), id_rows(3));
  for (const int data : {1, 2}) {
    SCOPED_TRACE(data);
    const auto options = [&](int tensor) {
      OptionSet o = options_of(dir, tensor, data, {"eval.every_steps=2"});
      o.set_string("eval.path", dir.file("eval.jsonl"));
      return o;
    };
    const auto values = [](const std::vector<RankRun>& ranks) {
      std::string out;
      for (const auto& eval : ranks[0].log.evals)
        out += str(eval->step, " ", eval->mean_reward, "\n");
      return out;
    };
    const Prepare prepare = [](Rig& rig, int rank) {
      if (rank == 0) rig.pipeline().request_eval();
    };
    const Both runs = run_both(options, prepare);
    EXPECT_EQ(runs.divided[0].log.evals.size(), 2u);
    EXPECT_EQ(values(runs.divided), values(runs.whole));
    for (size_t r = 1; r < runs.divided.size(); ++r) EXPECT_TRUE(runs.divided[r].log.evals.empty());
  }
}

// An evaluation that the host requests while the run goes on.
TEST(TensorRuns, EvaluateWhenTheHostAsks) {
  const TempDir dir;
  write_lines(dir.file("eval.jsonl"), id_rows(3));
  OptionSet o = options_of(dir, 2);
  o.set_string("eval.path", dir.file("eval.jsonl"));
  const std::vector<RankRun> ranks = run_pipelines(o, [](Rig& rig, int rank) {
    rig.on_step = [rank](Pipeline& p, const StepEvent& e) {
      if (rank == 0 && e.step == 1) p.request_eval();
    };
  });
  EXPECT_EQ(ranks[0].log.evals.size(), 1u);
  EXPECT_EQ(ranks[1].log.steps.size(), 3u);
}

TEST(TensorRuns, EndTogetherWhenOneIsStopped) {
  const TempDir dir;
  for (const int data : {1, 2}) {
    for (const int stopped : {0, 1}) {
      SCOPED_TRACE(str("parallel.data ", data, ", rank ", stopped));
      expect_a_stop_ends_all(options_of(dir, 2, data), stopped);
    }
  }
}

// While the first rank waits for scores that never come.
TEST(TensorRuns, EndTogetherWhileTheyWait) {
  const TempDir dir;
  std::atomic<Pipeline*> second = nullptr;
  const std::vector<RankRun> ranks = run_pipelines(options_of(dir, 2), [&](Rig& rig, int rank) {
    if (rank == 1) second = &rig.pipeline();
    rig.on_score = [&](Pipeline&, const SamplePtr& s) {
      if (s->ordinal == 3 && s->slot == 3) second.load()->stop(0);
    };
  });
  for (const RankRun& rank : ranks) {
    EXPECT_EQ(rank.log.end, Code::kDone);
    EXPECT_TRUE(rank.log.steps.empty());
  }
}

// A stop whose deadline passes while a step trains gives it up on all ranks.
TEST(TensorRuns, GiveAStepUpTogether) {
  const TempDir dir;
  OptionSet o = options_of(
      dir, 2, 1,
      {"trainer.num_minibatches=4", "trainer.max_tokens_per_device=48", "algo.advantage=custom"});
  expect_a_step_given_up(o);
}

// What fails on one rank fails all of them, and what is left can be destroyed.
TEST(TensorRuns, EndWithTheRankThatIsDestroyed) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 2, 2, {"pipeline.total_steps=100"});
  for (const int destroyed : {0, 1, 3}) {
    SCOPED_TRACE(destroyed);
    run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
      const int rank = runtime->ranks().rank();
      Rig rig(o, std::move(runtime));
      if (rank == destroyed) {
        rig.pipeline().start();
        EXPECT_EQ(rig.pipeline().next(rank % 2 == 0 ? 60 * kSecond : kSecond / 5).status,
                  rank % 2 == 0 ? Code::kOk : Code::kTimeout);
        return;
      }
      if (destroyed != 0) rig.on_score = [](Pipeline&, const SamplePtr&) {};
      rig.ends_with = RankError(destroyed, "").code;
      rig.start_and_serve();
      const auto failure = rig.pipeline().failure();
      ASSERT_NE(failure, nullptr);
      EXPECT_EQ(failure->location, str("rank ", destroyed));
    });
  }
}

TEST(TensorRuns, AFailureOfOneRankFailsAll) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 2, 1, {"algo.advantage=custom"});
  std::vector<std::string> failures(2);
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    Rig rig(o, std::move(runtime));
    rig.pipeline().set_custom_advantage([rank](const AlgoArrays&, std::span<double> advantages) {
      if (rank == 1) throw Error(Code::kIo, "no disk");
      std::ranges::fill(advantages, 0.5);
    });
    rig.ends_with = rank == 1 ? Code::kIo : Code::kFailedPrecondition;
    rig.start_and_serve();
    failures[rank] = rig.pipeline().failure()->message;
  });
  EXPECT_TRUE(contains(failures[1], "no disk")) << failures[1];
  EXPECT_TRUE(contains(failures[0], "rank 1")) << failures[0];
}

TEST(TensorRuns, TheFirstRankOfAGroupHasItsHost) {
  const TempDir dir;
  OptionSet o = options_of(dir, 2, 1, {"checkpoint.every_steps=1"});
  o.set_string("checkpoint.dir", dir.file("saved"));
  std::atomic<uint64_t> id = 0;
  run_pipelines(o, [&](Rig& rig, int rank) {
    if (rank == 1) {
      const auto refused = [&](const std::function<void()>& call) {
        EXPECT_EQ(expect_error(Code::kFailedPrecondition, call).location, "rank 1");
      };
      refused([&] { rig.pipeline().score(Score{.sample_id = 1, .reward = 1}); });
      refused([&] { rig.pipeline().fail(1, "no judge"); });
      refused([&] { finish(rig.pipeline(), 1); });
      refused([&] { rig.pipeline().request_eval(); });
      return;
    }
    rig.on_step = [](Pipeline& p, const StepEvent& e) {
      if (e.step == 3) return;
      EXPECT_EQ(expect_error(Code::kUnsupported, [&] { p.checkpoint(kSecond); }).key,
                "parallel.tensor");
      EXPECT_EQ(expect_error(Code::kBusy, [&] { p.model().save("/none", Dtype::kF32, false); }).key,
                "parallel.tensor");
    };
  });
  OptionSet fed = options_of(dir, 2);
  fed.unset("data.path");
  const Error e = expect_error(Code::kUnsupported, [&] { Rig rig(fed); });
  EXPECT_EQ(e.key, "data.path");
  EXPECT_EQ(e.other_key, "parallel.tensor");
}

TEST(TensorRuns, OptionsOfARunDoNotChange) {
  const TempDir dir;
  const OptionSet o = options_of(dir, 2, 1, {"pipeline.total_steps=2"});
  run_pipelines(o, [&](Rig& rig, int rank) {
    if (rank != 0) return;  // whose host the run does not wait for
    rig.on_step = [&](Pipeline& p, const StepEvent& e) {
      if (e.step != 1) return;
      OptionSet other = o;
      other.set_text("optimizer.lr", "0.5");
      EXPECT_EQ(expect_error(Code::kUnsupported, [&] { p.set_options(other); }).key,
                "parallel.tensor");
    };
  });
}

}  // namespace
}  // namespace rl::testing
