#include "comm/memory_check.h"

#include <gtest/gtest.h>

#include <deque>

#include "comm/local_ranks.h"
#include "support/expect_error.h"

namespace rl {
namespace {

// Says in turn what is free, and counts releases.
class Scripted final : public FreeMemory {
 public:
  explicit Scripted(std::deque<uint64_t> free) : free_(std::move(free)) {}
  uint64_t bytes() const override {
    const uint64_t next = free_.front();
    if (free_.size() > 1) free_.pop_front();
    return next;
  }
  void release_caches() override { ++releases; }
  int releases = 0;

 private:
  mutable std::deque<uint64_t> free_;
};

TEST(MemoryCheck, AnErrorHasWhatWasFree) {
  const auto memory = std::make_shared<Scripted>(std::deque<uint64_t>{500, 30});
  const Error e = expect_error(Code::kRankLost, [&] {
    run_checked({memory, 500}, [] { throw RankError(1, "rank 1 is gone"); });
  });
  EXPECT_EQ(e.message, "rank 1 is gone; free memory in bytes: 500 before the call, 30 after it");
  EXPECT_EQ(e.location, "rank 1");
  EXPECT_EQ(memory->releases, 0);  // not less than the threshold
}

TEST(MemoryCheck, CachesAreReleasedBelowTheThreshold) {
  const auto memory = std::make_shared<Scripted>(std::deque<uint64_t>{499, 700});
  int calls = 0;
  run_checked({memory, 500}, [&] {
    EXPECT_EQ(memory->releases, 1);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  const Error e = expect_error(Code::kIncompatible, [&] {
    run_checked({memory, 701}, [] { throw Error(Code::kIncompatible, "no"); });
  });
  EXPECT_EQ(memory->releases, 2);
  EXPECT_NE(e.message.find("comm.memory_check_threshold_bytes is 701"), std::string::npos);
}

class Unreadable final : public FreeMemory {
 public:
  uint64_t bytes() const override { throw Error(Code::kIo, "no file descriptor is left"); }
  void release_caches() override { ADD_FAILURE() << "nobody knows that memory is short"; }
};

// The other ranks make the call too.
TEST(MemoryCheck, WhatCannotBeReadKeepsNoRankFromACall) {
  const MemoryCheck check{std::make_shared<Unreadable>(), 500};
  int calls = 0;
  run_checked(check, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
  const Error e = expect_error(Code::kRankLost,
                               [&] { run_checked(check, [] { throw RankError(0, "gone"); }); });
  EXPECT_EQ(e.message, "gone; free memory in bytes: unknown before the call, unknown after it");
}

TEST(MemoryCheck, WithoutOneNothingIsRead) {
  const Error e =
      expect_error(Code::kRankLost, [] { run_checked({}, [] { throw RankError(0, "gone"); }); });
  EXPECT_EQ(e.message, "gone");
}

TEST(MemoryCheck, TheSystemSaysWhatIsFree) {
  const std::shared_ptr<FreeMemory> memory = free_system_memory();
  EXPECT_GT(memory->bytes(), uint64_t{1} << 20);
  memory->release_caches();
}

// Called and started collectives alike.
TEST(MemoryCheck, CollectivesOfAGroupAreChecked) {
  std::vector<std::shared_ptr<Transport>> transports = make_local_transports(2);
  transports[1].reset();
  GroupOptions options{kLongNs};
  options.memory = {std::make_shared<Scripted>(std::deque<uint64_t>{8}), 9};
  comm::Group group(transports[0], options);
  std::vector<float> values(4);
  const Error called =
      expect_error(Code::kRankLost, [&] { group.all_reduce(values_of(std::span(values))); });
  const Error started = expect_error(
      Code::kRankLost, [&] { group.start_all_reduce(values_of(std::span(values))).wait(); });
  for (const Error& e : {called, started})
    EXPECT_NE(e.message.find("free memory in bytes: 8 before"), std::string::npos) << e.message;
}

}  // namespace
}  // namespace rl
