// Groups that divide (parallel.zero_group) as a host has them: which groups there are, what their
// sessions and pipelines train and save, and what is refused.
#include <gtest/gtest.h>

#include "../pipeline/plan_arenas.h"
#include "rank_pipelines.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

OptionSet options_of(const TempDir& dir, int ranks, int stage, int group,
                     const std::vector<std::string>& assignments = {}) {
  OptionSet o = tiny_options(dir);
  o.set_i64("parallel.data", ranks);
  o.set_i64("parallel.zero_stage", stage);
  o.set_i64("parallel.zero_group", group);
  o.set_text("optimizer.lr", "1e-3");
  for (const std::string& a : assignments) o.set_assignment(a);
  return o;
}

// The group of each rank, and its number there.
TEST(ZeroGroupSessions, AreNeighboursOfDataAndContext) {
  const TempDir dir;
  const OptionSet o = options_of(
      dir, 4, 1, 2, {"parallel.tensor=2", "parallel.reduction_parts=2", "comm.timeout_ns=60s"});
  std::vector<std::pair<int, int>> places(8);
  run_ranks(make_ranks(o), [&](std::shared_ptr<Runtime> runtime) {
    const DataRanks ranks = runtime->data_ranks();
    EXPECT_EQ(ranks.size(), 4);
    EXPECT_EQ(ranks.dividing().size(), 2);
    EXPECT_EQ(runtime->master_ranks().size(), 2);
    EXPECT_EQ(runtime->master_ranks().of_first_group(), ranks.in_first_group());
    places[static_cast<size_t>(runtime->ranks().rank())] = {ranks.in_first_group() ? 0 : 1,
                                                            ranks.dividing().rank()};
  });
  EXPECT_EQ(places, (std::vector<std::pair<int, int>>{
                        {0, 0}, {0, 0}, {0, 1}, {0, 1}, {1, 0}, {1, 0}, {1, 1}, {1, 1}}));
}

TEST(ZeroGroupSessions, OfOneGroupAreThoseOfAllRanks) {
  const TempDir dir;
  const auto sent = [&](int group) {
    return on_trainers(options_of(dir, 2, 2, group), [](RankParts& parts) {
      const TrainedStep step = parts.trainer.step(host_batch(parts.trainer));
      EXPECT_EQ(step.get("comm/between_groups_bytes"), 0);
      return str(step.get("comm/sent_bytes").value());
    });
  };
  EXPECT_EQ(sent(2), sent(0));
}

TEST(ZeroGroupSessions, RefuseAGroupThatDividesNoNumberOfRanks) {
  const TempDir dir;
  const auto refused = [&](const OptionSet& o) {
    return expect_error(Code::kConflict, [&] { Runtime runtime(o); });
  };
  for (const int group : {3, 8}) {
    const Error e = refused(options_of(dir, 4, 1, group));
    EXPECT_EQ(e.key, "parallel.zero_group");
    EXPECT_EQ(e.other_key, "parallel.data");
    EXPECT_EQ(e.expected, "0, or a divisor of 4 above 1");
    EXPECT_NE(e.message.find(str("parallel.zero_group is ", group)), std::string::npos);
  }
  OptionSet rows = options_of(dir, 1, 1, 3);
  rows.set_i64("parallel.context", 2);
  EXPECT_EQ(refused(rows).other_key, "parallel.context");
  const OptionSet o = options_of(dir, 4, 1, 3);
  const Error planned =
      expect_error(Code::kConflict, [&] { plan_memory(o, real_fs(), PlanUse::kTrain); });
  EXPECT_EQ(planned.key, "parallel.zero_group");
}

// Metrics of all ranks, and the model and its critic as files.
TEST(ZeroGroupSessions, TrainAndSaveAsRanksThatDivideNothing) {
  const TempDir dir;
  const std::vector<std::string> critic = {"algo.advantage=gae", "critic.optimizer.lr=1e-3"};
  const auto run = [&](int stage, int group) {
    const std::string saved = dir.file(str("stage", stage));
    return on_trainers(options_of(dir, 4, stage, group, critic), [&](RankParts& parts) {
      const std::string metrics = two_steps_metrics(parts);
      if (parts.rank == 0 || stage == 3) {
        parts.model->save(saved, Dtype::kF32, false);
        parts.trainer.save_critic(saved + "-critic", Dtype::kF32, false);
      }
      return metrics;
    });
  };
  const std::vector<std::string> whole = run(0, 0), grouped = run(3, 2);
  for (const std::string& metrics : grouped) EXPECT_EQ(metrics, whole[0]);
  for (const char* file : {"/model.safetensors", "-critic/model.safetensors"}) {
    EXPECT_EQ(read_text_file(real_fs(), dir.file("stage3") + file, 1 << 26),
              read_text_file(real_fs(), dir.file("stage0") + file, 1 << 26));
  }
}

// A rank has what one of a run of one group has.
TEST(ZeroGroupSessions, ArePlannedAsReserved) {
  const TempDir dir;
  for (const int stage : {1, 3}) {
    const auto arenas_of = [&](int ranks, int group) {
      Arenas out;
      on_trainers(
          options_of(dir, ranks, stage, group, {"algo.advantage=gae"}), [&](RankParts& parts) {
            const Arenas held = live(parts.model->runtime());
            EXPECT_EQ(held, planned(parts.model->plan_session(
                                for_session(parts.model->runtime().options()), PlanUse::kTrain)));
            if (parts.rank == 0) out = held;
            return std::string();
          });
      return out;
    };
    EXPECT_EQ(arenas_of(4, 2), arenas_of(2, 0));
  }
}

OptionSet saving(const TempDir& dir, const OptionSet& options, int steps, const char* async) {
  OptionSet o = options;
  for (const char* a : {"checkpoint.every_steps=1", "checkpoint.keep_last=0",
                        "checkpoint.contents=model,optimizer,extra,hf_model"})
    o.set_assignment(a);
  o.set_text("checkpoint.async", async);
  o.set_string("checkpoint.dir", dir.file("saved"));
  o.set_i64("pipeline.total_steps", steps);
  o.set_string("checkpoint.resume", "auto");
  return o;
}

// Also of ranks that divide the model: the first group gathers, and rank 0 writes.
TEST(ZeroGroupRuns, SaveAndResume) {
  const std::string tensor = "parallel.tensor=2", parts = "parallel.reduction_parts=2";
  const std::vector<std::vector<std::string>> cases = {
      {"parallel.zero_stage=3", "checkpoint.async=false"},
      {"parallel.zero_stage=3", "checkpoint.async=true"},
      {"parallel.zero_stage=2", "checkpoint.async=true", tensor, parts},
      {"parallel.zero_stage=3", "checkpoint.async=false", tensor, parts}};
  for (const auto& assignments : cases) {
    SCOPED_TRACE(assignments[0] + " " + assignments[1]);
    const TempDir dir, other;
    const bool divides = assignments.size() > 2;
    OptionSet whole = options_with(dir, {"parallel.data=4"}), grouped = whole;
    if (divides) whole.set_assignment(parts);
    for (const std::string& a : assignments) grouped.set_assignment(a);
    grouped.set_i64("parallel.zero_group", 2);
    const char* const async = assignments[1].ends_with("true") ? "true" : "false";
    const std::vector<RankRun> expected = run_pipelines(saving(other, whole, 3, async));
    run_pipelines(saving(dir, grouped, 2, async));
    const std::vector<RankRun> resumed = run_pipelines(saving(dir, grouped, 3, async));
    ASSERT_EQ(resumed[0].log.steps.size(), 1u);
    EXPECT_EQ(resumed[0].log.checkpoints.size(), 1u);
    expect_same_files(resumed[0].log.checkpoints.back()->path,
                      expected[0].log.checkpoints.back()->path);
  }
}

}  // namespace
}  // namespace rl::testing
