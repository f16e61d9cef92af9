// Trainers of several ranks over a store: the first rank has the store and all ranks its groups, so
// they end in the bits of a synchronous run of the same ranks; they wait, stop, resume, take over
// and fail together.
#include <algorithm>
#include <atomic>
#include <utility>

#include "buffer/directory_store.h"
#include "buffer/store_book.h"
#include "rank_roles.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

struct Layout {
  Texts train, rollout;  // options of each half
};

// What a rollout computes in parts is what its trainer computes in parts.
const std::vector<Layout>& layouts() {
  static const auto* const kLayouts = new std::vector<Layout>{
      {{"parallel.data=2"}, {}},
      {{"parallel.data=3", "parallel.zero_stage=3"}, {}},
      {{"parallel.tensor=2", "parallel.reduction_parts=2"}, {"parallel.reduction_parts=2"}},
      {{"parallel.pipeline=2"}, {}},
      {{"parallel.context=2"}, {}},
      {{"parallel.data=2", "parallel.tensor=2", "parallel.reduction_parts=2",
        "parallel.zero_stage=2"},
       {"parallel.reduction_parts=2"}},
      {{"parallel.data=2", "parallel.pipeline=2", "parallel.zero_stage=3"}, {}},
      {{"parallel.data=2", "parallel.zero_stage=2", "algo.advantage=gae",
        "critic.optimizer.lr=1e-3"},
       {}},
      {{"parallel.tensor=2", "parallel.reduction_parts=2", "algo.advantage=gae",
        "critic.optimizer.lr=1e-3"},
       {"parallel.reduction_parts=2"}},
      {{"parallel.data=2", "algo.objective=distill",
        "model.teacher_path=" + fixture_model("qwen2")},
       {}}};
  return *kLayouts;
}

std::vector<RankRun> train(
    const TempDir& dir, const Layout& layout, const Texts& more = {},
    const Prepare& prepare = [](auto&&...) {}) {
  RolloutRun generating(on_policy_rollout(dir, layout.rollout));
  generating.start();
  std::vector<RankRun> ranks =
      run_pipelines(on_policy_train(dir, joined(layout.train, more)), prepare);
  generating.wait();  // it has followed all steps
  return ranks;
}

void expect_the_first_ranks(const std::vector<RankRun>& ranks) {
  EXPECT_EQ(ranks[0].log.checkpoints.size(), 4u);
  for (size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(ranks[r].log.steps.size(), 4u) << r;
    EXPECT_EQ(ranks[r].ledger.prompts_drawn, 8) << r;
    EXPECT_EQ(ranks[r].ledger.prompts_trained, 8) << r;
    if (r == 0) continue;
    EXPECT_TRUE(ranks[r].log.checkpoints.empty()) << r;
    for (const MetricList& step : ranks[r].log.steps) EXPECT_EQ(step.size(), 0u) << r;
  }
}

TEST(TrainerRanks, HaveTheBitsOfASynchronousRunOfTheSameRanks) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(layout.train[0] + " " + layout.train.back());
    const TempDir dir, alone_dir;
    const std::vector<RankRun> ranks = train(dir, layout);
    const std::vector<RankRun> sync = run_pipelines(synchronous(alone_dir, layout.train));
    EXPECT_EQ(digests_of(ranks), digests_of(sync));
    for (const char* name : {"actor/pg_loss", "actor/grad_norm"})
      EXPECT_EQ(ranks[0].log.series(name), sync[0].log.series(name)) << name;
    EXPECT_EQ(ranks[0].log.series("training/logprob_max_abs_diff"), std::vector<double>(4, 0.0));
    EXPECT_EQ(ranks[0].log.series("pipeline/staleness/max"), std::vector<double>(4, 0.0));
    EXPECT_EQ(ranks[0].log.series("pipeline/prompts_trained"), (std::vector<double>{2, 4, 6, 8}));
    expect_the_first_ranks(ranks);
  }
}

TEST(TrainerRanks, ThatDivideAModelHaveTheBitsOfOne) {
  const TempDir dir, one_dir;
  const Texts whole = {"checkpoint.contents=model,optimizer,extra,hf_model"};
  const std::vector<RankRun> stages = train(dir, {{"parallel.pipeline=2"}, {}}, whole);
  const std::vector<RankRun> one = train(one_dir, {}, whole);
  EXPECT_EQ(stages[0].log.series("actor/grad_norm"), one[0].log.series("actor/grad_norm"));
  expect_same_files(stages[0].log.checkpoints.back()->path, one[0].log.checkpoints.back()->path);
}

// One rank has two micro-batches of a step and the other one has one.
TEST(TrainerRanks, NeedNotHaveEquallyManyMicroBatches) {
  const Texts uneven = {"pipeline.prompts_per_step=1", "pipeline.samples_per_prompt=3"};
  const Layout layout{joined(uneven, {"parallel.data=2", "trainer.dynamic_batching=false",
                                      "trainer.micro_batch_size=1"}),
                      uneven};
  const TempDir dir, alone_dir;
  OptionSet options = on_policy_train(dir, layout.train);
  options.unset("trainer.max_tokens_per_device");
  OptionSet sync_options = synchronous(alone_dir);
  sync_options.unset("trainer.max_tokens_per_device");
  for (const std::string& text : layout.train) sync_options.set_assignment(text);
  RolloutRun generating(on_policy_rollout(dir, uneven));
  generating.start();
  const std::vector<RankRun> ranks = run_pipelines(options);
  EXPECT_EQ(digests_of(ranks), digests_of(run_pipelines(sync_options)));
  EXPECT_EQ(ranks[0].log.series("training/micro_batches"), std::vector<double>(4, 3.0));
}

// Every rank has all groups, so filters judge what one rank would.
TEST(TrainerRanks, FilterTheSameGroups) {
  const auto run = [](const TempDir& dir, const Texts& more) {
    RolloutRun generating(on_policy_rollout(dir));
    generating.rig.on_score = [](Pipeline& p, const SamplePtr& s) {
      reward_unless_late(p, s, s->ordinal % 3 == 0 ? 0.5 : static_cast<double>(s->slot));
    };
    generating.start();
    return run_pipelines(on_policy_train(dir, joined({"pipeline.filter=spread"}, more)));
  };
  const TempDir dir, one_dir;
  const std::vector<RankRun> ranks = run(dir, {"parallel.data=2"});
  const std::vector<RankRun> one = run(one_dir, {});
  EXPECT_GE(ranks[0].log.dropped.size(), 3u);
  EXPECT_EQ(ranks[0].log.dropped.size(), one[0].log.dropped.size());
  EXPECT_TRUE(ranks[1].log.dropped.empty());
  for (const RankRun& rank : ranks) EXPECT_EQ(rank.ledger.dropped(), one[0].ledger.dropped());
  EXPECT_EQ(ranks[0].digest, ranks[1].digest);
}

TEST(TrainerRanks, ThatResumeHaveTheBitsOfThoseThatDoNotEnd) {
  for (const Texts& layout : {Texts{"parallel.data=2", "parallel.zero_stage=3"},
                              Texts{"parallel.data=2", "checkpoint.async=true"}}) {
    SCOPED_TRACE(layout[1]);
    const TempDir dir, whole_dir;
    const std::vector<RankRun> whole = train(whole_dir, {layout, {}});
    RolloutRun generating(on_policy_rollout(dir));
    generating.start();
    OptionSet options = on_policy_train(dir, layout);
    options.set_text("pipeline.total_steps", "2");
    EXPECT_EQ(run_pipelines(options)[1].log.steps.size(), 2u);
    options.set_text("pipeline.total_steps", "4");
    options.set_text("checkpoint.resume", "auto");
    const std::vector<RankRun> second = run_pipelines(options);
    generating.wait();
    EXPECT_EQ(digests_of(second), digests_of(whole));
    for (const RankRun& rank : second) {
      EXPECT_EQ(rank.resumed_from, dir.file("checkpoints/step_000002"));
      EXPECT_EQ(rank.ledger.prompts_trained, 8);
    }
  }
}

// The second trainer is made and started while the first one has the lease.
TEST(TrainerRanks, TakeOverTogether) {
  const Texts layout = {"parallel.data=2", "parallel.zero_stage=3", "buffer.store_lease_ns=60s",
                        "checkpoint.resume=auto"};
  const TempDir dir, whole_dir;
  const std::vector<RankRun> whole = train(whole_dir, {layout, {}});
  OptionSet options = on_policy_train(dir, layout);
  OptionSet half = options;
  half.set_text("pipeline.total_steps", "2");
  RankedRun first(half, [](auto&&...) {});
  first.start();
  wait_for_file(dir.file("store/book"));
  std::atomic<int> made = 0;
  RankedRun second(options, [&](Rig& rig, int) {
    EXPECT_TRUE(rig.pipeline().resumed_from().empty()) << "nothing is generated yet";
    ++made;
  });
  second.start();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (made < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  RolloutRun generating(on_policy_rollout(dir));
  generating.start();
  EXPECT_EQ(first.wait()[1].log.steps.size(), 2u);
  for (const RankRun& rank : second.wait()) {
    EXPECT_EQ(rank.resumed_from, dir.file("checkpoints/step_000002"));
    EXPECT_EQ(rank.log.steps.size(), 2u);
    EXPECT_EQ(rank.ledger.prompts_trained, 8);
  }
  EXPECT_EQ(digests_of(second.wait()), digests_of(whole));
}

// What the failure of each rank says.
std::vector<Error> failures_of(
    const OptionSet& options, Code first, Code others,
    const std::function<void(Rig&, int)>& prepare = [](auto&&...) {}) {
  std::vector<std::shared_ptr<Runtime>> runtimes = make_ranks(options);
  std::vector<Error> failures(runtimes.size(), Error(Code::kOk, ""));
  run_ranks(std::move(runtimes), [&](std::shared_ptr<Runtime> runtime) {
    const int rank = runtime->ranks().rank();
    Rig rig(options, std::move(runtime));
    prepare(rig, rank);
    rig.ends_with = rank == 0 ? first : others;
    rig.start_and_serve();
    if (const auto failure = rig.pipeline().failure(); failure != nullptr)
      failures[static_cast<size_t>(rank)] = *failure;
  });
  return failures;
}

TEST(TrainerRanks, FailWithTheStoreOfTheFirst) {
  const TempDir dir;
  RolloutRun generating(on_policy_rollout(dir));
  generating.start();
  const std::vector<Error> failures =
      failures_of(on_policy_train(dir, {"parallel.data=2", "pipeline.samples_per_prompt=3"}),
                  Code::kDataLoss, Code::kDataLoss);
  EXPECT_TRUE(contains(failures[0].message, "not one group of 3")) << failures[0].message;
  EXPECT_EQ(failures[1].message, "rank 0: " + failures[0].message);
  EXPECT_EQ(failures[1].location, "rank 0");
  for (const Error& e : failures) EXPECT_EQ(e.key, "pipeline.samples_per_prompt");
}

TEST(TrainerRanks, FailWhenTheStoreHasLaterSteps) {
  const TempDir dir;
  train(dir, {{"parallel.data=2"}, {}});
  std::filesystem::remove_all(dir.file("checkpoints"));
  const std::vector<Error> failures =
      failures_of(on_policy_train(dir, {"parallel.data=2"}), Code::kFailedPrecondition,
                  Code::kFailedPrecondition);
  for (const Error& e : failures)
    EXPECT_TRUE(contains(e.message, "step 4 was acknowledged")) << e.message;
}

// As a process does that begins to take.
void take_over(const TempDir& dir) {
  const std::string path = dir.file("store/book");
  StoreBook book = StoreBook::decode(read_text_file(real_fs(), path, 1 << 20), path);
  ++book.opening;
  write_file_atomically(real_fs(), path, book.encode());
}

// The store is another process's when the second step ends: nobody saves it.
TEST(TrainerRanks, FailBeforeTheySaveWhatIsNotTheirs) {
  for (const char* stage : {"parallel.zero_stage=0", "parallel.zero_stage=2"}) {
    SCOPED_TRACE(stage);
    const TempDir dir;
    RolloutRun generating(on_policy_rollout(dir));
    generating.start();
    const OptionSet options =
        on_policy_train(dir, {"parallel.data=2", "algo.advantage=custom",
                              "pipeline.discard_zero_advantage=false", stage});
    const auto prepare = [&](Rig& rig, int rank) {
      rig.pipeline().set_custom_advantage(
          [&, rank](const AlgoArrays& in, std::span<double> advantages) {
            std::ranges::fill(advantages, 0.25);
            EXPECT_EQ(in.lengths.size(), 4u);
            if (rank == 0 && rig.pipeline().status().step == 1) take_over(dir);
          });
    };
    const std::vector<Error> failures =
        failures_of(options, Code::kFailedPrecondition, Code::kRankLost, prepare);
    EXPECT_TRUE(contains(failures[0].message, "another process takes from this store"));
    EXPECT_EQ(failures[1].location, "rank 0");
    EXPECT_TRUE(contains(failures[1].message, "another process takes from this store"))
        << failures[1].message;
    EXPECT_EQ(real_fs().list(dir.file("checkpoints")), std::vector<std::string>{"step_000001"});
  }
}

// While they wait for groups that never come.
TEST(TrainerRanks, StopTogetherWhileTheyWait) {
  for (const int stopped : {0, 1, 3}) {
    SCOPED_TRACE(stopped);
    const TempDir dir;
    const OptionSet options = on_policy_train(
        dir, {"parallel.data=2", "parallel.tensor=2", "parallel.reduction_parts=2"});
    const std::vector<RunLog> ranks = stop_when(options, stopped, [&] {
      wait_for_file(dir.file("store/book"));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    for (const RunLog& rank : ranks) {
      EXPECT_EQ(rank.end, Code::kDone);
      EXPECT_TRUE(rank.steps.empty());
    }
  }
}

TEST(TrainerRanks, StopTogetherAfterAStep) {
  const TempDir dir;
  RolloutRun generating(on_policy_rollout(dir, {"pipeline.total_steps=100000"}));
  generating.start();
  expect_a_stop_ends_all(on_policy_train(dir, {"parallel.data=2"}), 1);
}

// Ranks with other micro-batches do not meet within an update, which no deadline ends.
TEST(TrainerRanks, FinishAnUpdateWithinWhichADeadlinePasses) {
  const TempDir dir;
  RolloutRun generating(on_policy_rollout(dir));
  generating.start();
  const std::vector<RankRun> ranks = run_pipelines(
      on_policy_train(dir, {"parallel.data=2", "algo.advantage=custom"}), [](Rig& rig, int rank) {
        rig.pipeline().set_custom_advantage(
            [&rig, rank](const AlgoArrays&, std::span<double> advantages) {
              std::ranges::fill(advantages, 0.5);
              if (rank == 1) rig.pipeline().stop(1);
            });
      });
  for (const RankRun& rank : ranks) {
    EXPECT_EQ(rank.log.end, Code::kDone);
    EXPECT_EQ(rank.log.steps.size(), 1u);
  }
}

TEST(TrainerRanks, WaitLongerThanForEachOther) {
  const TempDir dir;
  RankedRun training(on_policy_train(dir, {"parallel.data=2", "comm.timeout_ns=5s"}),
                     [](auto&&...) {});
  training.start();
  wait_for_file(dir.file("store/book"));
  std::this_thread::sleep_for(std::chrono::seconds(6));
  RolloutRun generating(on_policy_rollout(dir));
  generating.start();
  for (const RankRun& rank : training.wait()) EXPECT_EQ(rank.log.steps.size(), 4u);
}

TEST(TrainerRanks, SaveWhenTheirOptionsSay) {
  const TempDir dir;
  train(dir, {{"parallel.data=2"}, {}}, {}, [](Rig& rig, int rank) {
    if (rank == 1) return;
    rig.on_step = [](Pipeline& p, const StepEvent& e) {
      if (e.step != 1) return;
      EXPECT_EQ(expect_error(Code::kUnsupported, [&] { p.checkpoint(kSecond); }).key,
                "parallel.data");
    };
  });
}

// The host gives its store to the first rank.
TEST(TrainerRanks, TheFirstHasTheStoreOfTheHost) {
  const TempDir dir;
  OptionSet options = on_policy_train(dir, {"parallel.data=2"}), rollout = on_policy_rollout(dir);
  options.unset("buffer.store_path");
  const auto files = [] {
    return std::shared_ptr<FileSystem>(std::shared_ptr<void>(), &real_fs());
  };
  const auto store = std::make_shared<DirectoryStore>(files, dir.file("store"), 1);
  RolloutRun generating(rollout);
  generating.start();
  run_ranks(make_ranks(options), [&](const std::shared_ptr<Runtime>& runtime) {
    const int rank = runtime->ranks().rank();
    const auto model = LoadedModel::open(runtime, options, PlanUse::kPipeline);
    if (rank == 1) {
      const Error e = expect_error(Code::kConflict, [&] { Pipeline(model, options, store); });
      EXPECT_EQ(e.other_key, "store");
      EXPECT_EQ(e.location, "rank 1");
    }
    Pipeline pipeline(model, options, rank == 0 ? store : nullptr);
    pipeline.start();
    uint64_t steps = 0;
    for (;;) {
      const EventQueue::Popped got = pipeline.next(60 * kSecond);
      ASSERT_TRUE(got.status == Code::kOk || got.status == Code::kDone);
      if (got.status == Code::kDone) break;
      if (static_cast<EventKind>(got.event->kind()) == EventKind::kStep) ++steps;
    }
    EXPECT_EQ(steps, 4u);
  });
}

}  // namespace
}  // namespace rl::testing
