// The scheduler without a model. A simulated pool stores for each written position a digest of the
// ids up to it, so that a lost copy or a block shared by mistake shows at once.
#include "rollout/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr int64_t kBlock = 16;

uint64_t digest_of(const std::vector<int32_t>& ids, int64_t last) {
  uint64_t h = 1469598103934665603u;
  for (int64_t i = 0; i <= last; ++i) h = (h ^ static_cast<uint64_t>(ids[i])) * 1099511628211u;
  return h;
}

class Harness {
 public:
  Harness(const SchedulerLimits& limits, int64_t num_blocks, unsigned seed = 1)
      : pool(num_blocks, kBlock), scheduler(limits, pool), limits_(limits), rng_(seed) {
    content_.assign(static_cast<size_t>(num_blocks), std::vector<uint64_t>(kBlock));
  }

  void submit(int64_t prompt, int64_t max_new, int64_t samples) {
    auto active = std::make_unique<ActiveRequest>();
    Request& r = active->request;
    for (int64_t i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(rng_() % 97));
    r.max_new_tokens = max_new;
    r.num_samples = samples;
    r.ordinal = submitted_++;
    scheduler.submit(std::move(active));
  }

  // One step; a sample ends early with this probability per token, in percent.
  const Schedule& step(unsigned end_percent = 0) {
    const Schedule& schedule = scheduler.next();
    check_schedule(schedule);
    write(schedule);
    std::vector<std::pair<ActiveRequest*, size_t>> draws;
    for (const ScheduledRows& r : schedule.rows) {
      if (!r.needs_logits()) continue;
      if (r.request->forked)
        draws.emplace_back(r.request, r.index);
      else
        for (size_t i = 0; i < r.request->sequences.size(); ++i) draws.emplace_back(r.request, i);
    }
    scheduler.advance();
    for (const auto& [request, index] : draws) {
      append(*request, request->sequences[index], end_percent);
    }
    scheduler.drop_finished();
    check_pool();
    return schedule;
  }

  void abort_all() {
    for (const auto& active : scheduler.running()) {
      for (Sequence& s : active->sequences) {
        if (!s.finished) scheduler.finish(*active, s);
      }
    }
    scheduler.drop_finished();
    scheduler.take_waiting();
    admitted_ = submitted_;
    check_pool();
  }

  void expect_empty() {
    EXPECT_TRUE(scheduler.idle());
    EXPECT_EQ(pool.num_used(), 0);
    EXPECT_EQ(pool.num_reserved(), 0);
    EXPECT_EQ(scheduler.num_running(), 0);
  }

  unsigned random(unsigned limit) { return rng_() % limit; }

  BlockPool pool;
  Scheduler scheduler;
  int64_t tokens = 0, copies = 0;

 private:
  void append(ActiveRequest& active, Sequence& s, unsigned end_percent) {
    s.sample->ids.push_back(static_cast<int32_t>(rng_() % 97));
    ++tokens;
    const bool full = s.sample->generated() == active.request.max_new_tokens;
    if (full || rng_() % 100 < end_percent) scheduler.finish(active, s);
  }

  void check_schedule(const Schedule& schedule) {
    int64_t rows = 0;
    bool prefill_seen = false;
    for (const ScheduledRows& r : schedule.rows) {
      ASSERT_GT(r.rows, 0);
      rows += r.rows;
      if (!r.request->forked) {
        prefill_seen = true;
        if (limits_.prefill_chunk > 0) {
          ASSERT_LE(r.rows, limits_.prefill_chunk);
        }
      } else {
        ASSERT_FALSE(prefill_seen) << "decode rows come first";
      }
    }
    ASSERT_EQ(rows, schedule.num_rows());
    ASSERT_LE(rows, limits_.max_num_batched_tokens);
    ASSERT_LE(scheduler.num_running(), limits_.max_num_seqs);
    for (const auto& active : scheduler.running()) {
      if (active->request.ordinal < admitted_) continue;
      ASSERT_EQ(active->request.ordinal, admitted_) << "a request was overtaken";
      ++admitted_;
    }
  }

  void write(const Schedule& schedule) {
    for (const BlockCopy& c : schedule.copies) content_[c.to] = content_[c.from];
    copies += static_cast<int64_t>(schedule.copies.size());
    for (const ScheduledRows& r : schedule.rows) {
      Sequence& s = r.sequence();
      for (int64_t p = s.computed; p < s.computed + r.rows; ++p) {
        ASSERT_EQ(pool.references(s.blocks[p / kBlock]), 1) << "a shared block is written to";
        content_[s.blocks[p / kBlock]][p % kBlock] = digest_of(s.sample->ids, p);
      }
    }
    for (const ScheduledRows& r : schedule.rows) {
      const Sequence& s = r.sequence();
      for (int64_t p = 0; p < s.computed + r.rows; ++p) {
        ASSERT_EQ(content_[s.blocks[p / kBlock]][p % kBlock], digest_of(s.sample->ids, p))
            << "ordinal " << r.request->request.ordinal << " sample " << r.index << " at " << p;
      }
    }
  }

  void check_pool() {
    std::map<int32_t, int32_t> listed;
    int64_t reserved = 0;
    for (const auto& active : scheduler.running()) {
      reserved += active->reserved;
      for (const Sequence& s : active->sequences) {
        for (const int32_t b : s.blocks) ++listed[b];
      }
    }
    ASSERT_EQ(reserved, pool.num_reserved());
    ASSERT_EQ(static_cast<int64_t>(listed.size()), pool.num_used());
    for (const auto& [block, count] : listed) ASSERT_EQ(pool.references(block), count);
    ASSERT_LE(pool.num_reserved(), pool.num_free());
  }

  SchedulerLimits limits_;
  std::mt19937 rng_;
  std::vector<std::vector<uint64_t>> content_;
  uint64_t submitted_ = 0, admitted_ = 0;
};

TEST(Scheduler, PromptIsCutIntoChunksAndThenDecoded) {
  Harness h({4, 64, 7}, 8);
  h.submit(20, 3, 1);
  EXPECT_EQ(h.step().prefill_rows, 7);
  EXPECT_EQ(h.step().prefill_rows, 7);
  EXPECT_EQ(h.step().prefill_rows, 6);
  EXPECT_EQ(h.tokens, 1);
  EXPECT_EQ(h.step().decode_rows, 1);
  EXPECT_EQ(h.step().decode_rows, 1);
  EXPECT_EQ(h.tokens, 3);
  h.expect_empty();
}

TEST(Scheduler, DecodeRowsLeaveTheRestOfTheBatchToPrompts) {
  Harness h({4, 16, 0}, 64);
  h.submit(4, 20, 3);
  h.step();
  h.submit(40, 2, 1);
  const Schedule& s = h.step();
  EXPECT_EQ(s.decode_rows, 3);
  EXPECT_EQ(s.prefill_rows, 13);
}

TEST(Scheduler, GroupSharesThePromptAndCopiesItsPartialBlockOncePerOtherSample) {
  Harness h({8, 64, 0}, 32);
  h.submit(2 * kBlock + 3, 4, 8);
  EXPECT_EQ(h.step().prefill_rows, 2 * kBlock + 3);
  EXPECT_EQ(h.tokens, 8);
  EXPECT_EQ(h.pool.num_used(), 3);
  h.step();
  EXPECT_EQ(h.copies, 7);
  EXPECT_EQ(h.pool.num_used(), 2 + 8);
  h.step();
  EXPECT_EQ(h.copies, 7);
}

TEST(Scheduler, AWholeLastBlockIsNeverCopied) {
  Harness h({4, 64, 0}, 32);
  h.submit(2 * kBlock, 3, 4);
  for (int i = 0; i < 3; ++i) h.step();
  EXPECT_EQ(h.copies, 0);
  h.expect_empty();
}

TEST(Scheduler, RequestWaitsUntilItsBlocksAreFreeAndIsNotOvertaken) {
  Harness h({8, 64, 0}, 4);
  h.submit(kBlock, 2 * kBlock + 1, 1);  // three blocks
  h.submit(kBlock, kBlock + 1, 1);      // two blocks
  h.submit(4, 2, 1);                    // one block, behind the one that does not fit
  h.step();
  EXPECT_EQ(h.scheduler.num_running(), 1);
  EXPECT_EQ(h.scheduler.num_waiting(), 2);
  while (h.scheduler.num_running() > 0) h.step();
  EXPECT_EQ(h.tokens, 2 * kBlock + 1);
  EXPECT_EQ(h.scheduler.num_waiting(), 2);
  h.step();
  EXPECT_EQ(h.scheduler.num_waiting(), 0);
  while (!h.scheduler.idle()) h.step();
  h.expect_empty();
}

TEST(Scheduler, SequenceLimitCountsAllSamplesOfAGroup) {
  Harness h({5, 64, 0}, 64);
  h.submit(4, 3, 3);
  h.submit(4, 3, 3);
  h.step();
  EXPECT_EQ(h.scheduler.num_running(), 3);
  EXPECT_EQ(h.scheduler.num_waiting(), 3);
}

TEST(Scheduler, AFinishedSampleGivesItsReservationBack) {
  Harness h({4, 64, 0}, 16);
  h.submit(kBlock + 1, 4 * kBlock, 3);
  h.step();
  ActiveRequest& active = *h.scheduler.running().front();
  const int64_t before = active.reserved;
  h.scheduler.finish(active, active.sequences[0]);
  // Five blocks each less two held; one block fewer to copy.
  EXPECT_EQ(before - active.reserved, 3 + 1);
  EXPECT_EQ(h.pool.num_reserved(), active.reserved);
}

TEST(Scheduler, BlocksNeededCountsSharedBlocksOnceAndNoPlaceForTheLastToken) {
  Request r;
  r.prompt.assign(2 * kBlock + 3, 1);
  r.max_new_tokens = kBlock - 2;  // the fed tokens end exactly at a block's end
  r.num_samples = 4;
  EXPECT_EQ(blocks_per_sequence(r, kBlock), 3);
  EXPECT_EQ(blocks_needed(r, kBlock), 2 + 4);
  r.max_new_tokens += 1;
  EXPECT_EQ(blocks_needed(r, kBlock), 2 + 4 * 2);
  r.num_samples = INT64_MAX;
  expect_error(Code::kOutOfRange, [&] { blocks_needed(r, kBlock); });
}

TEST(Scheduler, KeepsItsLawsUnderRandomLoad) {
  int64_t copies = 0, tokens = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    const int64_t seqs = 2 + rng() % 9, batch = seqs + rng() % 40, chunk = rng() % 3 * 5;
    Harness h({seqs, batch, chunk}, 30 + rng() % 30, seed);
    for (int i = 0; i < 200; ++i) {
      if (h.random(4) == 0) {
        h.submit(1 + h.random(40), 1 + h.random(30), 1 + h.random(seqs > 4 ? 4 : 2));
      }
      h.step(5);
      if (h.random(150) == 0) h.abort_all();
      if (HasFatalFailure()) return;
    }
    while (!h.scheduler.idle()) h.step(5);
    h.expect_empty();
    copies += h.copies;
    tokens += h.tokens;
  }
  EXPECT_GT(copies, 1000);
  EXPECT_GT(tokens, 20000);
}

}  // namespace
}  // namespace rl
