// The two roles of a run over a store: the same bits as a run in one pipeline where nothing is
// generated ahead, ages within the bound, books that close, restarts, filters, and stores of a host
// in place of a directory.
#include <chrono>
#include <filesystem>
#include <thread>

#include "buffer/directory_store.h"
#include "buffer/store_book.h"
#include "role_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::BothRuns;
using testing::Rig;
using testing::rollout_options;
using testing::RolloutRun;
using testing::run_both;
using testing::RunLog;
using testing::train_options;
using Texts = std::vector<std::string>;

const Texts kOnPolicy = {"pipeline.max_staleness=0"};
const Texts kOnPolicyRollout = {"pipeline.max_staleness=0", "pipeline.queue_size=0"};

int64_t num_files(const std::string& root, const std::string& extension) {
  int64_t count = 0;
  if (!std::filesystem::exists(root)) return 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    count += entry.path().extension() == extension;
  }
  return count;
}

StoreBook book_of(const TempDir& dir) {
  const std::string path = dir.file("store/book");
  return StoreBook::decode(read_text_file(real_fs(), path, 1 << 20), path);
}

TEST(RoleRun, OnPolicyItHasTheBitsOfASynchronousRun) {
  const TempDir dir, alone_dir;
  OptionSet alone = testing::asynchronous(alone_dir);
  alone.set_text("pipeline.mode", "sync");
  Rig whole(alone);
  const RunLog log = whole.start_and_serve();
  const BothRuns both =
      run_both(rollout_options(dir, kOnPolicyRollout), train_options(dir, kOnPolicy));
  EXPECT_EQ(both.digest, whole.model().weight_digest());
  EXPECT_EQ(both.rollout_digest, both.digest) << "the last checkpoint was taken up";
  EXPECT_EQ(both.train.series("actor/pg_loss"), log.series("actor/pg_loss"));
  EXPECT_EQ(both.train.series("training/logprob_max_abs_diff"), std::vector<double>(4, 0.0));
  EXPECT_EQ(both.train.series("pipeline/staleness/max"), std::vector<double>(4, 0.0));
}

TEST(RoleRun, SamplesAreNoOlderThanTheBound) {
  const TempDir dir;
  const Texts more = {"pipeline.max_staleness=2", "pipeline.total_steps=8"};
  Texts rollout = more;
  rollout.push_back("pipeline.partial_rollout=true");
  const BothRuns both = run_both(rollout_options(dir, rollout), train_options(dir, more));
  ASSERT_EQ(both.train.steps.size(), 8u);
  for (const double age : both.train.series("pipeline/staleness/max")) EXPECT_LE(age, 2);
  EXPECT_TRUE(both.train.dropped.empty());
  EXPECT_TRUE(both.train.samples.empty()) << "a score event";
  EXPECT_TRUE(both.rollout.steps.empty()) << "a step event";
  const LedgerCounts& trained = both.train_ledger;
  EXPECT_EQ(trained.prompts_drawn, 16);
  EXPECT_EQ(trained.prompts_trained, 16);
  const LedgerCounts& put = both.rollout_ledger;
  EXPECT_GE(put.prompts_trained, 16);
  EXPECT_EQ(put.prompts_drawn, put.prompts_trained + put.dropped());
}

TEST(RoleRun, ACheckpointEmptiesTheStore) {
  const TempDir dir;
  run_both(rollout_options(dir, kOnPolicyRollout), train_options(dir, kOnPolicy));
  EXPECT_EQ(num_files(dir.file("store"), ".rlbuf"), 0);
  const StoreBook book = book_of(dir);
  EXPECT_EQ(book.step(), 4u);
  EXPECT_FALSE(book.has_taken());
  for (uint64_t ordinal = 0; ordinal < 8; ++ordinal) EXPECT_TRUE(book.is_done({3, ordinal}));
  EXPECT_FALSE(book.is_done({3, 8}));
}

TEST(RoleRun, WithoutCheckpointsAStepIsKeptWhenItIsPublished) {
  const TempDir dir;
  OptionSet train = train_options(dir);
  train.unset("checkpoint.dir");
  train.unset("checkpoint.every_steps");
  OptionSet rollout = rollout_options(dir);
  rollout.unset("pipeline.total_steps");
  rollout.unset("pipeline.weights_dir");
  train.set_text("pipeline.total_steps", "2");
  RolloutRun generating(rollout);
  Rig training(train);
  generating.start();
  const RunLog log = training.start_and_serve();
  generating.end();
  EXPECT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(book_of(dir).step(), 2u);
}

// Weights that stay as they are become too old for the trainer.
TEST(RoleRun, GroupsThatAreTooOldAreDroppedAndReplaced) {
  const TempDir dir;
  OptionSet rollout = rollout_options(dir, {"pipeline.max_staleness=1"});
  rollout.unset("pipeline.total_steps");
  rollout.unset("pipeline.weights_dir");
  RolloutRun generating(rollout);
  Rig training(train_options(dir, {"pipeline.max_staleness=1"}));
  generating.start();
  int dropped = 0;
  training.on_event = [&](const Event& event) {
    if (static_cast<EventKind>(event.kind()) != EventKind::kGroupDropped) return;
    EXPECT_EQ(static_cast<const GroupDroppedEvent&>(event).reason, DropReason::kStale);
    if (++dropped == 4) training.pipeline().stop(0);
  };
  const RunLog log = training.start_and_serve();
  generating.end();
  EXPECT_EQ(log.steps.size(), 2u) << "with weights of age 0 and 1";
  EXPECT_GE(dropped, 4);
}

TEST(RoleRun, ATrainerThatResumesHasTheBitsOfOneThatDoesNotEnd) {
  const TempDir dir, whole_dir;
  const BothRuns whole =
      run_both(rollout_options(whole_dir, kOnPolicyRollout), train_options(whole_dir, kOnPolicy));
  RolloutRun generating(rollout_options(dir, kOnPolicyRollout));
  generating.start();
  OptionSet train = train_options(dir, kOnPolicy);
  {
    train.set_text("pipeline.total_steps", "2");
    Rig first(train);
    EXPECT_EQ(first.start_and_serve().steps.size(), 2u);
  }
  train.set_text("pipeline.total_steps", "4");
  train.set_text("checkpoint.resume", "auto");
  Rig second(train);
  EXPECT_EQ(second.start_and_serve().steps.size(), 2u);
  generating.wait();
  EXPECT_EQ(second.model().weight_digest(), whole.digest);
  EXPECT_EQ(second.pipeline().status().ledger.prompts_trained, 8);
}

TEST(RoleRun, AFreshTrainerIsRefusedAUsedStore) {
  const TempDir dir;
  run_both(rollout_options(dir, kOnPolicyRollout), train_options(dir, kOnPolicy));
  std::filesystem::remove_all(dir.file("checkpoints"));
  Rig fresh(train_options(dir, kOnPolicy));
  fresh.ends_with = Code::kFailedPrecondition;
  fresh.start_and_serve();
  EXPECT_TRUE(contains(fresh.pipeline().failure()->message, "step 4 was acknowledged"));
}

TEST(RoleRun, ARolloutThatStartsAgainDrawsWhatNoTrainerHas) {
  const TempDir dir;
  const OptionSet rollout = rollout_options(dir, kOnPolicyRollout);
  {
    RolloutRun killed(rollout);
    int scored = 0;
    killed.rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
      if (++scored == 3) return void(p.stop(0));  // the second group is lost
      testing::score_unless_late(p, s);
    };
    killed.start();
    killed.wait();
  }
  const BothRuns both = run_both(rollout, train_options(dir, kOnPolicy));
  EXPECT_EQ(both.train.steps.size(), 4u);
  for (uint64_t ordinal = 0; ordinal < 8; ++ordinal)
    EXPECT_TRUE(book_of(dir).is_done({3, ordinal}));
}

TEST(RoleRun, TheTrainerFiltersAndTheGroupsAreReplaced) {
  const TempDir dir;
  OptionSet train = train_options(dir, kOnPolicy);
  train.set_text("pipeline.filter", "spread");
  RolloutRun generating(rollout_options(dir, kOnPolicyRollout));
  // Every third group has equal rewards.
  generating.rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    testing::reward_unless_late(p, s, s->ordinal % 3 == 0 ? 0.5 : static_cast<double>(s->slot));
  };
  Rig training(train);
  generating.start();
  const RunLog log = training.start_and_serve();
  generating.wait();
  EXPECT_EQ(log.steps.size(), 4u);
  EXPECT_GE(log.dropped.size(), 3u);
  for (const auto& d : log.dropped) EXPECT_EQ(d->reason, DropReason::kFiltered);
  EXPECT_EQ(training.pipeline().status().ledger.prompts_trained, 8);
}

TEST(RoleRun, ARewardThatFailsIsReplacedByAnotherPrompt) {
  const TempDir dir;
  RolloutRun generating(rollout_options(dir, kOnPolicyRollout));
  generating.rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    if (s->ordinal == 1) {
      if (s->slot == 0) p.fail(s->id, "no");
    } else {
      testing::score_unless_late(p, s);
    }
  };
  Rig training(train_options(dir, kOnPolicy));
  generating.start();
  EXPECT_EQ(training.start_and_serve().steps.size(), 4u);
  EXPECT_EQ(generating.wait().dropped.size(), 1u);
}

// Until both groups of the first step wait for a trainer.
void wait_for_two_groups(const TempDir& dir) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (num_files(dir.file("store/ready"), ".rlbuf") < 2) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "nothing was generated";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// The rollout has put it, and would wait until it is trained on.
TEST(RoleRun, AGroupThatIsDamagedIsSetAside) {
  const TempDir dir;
  RolloutRun generating(rollout_options(dir, kOnPolicyRollout));
  generating.start();
  wait_for_two_groups(dir);
  testing::write_lines(dir.file("store/ready/unit_0000/000003-00000000000000000001.rlbuf"), {"no"});
  Rig training(train_options(dir, kOnPolicy));
  const RunLog log = training.start_and_serve();
  EXPECT_EQ(log.end, Code::kDone);
  EXPECT_EQ(log.series("pipeline/store_damaged"), std::vector<double>(4, 1.0));
  EXPECT_EQ(generating.wait().end, Code::kDone);
  EXPECT_EQ(num_files(dir.file("store/damaged"), ".rlbuf"), 1);
  EXPECT_TRUE(book_of(dir).is_done({3, 1}));
}

TEST(RoleRun, GroupsOfAnotherSizeEndTheRun) {
  const TempDir dir;
  RolloutRun generating(rollout_options(dir, kOnPolicyRollout));
  generating.start();
  Rig training(train_options(dir, {"pipeline.max_staleness=0", "pipeline.samples_per_prompt=3"}));
  training.ends_with = Code::kDataLoss;
  training.start_and_serve();
  EXPECT_EQ(training.pipeline().failure()->key, "pipeline.samples_per_prompt");
}

// The rollout ends with the last checkpoint, which every_steps alone would not make.
TEST(RoleRun, TheLastStepHasACheckpoint) {
  const TempDir dir;
  const Texts more = {"pipeline.max_staleness=1", "pipeline.total_steps=3"};
  Texts train = more;
  train.push_back("checkpoint.every_steps=2");
  const BothRuns both = run_both(rollout_options(dir, more), train_options(dir, train));
  EXPECT_EQ(both.train.checkpoints.size(), 2u) << "of steps 2 and 3";
  EXPECT_EQ(both.rollout.end, Code::kDone);
  EXPECT_EQ(both.rollout_digest, both.digest);
}

TEST(RoleRun, TokensOfLaterWeightsEndTheRun) {
  const TempDir dir;
  run_both(rollout_options(dir, kOnPolicyRollout), train_options(dir, kOnPolicy));
  // The rollout goes on with the weights of step 4; another trainer begins from the model's.
  RolloutRun generating(rollout_options(
      dir, {"pipeline.max_staleness=0", "pipeline.queue_size=0", "pipeline.total_steps=9"}));
  OptionSet train = train_options(dir, kOnPolicy);
  train.set_string("checkpoint.dir", dir.file("others"));
  std::filesystem::remove(dir.file("store/book"));
  Rig other(train);
  other.ends_with = Code::kFailedPrecondition;
  generating.start();
  other.start_and_serve();
  EXPECT_TRUE(contains(other.pipeline().failure()->message, "token of version 4"));
}

// Both count their groups from 0, and each gives half of a step.
TEST(RoleRun, TwoPipelinesGenerateForOne) {
  const TempDir dir;
  Texts share = kOnPolicyRollout;
  share.push_back("pipeline.prompts_per_step=1");
  RolloutRun first(rollout_options(dir, share));
  share.insert(share.end(), {"runtime.instance=4", "runtime.seed=8"});
  RolloutRun second(rollout_options(dir, share));
  OptionSet train = train_options(dir, kOnPolicy);
  train.set_string("buffer.record_dir", dir.file("batches"));
  Rig training(train);
  first.start();
  second.start();
  const RunLog log = training.start_and_serve();
  first.wait();
  second.wait();
  EXPECT_EQ(log.steps.size(), 4u);
  EXPECT_TRUE(log.dropped.empty());
  EXPECT_EQ(log.series("pipeline/staleness/max"), std::vector<double>(4, 0.0));
  for (const uint64_t instance : {3, 4}) {
    for (uint64_t ordinal = 0; ordinal < 4; ++ordinal) {
      EXPECT_TRUE(book_of(dir).is_done({instance, ordinal})) << instance << " " << ordinal;
    }
  }
  EXPECT_EQ(num_files(dir.file("batches"), ".rlbuf"), 4);
}

TEST(RoleRun, ASecondTrainerWithALeaseWaitsForTheFirst) {
  const TempDir dir;
  RolloutRun generating(rollout_options(dir, kOnPolicyRollout));
  OptionSet train = train_options(dir, kOnPolicy);
  train.set_text("buffer.store_lease_ns", "60s");
  train.set_text("checkpoint.resume", "auto");
  auto first = std::make_unique<Rig>(train);
  // Its steps wait until the second one has begun to look.
  OptionSet next = train;
  next.set_string("checkpoint.dir", dir.file("others"));
  Rig second(next);
  generating.start();
  first->pipeline().start();
  while (first->pipeline().status().step == 0) {
    first->pipeline().next(1'000'000);
  }
  second.pipeline().start();
  const RunLog log = first->serve();
  EXPECT_EQ(log.end, Code::kDone);
  EXPECT_EQ(second.pipeline().status().ledger.prompts_drawn, 0) << "the first has the lease";
  first.reset();
  second.ends_with = Code::kFailedPrecondition;  // the store has acknowledged steps of the first
  second.serve();
  EXPECT_TRUE(contains(second.pipeline().failure()->message, "was acknowledged"));
  generating.wait();
}

TEST(RoleRun, AStoreOfTheHostTakesThePlaceOfADirectory) {
  const TempDir dir;
  const auto files = [] {
    return std::shared_ptr<FileSystem>(std::shared_ptr<void>(), &real_fs());
  };
  const auto store = std::make_shared<DirectoryStore>(files, dir.file("hosted"), 1);
  OptionSet rollout = rollout_options(dir, kOnPolicyRollout), train = train_options(dir, kOnPolicy);
  rollout.unset("buffer.store_path");
  train.unset("buffer.store_path");
  const auto open = [](const OptionSet& o) {
    return LoadedModel::open(std::make_shared<Runtime>(o), o, PlanUse::kPipeline);
  };
  Pipeline generating(open(rollout), rollout, store), training(open(train), train, store);
  generating.start();
  training.start();
  size_t steps = 0;
  while (steps < 4) {
    const EventQueue::Popped got = generating.next(1'000'000);
    if (got.status == Code::kOk && static_cast<EventKind>(got.event->kind()) == EventKind::kScore) {
      const SamplePtr s = static_cast<ScoreEvent&>(*got.event).sample;
      generating.score(s->id, testing::low_id_reward(*s));
    }
    const EventQueue::Popped other = training.next(0);
    if (other.status == Code::kDone) break;
    if (other.status == Code::kOk &&
        static_cast<EventKind>(other.event->kind()) == EventKind::kStep)
      ++steps;
  }
  EXPECT_EQ(steps, 4u);
}

}  // namespace
}  // namespace rl
