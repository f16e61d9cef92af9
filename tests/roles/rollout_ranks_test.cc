// Rollouts of ranks that divide a model over a store: the first rank has the store and looks for
// weights, all generate the samples of one rank, follow the same checkpoints, and wait, stop and
// fail together.
#include <chrono>

#include "pipeline/roles/run_role.h"
#include "rank_roles.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

const Texts kTensor = {"parallel.tensor=2", "parallel.reduction_parts=2"};
const Texts kStages = {"parallel.pipeline=2"};

struct Both {
  std::vector<RankRun> rollout, train;
};

Both run_both(const OptionSet& rollout, const OptionSet& train) {
  RankedRun generating(rollout, [](auto&&...) {});
  generating.start();
  Both out;
  out.train = run_pipelines(train);
  out.rollout = generating.wait();
  return out;
}

// The first rank has the events of all samples.
void expect_same_rollout(const std::vector<RankRun>& ranks, const std::vector<RankRun>& one) {
  EXPECT_EQ(samples_of(ranks), samples_of(one));
  for (size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(ranks[r].log.end, Code::kDone) << r;
    EXPECT_EQ(ranks[r].ledger.prompts_trained, one[0].ledger.prompts_trained) << r;
    EXPECT_EQ(ranks[r].log.samples.empty(), r > 0) << r;
  }
}

TEST(RolloutRanks, FeedATrainerOfOneRankWithItsBits) {
  const Texts four = joined(kTensor, kStages);
  for (const Texts& layout : {kTensor, kStages, four}) {
    SCOPED_TRACE(layout[0] + " " + layout.back());
    const Texts parts = layout[0] == kTensor[0] ? Texts{"parallel.reduction_parts=2"} : Texts();
    const TempDir dir, one_dir;
    const Both ranks = run_both(on_policy_rollout(dir, layout), on_policy_train(dir, parts));
    const Both one = run_both(on_policy_rollout(one_dir, parts), on_policy_train(one_dir, parts));
    EXPECT_EQ(digests_of(ranks.train), digests_of(one.train));
    const RunLog& log = ranks.train[0].log;
    EXPECT_EQ(log.series("training/logprob_max_abs_diff"), std::vector<double>(4, 0.0));
    expect_same_rollout(ranks.rollout, one.rollout);
  }
}

TEST(RolloutRanks, FeedATrainerOfOtherRanks) {
  const TempDir dir, one_dir;
  const Texts parts = {"parallel.reduction_parts=2"};
  const Texts data = joined(parts, {"parallel.data=2", "parallel.zero_stage=3"});
  const Both ranks = run_both(on_policy_rollout(dir, kTensor), on_policy_train(dir, data));
  const Both one = run_both(on_policy_rollout(one_dir, parts), on_policy_train(one_dir, data));
  EXPECT_EQ(digests_of(ranks.train), digests_of(one.train));
  expect_same_rollout(ranks.rollout, one.rollout);
}

// Samples go on under newer weights, and the trainer saves every second step.
TEST(RolloutRanks, StayWithinTheBoundWhereTheyGenerateAhead) {
  const TempDir dir;
  const Texts ahead = {"pipeline.max_staleness=2", "pipeline.total_steps=8"};
  const Both ranks = run_both(
      rollout_options(dir, joined(joined(ahead, kTensor), {"pipeline.partial_rollout=true"})),
      train_options(dir,
                    joined(ahead, {"parallel.reduction_parts=2", "checkpoint.every_steps=2"})));
  const RunLog& log = ranks.train[0].log;
  ASSERT_EQ(log.steps.size(), 8u);
  for (const double age : log.series("pipeline/staleness/max")) EXPECT_LE(age, 2);
  EXPECT_TRUE(log.dropped.empty());
  EXPECT_EQ(ranks.rollout[1].ledger.prompts_trained, ranks.rollout[0].ledger.prompts_trained);
}

TEST(RolloutRanks, FollowTheLastWeights) {
  const TempDir dir;
  RankedRun generating(on_policy_rollout(dir, kTensor), [](auto&&...) {});
  generating.start();
  const std::vector<RankRun> train = run_pipelines(on_policy_train(dir, kTensor));
  EXPECT_EQ(digests_of(generating.wait()), digests_of(train));
}

// While nothing more may be drawn: no trainer takes the groups.
TEST(RolloutRanks, StopTogetherWhileTheyWait) {
  for (const int stopped : {0, 1}) {
    SCOPED_TRACE(stopped);
    const TempDir dir;
    const OptionSet options = on_policy_rollout(dir, joined(kTensor, {"comm.timeout_ns=5s"}));
    const std::vector<RunLog> ranks = stop_when(options, stopped, [&] {
      wait_for_file(dir.file("store/ready"));
      std::this_thread::sleep_for(std::chrono::seconds(stopped == 0 ? 6 : 0));
    });
    for (const RunLog& rank : ranks) EXPECT_EQ(rank.end, Code::kDone);
  }
}

// A store that cannot be read.
TEST(RolloutRanks, FailWithTheStoreOfTheFirst) {
  const TempDir dir;
  real_fs().make_directories(dir.file("store"));
  write_lines(dir.file("store/book"), {"no"});
  const OptionSet options = on_policy_rollout(dir, kTensor);
  std::vector<std::string> failures(2);
  run_ranks(make_ranks(options), [&](std::shared_ptr<Runtime> runtime) {
    const auto rank = static_cast<size_t>(runtime->ranks().rank());
    Rig rig(options, std::move(runtime));
    rig.ends_with = Code::kDataLoss;
    rig.start_and_serve();
    failures[rank] = rig.pipeline().failure()->message;
  });
  EXPECT_TRUE(contains(failures[0], "store/book")) << failures[0];
  EXPECT_EQ(failures[1], "rank 0: " + failures[0]);
}

// A checkpoint that only some of the ranks can read is taken up by none.
TEST(RolloutRanks, TakeUpWhatAllOfThemCanRead) {
  const TempDir dir, other;
  OptionSet saving = tiny_options(dir);
  saving.set_string("checkpoint.dir", dir.file("checkpoints"));
  for (const char* text :
       {"checkpoint.every_steps=1", "pipeline.total_steps=1", "parallel.reduction_parts=2"})
    saving.set_assignment(text);
  EXPECT_EQ(Rig(saving).start_and_serve().steps.size(), 1u);
  OptionSet options = tiny_options(dir);
  for (const std::string& text : kTensor) options.set_assignment(text);
  run_ranks(make_ranks(options), [&](const std::shared_ptr<Runtime>& runtime) {
    const bool leads = runtime->ranks().rank() == 0;
    const auto model = LoadedModel::open(runtime, options, PlanUse::kPipeline);
    const FirstRank first(loop_ranks(*runtime, Settings(options)));
    FollowedWeights all(*model, dir.file("checkpoints"), first);
    FollowedWeights some(*model, leads ? dir.file("checkpoints") : other.file("none"), first);
    EXPECT_TRUE(some.has_newer(true));
    const Error e = expect_error(Code::kNotFound, [&] { some.take_up(); });
    EXPECT_EQ(e.key, "pipeline.weights_dir");
    EXPECT_EQ(model->version(), 0u);
    EXPECT_TRUE(all.has_newer(true));
    all.take_up();
    EXPECT_EQ(model->version(), 1u);
    EXPECT_EQ(all.step(), 1);
  });
}

}  // namespace
}  // namespace rl::testing
