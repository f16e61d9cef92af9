// Two consumers of one store with a lease: one takes, the other one waits until the first has ended
// or is dead, and gets what that had claimed. A group is never given to both.
#include "buffer/store_lease.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "buffer/store_consumer.h"
#include "buffer/store_producer.h"
#include "support/expect_error.h"
#include "support/sample_groups.h"

namespace rl::testing {
namespace {

// A store in memory writes at once, so that a busy machine keeps these times.
constexpr int64_t kSize = 2, kMs = 1'000'000, kLong = 600'000 * kMs, kShort = 2000 * kMs;

class MemoryStore final : public ExperienceStore {
 public:
  void put(const GroupKey& key, std::string_view group) override {
    const std::lock_guard lock(mutex_);
    ready_[group_name(key)] = group;
  }
  std::vector<StoredGroup> claim(int64_t most) override {
    const std::lock_guard lock(mutex_);
    std::vector<StoredGroup> out;
    while (!ready_.empty() && static_cast<int64_t>(out.size()) < most) {
      out.push_back({ready_.begin()->first, ready_.begin()->second});
      claimed_.insert(ready_.extract(ready_.begin()));
    }
    return out;
  }
  void recover() override {
    const std::lock_guard lock(mutex_);
    ready_.merge(claimed_);
  }
  void acknowledge(const std::string& token) override {
    const std::lock_guard lock(mutex_);
    ready_.erase(token);
    claimed_.erase(token);
  }
  void set_aside(const std::string& token) override { acknowledge(token); }
  std::string read_book() override {
    const std::lock_guard lock(mutex_);
    return book_;
  }
  void write_book(std::string_view book, FunctionRef<void()> check) override {
    check();
    const std::lock_guard lock(mutex_);
    book_ = book;
  }
  std::string place(const std::string& token) const override { return token; }
  std::string book_place() const override { return "book"; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> ready_, claimed_;
  std::string book_;
};

// A process that can die: then nothing of it reaches the store any more.
class MortalStore final : public ExperienceStore {
 public:
  explicit MortalStore(std::shared_ptr<ExperienceStore> store) : store_(std::move(store)) {}
  std::atomic<bool> dead = false;
  std::atomic<int64_t> stall_ns = 0;  // of a write of the book, before it appears
  std::atomic<bool> stalls = false;

  void put(const GroupKey& key, std::string_view group) override { alive().put(key, group); }
  std::vector<StoredGroup> claim(int64_t most) override { return alive().claim(most); }
  void recover() override { alive().recover(); }
  void acknowledge(const std::string& token) override { alive().acknowledge(token); }
  void set_aside(const std::string& token) override { alive().set_aside(token); }
  std::string read_book() override { return alive().read_book(); }
  void write_book(std::string_view book, FunctionRef<void()> check) override {
    alive().write_book(book, [&] {
      const int64_t wait_ns = stall_ns.exchange(0);
      stalls = wait_ns > 0;
      std::this_thread::sleep_for(std::chrono::nanoseconds(wait_ns));
      stalls = false;
      check();
    });
  }
  std::string place(const std::string& token) const override { return store_->place(token); }
  std::string book_place() const override { return store_->book_place(); }

 private:
  ExperienceStore& alive() {
    if (dead) throw Error(Code::kIo, "the process is dead");
    return *store_;
  }
  const std::shared_ptr<ExperienceStore> store_;
};

class Lease : public ::testing::Test {
 protected:
  struct Taker {
    std::shared_ptr<MortalStore> store;
    std::unique_ptr<StoreConsumer> consumer;
  };
  Taker taker(int64_t lease_ns, int64_t capacity = 100) {
    auto store = std::make_shared<MortalStore>(memory_);
    auto consumer = std::make_unique<StoreConsumer>(store, kSize, capacity, true, lease_ns);
    return {std::move(store), std::move(consumer)};
  }
  void put(uint64_t ordinal) {
    ExperienceBuffer buffer(kSize, kSize);
    std::vector<SamplePtr> group = random_group(ordinal, kSize).samples;
    for (const SamplePtr& s : group) s->id += uint64_t{1} << 48;
    buffer.put_all(std::move(group));
    deliver_groups(buffer, *memory_);
  }
  static void resume_once_it_lapses(Taker& next) {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
      try {
        return next.consumer->resume(0);
      } catch (const Error& e) {
        ASSERT_EQ(e.code, Code::kBusy) << e.message;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  static std::vector<uint64_t> take(Taker& from, uint64_t step, int64_t timeout_ns = 0) {
    std::vector<uint64_t> ordinals;
    for (const SamplePtr& s : from.consumer->take({.max_groups = 1}, step, timeout_ns)) {
      if (s->slot == 0) ordinals.push_back(s->ordinal);
    }
    return ordinals;
  }

 private:
  const std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
};

using Ordinals = std::vector<uint64_t>;

TEST_F(Lease, TheSecondOneWaitsForTheEndOfTheFirst) {
  for (const uint64_t ordinal : {0, 1, 2}) put(ordinal);
  Taker first = taker(kLong), second = taker(kLong);
  EXPECT_EQ(take(first, 1), Ordinals({0}));
  EXPECT_EQ(take(second, 1, 50 * kMs), Ordinals());
  EXPECT_TRUE(contains(expect_error(Code::kBusy, [&] { second.consumer->resume(0); }).message,
                       "has the lease"));
  expect_error(Code::kBusy, [&] { second.consumer->acknowledge(1); });
  EXPECT_EQ(take(first, 2), Ordinals({1}));
  first.consumer->acknowledge(1);
  first.consumer.reset();
  second.consumer->resume(1);
  EXPECT_EQ(take(second, 2), Ordinals({1})) << "the first took it for a step that was not kept";
  EXPECT_EQ(take(second, 3), Ordinals({2}));
}

TEST_F(Lease, ClaimsOfADeadOneComeBackOnceItsLeaseHasLapsed) {
  for (const uint64_t ordinal : {0, 1}) put(ordinal);
  Taker first = taker(kShort), second = taker(kShort);
  EXPECT_EQ(take(first, 1), Ordinals({0}));
  expect_error(Code::kBusy, [&] { second.consumer->resume(0); });
  first.store->dead = true;
  const auto begin = std::chrono::steady_clock::now();
  resume_once_it_lapses(second);
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(waited, std::chrono::nanoseconds(kShort / 2)) << "it writes every quarter of it";
  EXPECT_EQ(take(second, 1), Ordinals({0}));
  EXPECT_EQ(take(second, 2), Ordinals({1}));
}

TEST_F(Lease, OneThatWritesOnKeepsItLongerThanItLasts) {
  put(0);
  Taker first = taker(kShort), second = taker(kShort);
  EXPECT_EQ(take(first, 1), Ordinals({0}));
  EXPECT_EQ(take(second, 1, 2 * kShort), Ordinals());
  put(1);
  EXPECT_EQ(take(first, 2), Ordinals({1}));
}

TEST_F(Lease, OneThatLostItTakesNothing) {
  for (const uint64_t ordinal : {0, 1}) put(ordinal);
  Taker first = taker(kShort);
  EXPECT_EQ(take(first, 1), Ordinals({0}));
  first.store->dead = true;
  std::this_thread::sleep_for(std::chrono::nanoseconds(2 * kShort));
  first.store->dead = false;
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { take(first, 2); }).key,
            "buffer.store_lease_ns");
  expect_error(Code::kFailedPrecondition, [&] { first.consumer->acknowledge(1); });
}

TEST_F(Lease, AWriteThatStallsLeavesTheBookToTheNextOne) {
  for (const uint64_t ordinal : {0, 1}) put(ordinal);
  Taker first = taker(kShort), second = taker(kLong);
  EXPECT_EQ(take(first, 1), Ordinals({0}));
  first.store->stall_ns = 2 * kShort;
  resume_once_it_lapses(second);
  while (first.store->stalls) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(expect_error(Code::kFailedPrecondition, [&] { take(first, 2); }).key,
            "buffer.store_lease_ns");
  EXPECT_EQ(take(second, 1), Ordinals({0}));
}

// Without a lease the latest takes; with one it waits for that of the other all the same.
TEST_F(Lease, TheBookSaysWhoHasOne) {
  put(0);
  Taker first = taker(0), second = taker(kLong), third = taker(0);
  EXPECT_EQ(take(first, 1), Ordinals({0}));
  second.consumer->resume(0);
  expect_error(Code::kFailedPrecondition, [&] { take(first, 2); });
  expect_error(Code::kBusy, [&] { third.consumer->resume(0); });
}

// Several begin at the same moment, again and again: each group is trained on once.
TEST_F(Lease, OfSeveralThatBeginAtOnceOneTakes) {
  constexpr uint64_t kGroups = 6;
  std::set<uint64_t> taken;
  std::mutex mutex;
  for (uint64_t ordinal = 0; ordinal < kGroups; ++ordinal) put(ordinal);
  for (uint64_t step = 1; step <= kGroups; ++step) {
    std::vector<std::thread> threads;
    std::atomic<int> winners = 0;
    std::atomic<int> ready = 0;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        Taker one = taker(2 * kShort, kSize);
        ++ready;
        while (ready < 3) std::this_thread::yield();
        try {
          one.consumer->resume(step - 1);
          for (const uint64_t ordinal : take(one, step)) {
            const std::lock_guard lock(mutex);
            EXPECT_TRUE(taken.insert(ordinal).second) << "group " << ordinal;
          }
          one.consumer->acknowledge(step);
          ++winners;
        } catch (const Error& e) {
          // Later than the winner, which may have ended meanwhile.
          EXPECT_TRUE(e.code == Code::kBusy || e.code == Code::kFailedPrecondition) << e.message;
        }
        ++ready;
        while (ready < 6) std::this_thread::yield();
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(winners, 1) << "of step " << step;
  }
  EXPECT_EQ(taken.size(), kGroups);
}

TEST(LeaseWatch, ComparesWithWhatItSawByItsOwnClock) {
  LeaseWatch watch;
  EXPECT_TRUE(watch.is_over({}, 0)) << "there is none";
  EXPECT_FALSE(watch.is_over({7, 1, 100}, 1000));
  EXPECT_FALSE(watch.is_over({7, 1, 100}, 1100));
  EXPECT_FALSE(watch.is_over({7, 2, 100}, 1150)) << "it was renewed";
  EXPECT_FALSE(watch.is_over({7, 2, 100}, 1250));
  EXPECT_TRUE(watch.is_over({7, 2, 100}, 1251));
  EXPECT_TRUE(watch.is_over({0, 3, 100}, 1252)) << "it has ended";
}

}  // namespace
}  // namespace rl::testing
