// Groups on their way through a directory: each is trained on once, whatever is delivered twice,
// whoever dies, and whichever file operation fails.
#include "buffer/store_consumer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "buffer/batch_bytes.h"
#include "buffer/directory_store.h"
#include "buffer/store_book.h"
#include "buffer/store_producer.h"
#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/memory_tree.h"
#include "support/sample_groups.h"
#include "support/temp_dir.h"

namespace rl::testing {
namespace {

constexpr int64_t kSize = 2;

std::vector<SamplePtr> group_of(uint64_t instance, uint64_t ordinal) {
  std::vector<SamplePtr> group = random_group(ordinal, kSize).samples;
  for (const SamplePtr& s : group) s->id += instance << 48;
  return group;
}

class Store : public ::testing::Test {
 protected:
  std::shared_ptr<DirectoryStore> store(int64_t units = 1) {
    return std::make_shared<DirectoryStore>(
        [this] { return std::shared_ptr<FileSystem>(std::shared_ptr<void>(), &fs_); }, dir_.path(),
        units);
  }
  std::unique_ptr<StoreConsumer> consumer(int64_t capacity = 100) {
    return std::make_unique<StoreConsumer>(store(), kSize, capacity, true);
  }
  void put(uint64_t ordinal, uint64_t instance = 1, int64_t units = 1) {
    ExperienceBuffer buffer(kSize, kSize);
    buffer.put_all(group_of(instance, ordinal));
    deliver_groups(buffer, *store(units));
    EXPECT_EQ(buffer.num_samples(), 0);
  }
  // The ordinals of a batch.
  static std::vector<uint64_t> take(StoreConsumer& from, uint64_t step, int64_t groups = 100) {
    std::vector<uint64_t> ordinals;
    for (const SamplePtr& s : from.take({.max_groups = groups}, step, 0)) {
      if (s->slot == 0) ordinals.push_back(s->ordinal);
    }
    return ordinals;
  }
  int64_t num_files(const char* state) {
    int64_t count = 0;
    const std::filesystem::path root = std::filesystem::path(dir_.path()) / state;
    if (!std::filesystem::exists(root)) return 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      count += entry.is_regular_file();
    }
    return count;
  }

  using Ordinals = std::vector<uint64_t>;
  TempDir dir_;
  FaultFs fs_;
};

TEST_F(Store, GroupsArriveAsTheyWereAndLeaveOnceTheyAreAcknowledged) {
  put(4);
  put(2);
  const auto c = consumer();
  const std::vector<SamplePtr> batch = c->take({}, 1, 0);
  ASSERT_EQ(batch.size(), 4u);
  EXPECT_TRUE(same_group({2, {batch[0], batch[1]}}, {2, group_of(1, 2)}));
  EXPECT_TRUE(same_group({4, {batch[2], batch[3]}}, {4, group_of(1, 4)}));
  EXPECT_EQ(num_files("claimed"), 2);
  EXPECT_EQ(take(*c, 2), Ordinals{});
  c->acknowledge(1);
  EXPECT_EQ(num_files("claimed") + num_files("ready"), 0);
  EXPECT_EQ(c->counts().acknowledged, 2);
  EXPECT_EQ(c->buffer_counts().taken, 4);
}

TEST_F(Store, AGroupThatComesAgainIsDroppedAndCounted) {
  put(1);
  const auto c = consumer();
  EXPECT_EQ(take(*c, 1), Ordinals{1});
  put(1);  // taken
  put(1, 1, 7);
  EXPECT_EQ(take(*c, 2), Ordinals{});
  EXPECT_EQ(c->counts().duplicates, 2);
  EXPECT_EQ(num_files("claimed"), 2) << "the one that is taken stays until it is acknowledged";
  c->acknowledge(1);
  EXPECT_EQ(num_files("claimed"), 0);
  put(1);  // done
  EXPECT_EQ(take(*c, 2), Ordinals{});
  EXPECT_EQ(c->counts().duplicates, 3);
  EXPECT_EQ(take(*c, 3), Ordinals{});
  EXPECT_EQ(num_files("claimed") + num_files("ready"), 0);
}

TEST_F(Store, InstancesHaveOrdinalsOfTheirOwn) {
  put(1, 1);
  put(1, 2);
  const auto c = consumer();
  EXPECT_EQ(take(*c, 1), Ordinals{1}) << "a batch has an ordinal once";
  EXPECT_EQ(take(*c, 2), Ordinals{1});
  EXPECT_EQ(take(*c, 3), Ordinals{});
  c->acknowledge(2);
  EXPECT_EQ(c->counts().acknowledged, 2);
}

TEST_F(Store, AProcessThatStartsAgainSaysWhichStepsItKept) {
  for (uint64_t ordinal = 0; ordinal < 4; ++ordinal) put(ordinal);
  auto c = consumer();
  EXPECT_EQ(take(*c, 1, 1), Ordinals{0});
  EXPECT_EQ(take(*c, 2, 1), Ordinals{1});
  EXPECT_EQ(take(*c, 3, 1), Ordinals{2});
  c = consumer();
  const Error doubt = expect_error(Code::kFailedPrecondition, [&] { take(*c, 3); });
  EXPECT_TRUE(contains(doubt.message, "steps 1 to 3"));
  expect_error(Code::kFailedPrecondition, [&] { c->acknowledge(1); });
  c->resume(2);
  EXPECT_EQ(take(*c, 3), (Ordinals{2, 3})) << "0 and 1 are in the weights of step 2";
  expect_error(Code::kOutOfRange, [&] { take(*c, 2); });
  c->resume(2);
  EXPECT_EQ(take(*c, 3), (Ordinals{2, 3})) << "the step was undone";
  c->acknowledge(3);
  EXPECT_EQ(num_files("claimed") + num_files("ready"), 0);
  const Error gone = expect_error(Code::kFailedPrecondition, [&] { c->resume(2); });
  EXPECT_TRUE(contains(gone.message, "step 3 was acknowledged"));
}

TEST_F(Store, OneProcessTakes) {
  put(0);
  put(1);
  const auto first = consumer(kSize), second = consumer();
  EXPECT_EQ(take(*first, 1), Ordinals{0});
  second->resume(0);
  EXPECT_EQ(take(*second, 1), (Ordinals{0, 1}));
  const Error fenced = expect_error(Code::kFailedPrecondition, [&] { first->acknowledge(1); });
  EXPECT_TRUE(contains(fenced.message, "another process"));
}

TEST_F(Store, ADamagedGroupIsSetAsideWithPlaceAndOffset) {
  put(0);
  put(1);
  const std::string path = dir_.file("ready/unit_0000/000001-00000000000000000000.rlbuf");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 30);
  const auto c = consumer();
  const Error error = expect_error(Code::kDataLoss, [&] { take(*c, 1); });
  EXPECT_TRUE(contains(error.message, "000001-00000000000000000000.rlbuf offset "));
  EXPECT_TRUE(contains(error.location, "offset "));
  EXPECT_EQ(num_files("damaged"), 1);
  EXPECT_EQ(c->counts().damaged, 1);
  EXPECT_EQ(take(*c, 1), Ordinals{1}) << "the others come";
  const std::string book = store()->read_book();
  EXPECT_TRUE(StoreBook::decode(book, "book").is_done({1, 0})) << "nobody waits for it";
}

TEST_F(Store, WhatIsNotOneCompleteGroupIsSetAside) {
  const auto refused = [&](std::vector<SamplePtr> samples, const char* part) {
    store()->put({1, 0}, encode_samples(samples));
    const auto c = consumer();
    const Error error = expect_error(Code::kDataLoss, [&] { take(*c, 1); });
    EXPECT_TRUE(contains(error.message, part));
  };
  refused({group_of(1, 0)[0]}, "has 1 samples, not one group of 2");
  refused({group_of(1, 0)[0], group_of(1, 1)[1]}, "is not one complete group");
  refused({group_of(1, 0)[0], group_of(2, 0)[1]}, "of instance 2");
  EXPECT_EQ(num_files("damaged"), 1) << "of one name";
  std::vector<SamplePtr> unscored = group_of(1, 1);
  unscored[1]->scored = false;
  unscored[1]->reward = 0;
  unscored[1]->reward_parts.clear();
  store()->put({1, 1}, encode_samples(unscored));
  const auto c = consumer();
  const Error error = expect_error(Code::kFailedPrecondition, [&] { take(*c, 1); });
  EXPECT_TRUE(contains(error.message, "claimed/unit_0000/"));
}

TEST_F(Store, ADamagedBookIsRefused) {
  put(0);
  EXPECT_EQ(take(*consumer(), 1), Ordinals{0});
  std::ofstream(dir_.file("book"), std::ios::app) << "x";
  const Error error = expect_error(Code::kDataLoss, [&] { take(*consumer(), 1); });
  EXPECT_TRUE(contains(error.message, dir_.file("book")));
}

TEST_F(Store, StaleAndDroppedGroupsAreDone) {
  put(0);
  put(1);
  auto c = consumer();
  EXPECT_TRUE(c->take({.min_groups = 2, .min_version = ~uint64_t{0}}, 1, 0).empty());
  EXPECT_EQ(c->buffer_counts().stale, 4);
  put(2);
  EXPECT_TRUE(c->take({.min_groups = 2}, 1, 0).empty());
  EXPECT_EQ(c->drop({}), 2);
  for (const uint64_t ordinal : {0, 1, 2}) put(ordinal);
  EXPECT_EQ(take(*c, 1), Ordinals{});
  EXPECT_EQ(take(*c, 1), Ordinals{});
  EXPECT_EQ(num_files("claimed") + num_files("ready"), 0);
}

TEST_F(Store, NoMoreIsClaimedThanThereIsRoomFor) {
  for (uint64_t ordinal = 0; ordinal < 5; ++ordinal) put(ordinal);
  const auto c = consumer(2 * kSize);
  EXPECT_EQ(take(*c, 1, 1), Ordinals{0});
  EXPECT_EQ(num_files("claimed"), 2);
  EXPECT_EQ(num_files("ready"), 3);
  EXPECT_EQ(take(*c, 2), (Ordinals{1, 2}));
}

TEST_F(Store, AGroupThatTheStoreRefusesStaysInTheBuffer) {
  ExperienceBuffer buffer(kSize, kSize);
  buffer.put_all(group_of(1, 0));
  fs_.arm({.at = 1, .for_ever = true});
  expect_error(Code::kIo, [&] { deliver_groups(buffer, *store()); });
  EXPECT_EQ(buffer.num_samples(), kSize);
  fs_.arm({});
  deliver_groups(buffer, *store());
  EXPECT_EQ(take(*consumer(), 1), Ordinals{0});
}

TEST_F(Store, AWaitSeesAGroupThatComesAndEndsWhenTheBufferIsClosed) {
  const auto c = consumer();
  std::thread putting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    put(0);
  });
  EXPECT_EQ(c->take({}, 1, -1).size(), 2u);
  putting.join();
  std::thread closing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    c->close();
  });
  EXPECT_TRUE(c->take({}, 2, -1).empty());
  closing.join();
}

// One history: a producer that puts ordinals 0 .. n - 1, and a trainer whose checkpoint is a list
// of what each step trained. Each dies when a file operation fails, and starts again from what is
// durable.
class History {
 public:
  History(FaultFs& fs, std::function<std::unique_ptr<StoreConsumer>()> make_consumer,
          std::function<void(uint64_t)> put, unsigned seed)
      : fs_(fs), make_consumer_(std::move(make_consumer)), put_(std::move(put)), rng_(seed) {}

  void run() {
    for (int events = 0; trained_.size() < kGroups; ++events) {
      ASSERT_LT(events, 20000) << "no progress";
      fs_.arm({.at = rng_() % 4 == 0 ? static_cast<int64_t>(1 + rng_() % 40) : 0});
      try {
        rng_() % 2 == 0 ? produce() : train();
      } catch (const Error& e) {
        ASSERT_EQ(e.code, Code::kIo) << e.message;
        consumer_.reset();
        next_ = std::min<uint64_t>(next_, rng_() % (next_ + 1));  // its own record lags behind
      }
    }
    fs_.arm({});
    for (const auto& [ordinal, times] : trained_) EXPECT_EQ(times, 1) << ordinal;
    EXPECT_EQ(trained_.size(), kGroups);
  }

 private:
  static constexpr uint64_t kGroups = 40;

  void produce() {
    if (next_ == kGroups) next_ = rng_() % kGroups;  // again
    put_(next_);
    ++next_;
  }
  // A checkpoint after some of the steps; what came after the last one is forgotten by a crash.
  void train() {
    if (consumer_ == nullptr) {
      std::unique_ptr<StoreConsumer> made = make_consumer_();
      made->resume(durable_step_);
      step_ = durable_step_;
      since_.clear();
      consumer_ = std::move(made);
    }
    const auto groups = static_cast<int64_t>(1 + rng_() % 3);
    for (const SamplePtr& s : consumer_->take({.max_groups = groups}, step_ + 1, 0)) {
      if (s->slot == 0) since_.push_back(s->ordinal);
    }
    ++step_;
    if (rng_() % 3 != 0) return;
    durable_step_ = step_;
    for (const uint64_t ordinal : since_) ++trained_[ordinal];
    since_.clear();
    if (rng_() % 4 != 0) consumer_->acknowledge(step_);
  }

  FaultFs& fs_;
  const std::function<std::unique_ptr<StoreConsumer>()> make_consumer_;
  const std::function<void(uint64_t)> put_;
  std::mt19937 rng_;
  std::unique_ptr<StoreConsumer> consumer_;
  uint64_t next_ = 0, step_ = 0, durable_step_ = 0;
  std::vector<uint64_t> since_;
  std::map<uint64_t, int> trained_;
};

TEST(StoreHistory, TrainsOnEachGroupOnce) {
  const unsigned seeds = std::getenv("RL_LONG") != nullptr ? 300 : 10;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    MemoryTree files;
    FaultFs fs(files);
    const auto store = [&](int64_t units) {
      return std::make_shared<DirectoryStore>(
          [&] { return std::shared_ptr<FileSystem>(std::shared_ptr<void>(), &fs); }, "store",
          units);
    };
    History history(
        fs, [&] { return std::make_unique<StoreConsumer>(store(1), kSize, 8, true); },
        [&](uint64_t ordinal) {
          ExperienceBuffer buffer(kSize, kSize);
          buffer.put_all(group_of(1, ordinal));
          deliver_groups(buffer, *store(1 + static_cast<int64_t>(ordinal % 2)));
        },
        seed);
    history.run();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace rl::testing
