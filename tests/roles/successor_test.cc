// A trainer over a store that another process has taken over while it trained: it saves nothing,
// and what the other one has saved stays as it is.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "buffer/store_book.h"
#include "role_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::Rig;
using testing::rollout_options;
using testing::RolloutRun;
using testing::train_options;

class Successor : public ::testing::Test {
 protected:
  // A run of which something else happens within the update of its second step.
  Error trained_until(const std::function<void()>& in_second_step, Code end,
                      const std::string& more = "buffer.store_lease_ns=600s") {
    // Of the weights that the model has: enough for two steps.
    OptionSet rollout = rollout_options(dir_, {"pipeline.max_staleness=1"});
    rollout.unset("pipeline.total_steps");
    rollout.unset("pipeline.weights_dir");
    RolloutRun generating(rollout);
    Rig training(
        train_options(dir_, {"pipeline.max_staleness=1", "algo.policy_loss=custom", more}));
    bool happened = false;
    training.pipeline().set_custom_loss(
        [&](const AlgoArrays&, std::span<const double>, std::span<double>) {
          if (training.pipeline().status().step == 1 && !std::exchange(happened, true)) {
            wait_for_first_checkpoint();
            in_second_step();
          }
          return 0.0;
        });
    training.ends_with = end;
    generating.start();
    training.start_and_serve();
    return *training.pipeline().failure();
  }
  // checkpoint.async writes it while the second step trains.
  void wait_for_first_checkpoint() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!real_fs().exists(dir_.file("checkpoints/step_000001"))) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // As a process does that begins to take once the lease has lapsed.
  void take_over() const {
    const std::string path = dir_.file("store/book");
    StoreBook book = StoreBook::decode(read_text_file(real_fs(), path, 1 << 20), path);
    ++book.opening;
    book.lease = {.holder = book.lease.holder + 1, .beat = 1, .ns = book.lease.ns};
    write_file_atomically(real_fs(), path, book.encode());
  }
  void save_second_step() const {
    real_fs().make_directories(dir_.file("checkpoints/step_000002/whole"));
  }
  void expect_saved() const {
    const std::vector<std::string> both = {"step_000001", "step_000002"};
    EXPECT_EQ(real_fs().list(dir_.file("checkpoints")), both);
    EXPECT_TRUE(real_fs().exists(dir_.file("checkpoints/step_000002/whole")));
  }

  TempDir dir_;
};

TEST_F(Successor, KeepsItsCheckpoints) {
  const Error error = trained_until(
      [&] {
        take_over();
        save_second_step();
      },
      Code::kFailedPrecondition);
  EXPECT_TRUE(contains(error.message, "another process takes from this store"));
  expect_saved();
}

TEST_F(Successor, KeepsItsCheckpointsThatAreWrittenApart) {
  const Error error = trained_until(
      [&] {
        take_over();
        save_second_step();
      },
      Code::kFailedPrecondition, "checkpoint.async=true");
  EXPECT_TRUE(contains(error.message, "another process takes from this store"));
  expect_saved();
}

TEST_F(Successor, HasTheDirectoryBeforeItsFirstCheckpoint) {
  trained_until([&] { take_over(); }, Code::kFailedPrecondition);
  EXPECT_EQ(real_fs().list(dir_.file("checkpoints")), std::vector<std::string>{"step_000001"});
}

// Whoever wrote it had the store, though its book does not say so any more.
TEST_F(Successor, ACheckpointAfterTheFirstStepIsNotReplaced) {
  const Error error = trained_until([&] { save_second_step(); }, Code::kAlreadyExists);
  EXPECT_TRUE(contains(error.message, "step_000002 already exists"));
  expect_saved();
}

// Two trainers with the same options; the second is made before the first has done a step or after,
// and started while it trains.
TEST_F(Successor, GoesOnFromTheNewestCheckpoint) {
  const std::vector<std::string> on_policy = {"pipeline.max_staleness=0", "pipeline.queue_size=0"};
  const testing::BothRuns whole = testing::run_both(
      rollout_options(dir_, on_policy), train_options(dir_, {"pipeline.max_staleness=0"}));
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    const TempDir dir;
    RolloutRun generating(rollout_options(dir, on_policy));
    OptionSet options =
        train_options(dir, {"pipeline.max_staleness=0", "buffer.store_lease_ns=60s",
                            "checkpoint.resume=auto", "metrics.jsonl=" + dir.file("metrics")});
    OptionSet half = options;
    half.set_text("pipeline.total_steps", "2");
    auto first = std::make_unique<Rig>(half);
    std::unique_ptr<Rig> second;
    if (!late) second = std::make_unique<Rig>(options);
    first->pipeline().start();
    generating.start();
    while (first->pipeline().status().step == 0) first->pipeline().next(1'000'000);
    if (late) second = std::make_unique<Rig>(options);
    second->pipeline().start();
    first->serve();
    EXPECT_TRUE(late || second->pipeline().resumed_from().empty()) << "the first has the lease";
    EXPECT_LT(second->pipeline().status().step, 2u);
    first.reset();
    EXPECT_EQ(second->serve().steps.size(), 2u);
    generating.wait();
    EXPECT_EQ(second->pipeline().resumed_from(), dir.file("checkpoints/step_000002"));
    EXPECT_EQ(second->model().weight_digest(), whole.digest);
    EXPECT_EQ(second->pipeline().status().ledger.prompts_trained, 8);
    const std::string lines = read_text_file(real_fs(), dir.file("metrics"), 1 << 20);
    EXPECT_EQ(std::ranges::count(lines, '\n'), 4) << "the steps of both";
  }
}

TEST_F(Successor, ThatResumesFromNothingIsRefusedWhatIsThereThen) {
  RolloutRun generating(
      rollout_options(dir_, {"pipeline.max_staleness=0", "pipeline.queue_size=0"}));
  const OptionSet options =
      train_options(dir_, {"pipeline.max_staleness=0", "buffer.store_lease_ns=60s"});
  auto first = std::make_unique<Rig>(options);
  Rig second(options);
  generating.start();
  first->pipeline().start();
  while (first->pipeline().status().step == 0) first->pipeline().next(1'000'000);
  second.pipeline().start();
  first->serve();
  first.reset();
  second.ends_with = Code::kAlreadyExists;
  EXPECT_TRUE(second.serve().steps.empty());
  EXPECT_EQ(second.pipeline().failure()->key, "checkpoint.dir");
}

TEST_F(Successor, ThatIsStoppedWhileItWaitsEnds) {
  const OptionSet options =
      train_options(dir_, {"buffer.store_lease_ns=60s", "checkpoint.resume=auto"});
  Rig first(options), second(options);
  first.pipeline().start();
  while (!real_fs().exists(dir_.file("store/book"))) first.pipeline().next(1'000'000);
  second.pipeline().start();
  EXPECT_TRUE(second.pipeline().stop(60 * testing::kSecond));
  EXPECT_EQ(second.serve().end, Code::kDone);
  EXPECT_TRUE(first.pipeline().stop(60 * testing::kSecond));
}

}  // namespace
}  // namespace rl
