// The counts of the books after each event, one by one, and the laws of restored counts.
#include <gtest/gtest.h>

#include "buffer/ledger.h"
#include "support/expect_error.h"

namespace rl {
namespace {

constexpr auto at(DropReason reason) { return static_cast<size_t>(reason); }

TEST(LedgerCounts, EveryEventMovesItsOwnCounts) {
  Ledger l;
  LedgerCounts expected;
  const auto expect_counts = [&] {
    EXPECT_EQ(l.counts(), expected);
    l.check();
  };
  l.open_group(0, 2);
  expected.attempts_started = expected.attempts_in_flight = 2;
  expected.prompts_drawn = expected.prompts_open = 1;
  expect_counts();
  l.finished(0, 1, 5);
  expected.tokens_generated = expected.tokens_in_flight = 5;
  expect_counts();
  l.finished(0, 0, 3);
  expected.tokens_generated = expected.tokens_in_flight = 8;
  l.scored(0, 0);
  l.scored(0, 1);
  expect_counts();
  l.reserve(0);
  expect_counts();
  l.open_group(4, 3);
  l.finished(4, 2, 7);
  l.commit();
  expected.attempts_started = 5;
  expected.attempts_in_flight = 3;
  expected.attempts_trained = 2;
  expected.tokens_generated = 15;
  expected.tokens_trained = 8;
  expected.tokens_in_flight = 7;
  expected.prompts_drawn = 2;
  expected.prompts_trained = 1;
  expect_counts();
  EXPECT_EQ(l.open_ordinals(), std::vector<uint64_t>{4});
  l.drop(4, DropReason::kStale, 6);
  expected.attempts_in_flight = 0;
  expected.attempts_discarded[at(DropReason::kStale)] = 3;
  expected.tokens_generated = 21;
  expected.tokens_discarded = 13;
  expected.tokens_in_flight = 0;
  expected.prompts_open = 0;
  expected.prompts_dropped[at(DropReason::kStale)] = 1;
  expect_counts();
  EXPECT_EQ(l.counts().discarded(), 3);
  EXPECT_EQ(l.counts().dropped(), 1);
}

TEST(LedgerCounts, EveryReasonHasItsOwnCount) {
  Ledger l;
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    const auto size = static_cast<int64_t>(i);
    l.open_group(i, size);
    l.drop(i, static_cast<DropReason>(i), 0);
    EXPECT_EQ(l.counts().attempts_discarded[i], size);
    EXPECT_EQ(l.counts().prompts_dropped[i], 1);
  }
  EXPECT_EQ(kNumDropReasons, 12u);
  EXPECT_EQ(l.counts().discarded(), 66);  // 1 + 2 + ... + 11
  EXPECT_EQ(l.counts().dropped(), 11);
  EXPECT_EQ(l.counts().attempts_discarded[0], 0);
  l.open_group(99, 1);
  for (const size_t reason : {size_t{0}, kNumDropReasons}) {
    expect_error(Code::kInternal, [&] { l.drop(99, static_cast<DropReason>(reason), 0); });
  }
}

TEST(LedgerCounts, RefusedScoresAreCountedByKind) {
  Ledger l;
  l.count_late();
  for (int i = 0; i < 2; ++i) l.count_duplicate();
  for (int i = 0; i < 3; ++i) l.count_unknown();
  for (int i = 0; i < 4; ++i) l.count_nonfinite();
  LedgerCounts expected;
  expected.late_scores = 1;
  expected.duplicate_scores = 2;
  expected.unknown_scores = 3;
  expected.nonfinite_scores = 4;
  EXPECT_EQ(l.counts(), expected);
}

TEST(LedgerCounts, OnlyReservedGroupsAreUndoneOrTrained) {
  Ledger l;
  for (const uint64_t ordinal : {1u, 2u, 3u}) {
    l.open_group(ordinal, 1);
    l.finished(ordinal, 0, 1);
    l.scored(ordinal, 0);
  }
  l.reserve(1);
  l.reserve(3);
  l.unreserve();
  l.reserve(3);
  l.commit();
  EXPECT_EQ(l.open_ordinals(), (std::vector<uint64_t>{1, 2}));
  EXPECT_FALSE(l.is_open(3));
  l.reserve(2);
  l.commit();
  EXPECT_EQ(l.open_ordinals(), std::vector<uint64_t>{1});
  EXPECT_EQ(l.counts().prompts_trained, 2);
}

TEST(LedgerCounts, WhatCannotBeIsRefused) {
  Ledger l;
  l.open_group(0, 1);
  const std::vector<void (*)(Ledger&)> calls = {
      [](Ledger& x) { x.open_group(1, 0); },
      [](Ledger& x) { x.finished(0, 0, -1); },
      [](Ledger& x) { x.finished(1, 0, 1); },
      [](Ledger& x) { x.finished(0, 1, 1); },
      [](Ledger& x) { x.scored(0, 0); },
      [](Ledger& x) { x.reserve(0); },
      [](Ledger& x) { x.drop(0, DropReason::kStale, -1); },
      [](Ledger& x) { x.drop(1, DropReason::kStale, 0); },
      [](Ledger& x) { x.restore({}, 0); },  // a group is open
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    expect_error(Code::kInternal, [&] { calls[i](l); });
  }
  EXPECT_TRUE(l.is_open(0));
}

TEST(LedgerCounts, RestoredCountsKeepEveryLaw) {
  LedgerCounts good;
  good.attempts_started = 7;
  good.attempts_trained = 4;
  good.attempts_discarded[at(DropReason::kFiltered)] = 2;
  good.attempts_discarded[at(DropReason::kShutdown)] = 1;
  good.tokens_generated = 9;
  good.tokens_trained = 5;
  good.tokens_discarded = 4;
  good.prompts_drawn = 3;
  good.prompts_trained = 1;
  good.prompts_dropped[at(DropReason::kFiltered)] = 1;
  good.prompts_dropped[at(DropReason::kShutdown)] = 1;
  good.late_scores = 11;
  Ledger l;
  l.restore(good, 3);
  EXPECT_EQ(l.counts(), good);
  const std::vector<int64_t& (*)(LedgerCounts&)> counts = {
      [](LedgerCounts& c) -> int64_t& { return c.attempts_started; },
      [](LedgerCounts& c) -> int64_t& { return c.attempts_trained; },
      [](LedgerCounts& c) -> int64_t& { return c.attempts_discarded[at(DropReason::kShutdown)]; },
      [](LedgerCounts& c) -> int64_t& { return c.attempts_in_flight; },
      [](LedgerCounts& c) -> int64_t& { return c.tokens_generated; },
      [](LedgerCounts& c) -> int64_t& { return c.tokens_trained; },
      [](LedgerCounts& c) -> int64_t& { return c.tokens_discarded; },
      [](LedgerCounts& c) -> int64_t& { return c.tokens_in_flight; },
      [](LedgerCounts& c) -> int64_t& { return c.prompts_drawn; },
      [](LedgerCounts& c) -> int64_t& { return c.prompts_trained; },
      [](LedgerCounts& c) -> int64_t& { return c.prompts_dropped[at(DropReason::kShutdown)]; },
      [](LedgerCounts& c) -> int64_t& { return c.prompts_open; }};
  for (size_t i = 0; i < counts.size(); ++i) {
    for (const int64_t by : {-1, 1}) {
      SCOPED_TRACE(str(i, " by ", by));
      LedgerCounts bad = good;
      counts[i](bad) += by;
      expect_error(Code::kInternal, [&] { Ledger().restore(bad, 3); });
    }
  }
}

// No group is open between two steps, whatever the laws say.
TEST(LedgerCounts, ARestoredRunHasNoOpenPrompt) {
  LedgerCounts c;
  c.prompts_drawn = c.prompts_open = 1;
  expect_error(Code::kInternal, [&] { Ledger().restore(c, 1); });
}

}  // namespace
}  // namespace rl
