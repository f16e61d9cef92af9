// Arenas: layout of a plan, the ledger, and every way a reservation can fail.
#include "core/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "support/expect_error.h"
#include "support/resident_memory.h"

namespace rl {
namespace {

// Fails the n-th reservation (from 1), serves the others from the system.
class FailNth final : public MemorySource {
 public:
  explicit FailNth(int n) : n_(n) {}
  void* reserve(uint64_t bytes) override {
    if (++calls_ == n_) {
      errno = ENOMEM;
      return nullptr;
    }
    ++live_;
    return system_memory().reserve(bytes);
  }
  void release(void* data, uint64_t bytes) noexcept override {
    --live_;
    system_memory().release(data, bytes);
  }
  void decommit(void* data, uint64_t bytes) noexcept override {
    system_memory().decommit(data, bytes);
  }
  int live() const { return live_; }

 private:
  const int n_;
  int calls_ = 0;
  int live_ = 0;
};

TEST(ArenaPlan, RegionsAreAlignedAndNeverOverlap) {
  ArenaPlan plan;
  EXPECT_EQ(plan.add_region("a", 1), 0u);
  EXPECT_EQ(plan.add_region("b", 64), 64u);
  EXPECT_EQ(plan.add_region("c", 65), 128u);
  EXPECT_EQ(plan.add_region("empty", 0), 256u);
  EXPECT_EQ(plan.total_bytes(), 256u);
  ASSERT_EQ(plan.regions().size(), 4u);
  EXPECT_EQ(plan.regions()[2].name, "c");
  EXPECT_EQ(plan.regions()[2].bytes, 65u);
}

TEST(ArenaPlan, RefusesATotalThatWraps) {
  ArenaPlan plan;
  plan.add_region("half", uint64_t{1} << 63);
  expect_error(Code::kOutOfRange, [&] { plan.add_region("rest", uint64_t{1} << 63); });
  EXPECT_EQ(plan.total_bytes(), uint64_t{1} << 63);
}

TEST(Arena, StartsAsZerosAndIsWritableToTheLastByte) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4097}, (uint64_t{5} << 20) + 3}) {
    const Arena arena("test", bytes);
    EXPECT_EQ(arena.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 4096, 0u);
    for (uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(arena.data()[i], std::byte{0});
    arena.data()[bytes - 1] = std::byte{7};
    EXPECT_EQ(*arena.at<unsigned char>(bytes - 1), 7);
  }
}

TEST(Arena, EveryPageIsResidentAtCreation) {
  const uint64_t bytes = (uint64_t{70} << 20) + 4096;  // large enough for several touching threads
  const Arena arena("test", bytes);
  std::vector<unsigned char> resident(bytes / 4096);
  ASSERT_EQ(mincore(arena.data(), bytes, resident.data()), 0);
  for (const unsigned char page : resident) ASSERT_EQ(page & 1, 1);
}

TEST(Arena, LedgerFollowsCreationMoveAndEnd) {
  ArenaLedger ledger, other;
  {
    Arena a("first", 100, Touch::kNow, &ledger);
    Arena b("second", 5000, Touch::kNow, &ledger);
    const Arena unseen("third", 70), elsewhere("fourth", 3, Touch::kNow, &other);
    EXPECT_EQ(ledger.bytes(), 5100u);
    EXPECT_EQ(other.bytes(), 3u);
    Arena c(std::move(a));
    EXPECT_EQ(c.name(), "first");
    EXPECT_EQ(ledger.bytes(), 5100u);
    b = std::move(c);
    EXPECT_EQ(b.name(), "first");
    EXPECT_EQ(ledger.bytes(), 100u);
    const std::vector<ArenaLedger::Entry> entries = ledger.entries();
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].name, "first");
    EXPECT_EQ(entries[0].bytes, 100u);
  }
  EXPECT_EQ(ledger.bytes() + other.bytes(), 0u);
}

TEST(Arena, ZeroBytesReserveNothing) {
  FailNth source(1);
  const ScopedMemorySource scope(source);
  const Arena arena("empty", 0);
  EXPECT_EQ(arena.data(), nullptr);
  EXPECT_EQ(arena.bytes(), 0u);
}

TEST(Arena, RefusedReservationNamesArenaBytesAndCause) {
  ArenaLedger ledger;
  FailNth source(2);
  {
    const ScopedMemorySource scope(source);
    const Arena first("first", 64, Touch::kNow, &ledger);
    const Error error = expect_error(Code::kOutOfMemory,
                                     [&] { Arena arena("kv cache", 12345, Touch::kNow, &ledger); });
    EXPECT_TRUE(contains(error.message, "in addition to 64 bytes"));
    EXPECT_TRUE(contains(error.message, "kv cache"));
    EXPECT_TRUE(contains(error.message, "12345 bytes"));
    EXPECT_EQ(error.system_code, ENOMEM);
    EXPECT_EQ(error.key, "kv cache");
    EXPECT_EQ(ledger.bytes(), 64u);
  }
  EXPECT_EQ(source.live(), 0);
  EXPECT_EQ(ledger.bytes(), 0u);
}

TEST(Arena, MoreThanTheMachineHasIsRefusedNotKilled) {
  const Error error =
      expect_error(Code::kOutOfMemory, [] { Arena arena("huge", uint64_t{1} << 50); });
  EXPECT_EQ(error.system_code, ENOMEM);
  expect_error(Code::kOutOfRange, [] { Arena arena("wraps", ~uint64_t{0}); });
}

TEST(Arena, DecommittedPagesLeaveTheProcessAndComeBackAsZeros) {
  constexpr uint64_t kBytes = (uint64_t{6} << 20) + 100;
  ArenaLedger ledger;
  Arena arena("test", kBytes, Touch::kNow, &ledger);
  std::byte* const data = arena.data();
  std::memset(data, 1, kBytes);
  EXPECT_GE(testing::resident_bytes(arena.span()), kBytes);
  arena.decommit();
  EXPECT_EQ(testing::resident_bytes(arena.span()), 0u);
  EXPECT_EQ(arena.data(), data);
  EXPECT_EQ(arena.bytes(), kBytes);
  EXPECT_EQ(ledger.bytes(), kBytes);
  arena.commit();
  EXPECT_GE(testing::resident_bytes(arena.span()), kBytes);
  EXPECT_EQ(data[0], std::byte{0});
  EXPECT_EQ(data[kBytes - 1], std::byte{0});
}

// Gives memory with something in it.
class DirtyMemory final : public MemorySource {
 public:
  void* reserve(uint64_t bytes) override {
    void* const data = system_memory().reserve(bytes);
    if (data != nullptr) std::memset(data, 0xa5, bytes);
    reserved += bytes;
    return data;
  }
  bool reserves_zeros() const override { return false; }
  void release(void* data, uint64_t bytes) noexcept override {
    reserved -= bytes;
    system_memory().release(data, bytes);
  }
  void decommit(void* data, uint64_t bytes) noexcept override {
    system_memory().decommit(data, bytes);
  }
  uint64_t reserved = 0;
};

TEST(Arena, TakesItsMemoryFromTheSourceOfItsLedgerAndClearsIt) {
  const auto source = std::make_shared<DirtyMemory>();
  ArenaLedger ledger(source);
  for (const Touch touch : {Touch::kNow, Touch::kLater}) {
    const uint64_t bytes = (uint64_t{40} << 20) + 5;  // large enough for several threads
    const Arena arena("test", bytes, touch, &ledger);
    EXPECT_EQ(source->reserved, (uint64_t{40} << 20) + 4096);
    const std::span<std::byte> memory = arena.span();
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(source->reserved, 0u);
  const Arena elsewhere("test", 4096);
  EXPECT_EQ(source->reserved, 0u) << "an arena without a ledger is the system's";
}

}  // namespace
}  // namespace rl
