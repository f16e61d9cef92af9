// The scheduler without a model. A simulated pool stores for each written position a digest of the
// ids up to it, so that a lost copy, a block shared by mistake or a wrong cache hit shows at once.
#include "rollout/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr int64_t kBlock = 16;

uint64_t digest_of(const std::vector<int32_t>& ids, int64_t last) {
  uint64_t h = 1469598103934665603u;
  for (int64_t i = 0; i <= last; ++i) h = (h ^ static_cast<uint64_t>(ids[i])) * 1099511628211u;
  return h;
}

struct PoolSetup {
  int64_t blocks;
  bool prefix_caching = true;
  int64_t swap_blocks = 0;
};

class Harness {
 public:
  Harness(const SchedulerLimits& limits, const PoolSetup& setup, unsigned seed = 1)
      : blocks(setup.blocks, kBlock, setup.prefix_caching),
        swap(setup.swap_blocks),
        scheduler(limits, blocks, swap),
        limits_(limits),
        swap_blocks_(setup.swap_blocks),
        rng_(seed),
        content_(static_cast<size_t>(setup.blocks), std::vector<uint64_t>(kBlock)),
        swapped_(static_cast<size_t>(setup.swap_blocks), std::vector<uint64_t>(kBlock)) {}

  Request request(int64_t prompt, int64_t max_new, int64_t samples) {
    Request r;
    for (int64_t i = 0; i < prompt; ++i) r.prompt.push_back(static_cast<int32_t>(rng_() % 97));
    r.max_new_tokens = max_new;
    r.num_samples = samples;
    return r;
  }
  void submit(const Request& r) {
    scheduler.submit(make_active(r, submitted_++, SchedulingPolicy::kPriority));
  }
  void submit(int64_t prompt, int64_t max_new, int64_t samples) {
    submit(request(prompt, max_new, samples));
  }

  // One step; a sample ends early with this probability per token, in percent.
  const StepSchedule& step(unsigned end_percent = 0) {
    const int64_t begun = scheduler.num_begun();
    const StepSchedule& schedule = scheduler.next();
    EXPECT_TRUE(admitting_ || scheduler.num_begun() == begun) << "a sample began during a drain";
    check_schedule(schedule);
    write(schedule);
    std::vector<Sequence*> targets;
    for (const ScheduledRows& r : schedule.rows) {
      if (!r.needs_logits()) continue;
      targets.push_back(r.sequence);
      if (!r.sequence->is_leader()) continue;
      for (Sequence& s : r.sequence->request->sequences) {
        if (s.follows) targets.push_back(&s);
      }
    }
    scheduler.advance();
    for (Sequence* s : targets) append(*s, end_percent);
    scheduler.drop_finished();
    check_pool();
    return schedule;
  }

  void run() {
    while (!scheduler.idle()) {
      step();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

  void abort_request(size_t index) {
    auto it = scheduler.requests().begin();
    std::advance(it, index % scheduler.requests().size());
    for (Sequence& s : it->second->sequences) {
      if (s.state != SequenceState::kFinished) scheduler.finish(s);
    }
    scheduler.drop_finished();
    check_pool();
  }

  void set_admitting(bool admitting) {
    admitting_ = admitting;
    scheduler.set_admitting(admitting);
  }

  // New weights: the content that was written is worth nothing.
  void publish() {
    ++version_;
    scheduler.forget_computed();
    check_pool();
  }

  void expect_empty() {
    EXPECT_TRUE(scheduler.idle());
    EXPECT_TRUE(scheduler.requests().empty());
    EXPECT_EQ(blocks.pool().num_used(), 0);
    EXPECT_EQ(swap.num_free(), swap_blocks_);
    EXPECT_EQ(scheduler.num_running(), 0);
  }

  unsigned random(unsigned limit) { return rng_() % limit; }

  KvBlocks blocks;
  SwapSpace swap;
  Scheduler scheduler;
  int64_t tokens = 0, copies = 0;
  std::map<std::pair<uint64_t, uint32_t>, int64_t> sampled;  // tokens by request and sample

 private:
  void append(Sequence& s, unsigned end_percent) {
    s.sample->ids.push_back(static_cast<int32_t>(rng_() % 97));
    ++tokens;
    ++sampled[{s.request->number, s.index}];
    if (s.length() == s.end || rng_() % 100 < end_percent) scheduler.finish(s);
  }

  void check_schedule(const StepSchedule& schedule) {
    int64_t rows = 0;
    for (const ScheduledRows& r : schedule.rows) {
      ASSERT_GT(r.rows, 0);
      ASSERT_EQ(r.sequence->state, SequenceState::kRunning);
      ASSERT_FALSE(r.sequence->follows);
      rows += r.rows;
      if (limits_.prefill_chunk > 0) {
        ASSERT_LE(r.rows, limits_.prefill_chunk);
      }
      if (!limits_.chunked_prefill) {
        ASSERT_TRUE(r.needs_logits());
      }
    }
    ASSERT_EQ(rows, schedule.num_rows());
    ASSERT_LE(rows, limits_.max_num_batched_tokens);
    ASSERT_LE(scheduler.num_running(), limits_.max_num_seqs);
    ASSERT_TRUE(
        std::is_sorted(scheduler.running().begin(), scheduler.running().end(), SchedulingOrder()));
    check_turns();
  }

  // Nobody starts to run before one whose turn is earlier, unless that one waits for a leader.
  void check_turns() {
    for (const Sequence* started : scheduler.running()) {
      if (ran_.count({started->request->number, started->index}) || started->follows) continue;
      for (const auto& [number, active] : scheduler.requests()) {
        for (const Sequence& s : active->sequences) {
          if (s.state != SequenceState::kWaiting || active->leader) continue;
          if (!admitting_ && !s.begun) continue;
          ASSERT_FALSE(SchedulingOrder()(&s, started))
              << "request " << number << " was overtaken by " << started->request->number;
        }
      }
    }
    ran_.clear();
    for (const Sequence* s : scheduler.running()) ran_.insert({s->request->number, s->index});
  }

  uint64_t expected(const Sequence& s, int64_t position) const {
    return digest_of(s.sample->ids, position) + version_;
  }

  void transfer(const BlockTransfer& t) {
    auto& source = t.kind == BlockTransfer::Kind::kSwapIn ? swapped_ : content_;
    auto& target = t.kind == BlockTransfer::Kind::kSwapOut ? swapped_ : content_;
    target[static_cast<size_t>(t.to)] = source[static_cast<size_t>(t.from)];
    copies += t.kind == BlockTransfer::Kind::kCopy ? 1 : 0;
  }

  void write(const StepSchedule& schedule) {
    for (const BlockTransfer& t : schedule.transfers) transfer(t);
    for (const ScheduledRows& r : schedule.rows) {
      const Sequence& s = *r.sequence;
      for (int64_t p = s.computed; p < s.computed + r.rows; ++p) {
        ASSERT_EQ(blocks.pool().references(s.blocks[p / kBlock]), 1) << "a shared block is written";
        ASSERT_FALSE(blocks.cache() && blocks.cache()->holds(s.blocks[p / kBlock]))
            << "a cached block is written";
        content_[s.blocks[p / kBlock]][p % kBlock] = expected(s, p);
      }
    }
    for (const ScheduledRows& r : schedule.rows) {
      const Sequence& s = *r.sequence;
      for (int64_t p = 0; p < s.computed + r.rows; ++p) {
        ASSERT_EQ(content_[s.blocks[p / kBlock]][p % kBlock], expected(s, p))
            << "request " << s.request->number << " sample " << s.index << " at " << p;
      }
    }
  }

  void check_pool() {
    std::map<int32_t, int32_t> listed;
    int64_t swapped = 0;
    for (const auto& [number, active] : scheduler.requests()) {
      for (const Sequence& s : active->sequences) {
        for (const int32_t b : s.blocks) ++listed[b];
        swapped += static_cast<int64_t>(s.swapped.size());
        ASSERT_TRUE(s.blocks.empty() || s.state == SequenceState::kRunning);
        ASSERT_TRUE(s.swapped.empty() || s.state == SequenceState::kWaiting);
      }
    }
    ASSERT_EQ(static_cast<int64_t>(listed.size()), blocks.pool().num_used());
    for (const auto& [block, count] : listed) ASSERT_EQ(blocks.pool().references(block), count);
    ASSERT_EQ(swapped + swap.num_free(), swap_blocks_);
  }

  SchedulerLimits limits_;
  int64_t swap_blocks_;
  std::mt19937 rng_;
  std::vector<std::vector<uint64_t>> content_, swapped_;
  std::set<std::pair<uint64_t, uint32_t>> ran_;  // in the last step
  uint64_t submitted_ = 0, version_ = 0;
  bool admitting_ = true;
};

SchedulerLimits limits(int64_t seqs, int64_t batch, int64_t chunk = 0) {
  return {.max_num_seqs = seqs, .max_num_batched_tokens = batch, .prefill_chunk = chunk};
}

TEST(Scheduler, PromptIsCutIntoChunksAndThenDecoded) {
  Harness h(limits(4, 64, 7), {8});
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
  Harness h(limits(4, 16), {64});
  h.submit(4, 20, 3);
  h.step();
  h.submit(40, 2, 1);
  const StepSchedule& s = h.step();
  EXPECT_EQ(s.decode_rows, 3);
  EXPECT_EQ(s.prefill_rows, 13);
}

TEST(Scheduler, ALongPromptNeverHoldsUpADecodeRow) {
  Harness h(limits(2, 4), {64});
  h.submit(200, 2, 1);
  Request first = h.request(3, 30, 1);
  first.priority = 1;
  h.submit(first);
  h.step();
  for (int i = 0; i < 29; ++i) EXPECT_EQ(h.step().decode_rows, 1);
}

TEST(Scheduler, WithoutChunksAPromptWaitsForTheRoomItNeeds) {
  SchedulerLimits whole = limits(4, 64);
  whole.chunked_prefill = false;
  Harness h(whole, {64});
  h.submit(40, 3, 1);
  h.submit(30, 3, 1);
  EXPECT_EQ(h.step().prefill_rows, 40);
  EXPECT_EQ(h.step().prefill_rows, 30);
  h.run();
  EXPECT_EQ(h.tokens, 6);
  h.expect_empty();
}

TEST(Scheduler, GroupSharesThePromptAndCopiesItsPartialBlockOncePerOtherSample) {
  Harness h(limits(8, 64), {32});
  h.submit(2 * kBlock + 3, 4, 8);
  EXPECT_EQ(h.step().prefill_rows, 2 * kBlock + 3);
  EXPECT_EQ(h.tokens, 8);
  EXPECT_EQ(h.blocks.pool().num_used(), 3);
  h.step();
  EXPECT_EQ(h.copies, 7);
  EXPECT_EQ(h.blocks.pool().num_used(), 2 + 8);
  h.step();
  EXPECT_EQ(h.copies, 7);
}

TEST(Scheduler, WithoutPrefixCachingEverySampleComputesItsPrompt) {
  Harness h(limits(8, 256), {32, false});
  h.submit(2 * kBlock + 3, 4, 4);
  EXPECT_EQ(h.step().prefill_rows, 4 * (2 * kBlock + 3));
  EXPECT_EQ(h.blocks.pool().num_used(), 4 * 3);
  h.run();
  h.expect_empty();
}

TEST(Scheduler, AWholeLastBlockIsNeverCopied) {
  Harness h(limits(4, 64), {32});
  h.submit(2 * kBlock, 3, 4);
  h.run();
  EXPECT_EQ(h.copies, 0);
  h.expect_empty();
}

TEST(Scheduler, AGroupLargerThanTheSlotsRunsInTurns) {
  Harness h(limits(3, 64), {32});
  h.submit(2 * kBlock + 3, 4, 8);
  h.step();
  EXPECT_EQ(h.tokens, 3);
  h.run();
  EXPECT_EQ(h.sampled.size(), 8u);
  // The leaders of the second and third turn found the whole blocks of the prompt.
  EXPECT_EQ(h.scheduler.counts().cached_tokens, 2 * 2 * kBlock);
  h.expect_empty();
}

TEST(Scheduler, ALaterRequestFindsTheBlocksOfAnEarlierOne) {
  Harness h(limits(4, 256), {32});
  const Request r = h.request(3 * kBlock, 2, 1);
  h.submit(r);
  h.run();
  h.submit(r);
  // The last token of the prompt is computed for its logits, and with it its block.
  EXPECT_EQ(h.step().prefill_rows, kBlock);
  EXPECT_EQ(h.scheduler.counts().cached_tokens, 2 * kBlock);
  EXPECT_EQ(h.scheduler.counts().looked_up_tokens, 6 * kBlock);
}

TEST(Scheduler, ABlockIsFoundOnceItsLastTokenIsComputed) {
  Harness h(limits(4, 256), {32});
  Request r = h.request(2 * kBlock, 1, 1);  // nothing behind the prompt is computed
  h.submit(r);
  h.run();
  r.prompt.push_back(1);
  h.submit(r);
  EXPECT_EQ(h.step().prefill_rows, 1);
  EXPECT_EQ(h.scheduler.counts().cached_tokens, 2 * kBlock);
}

TEST(Scheduler, LeastRecentlyUsedBlocksAreGivenUpFirst) {
  Harness h(limits(1, 256), {6});
  const Request a = h.request(2 * kBlock, 2, 1), b = h.request(2 * kBlock, 2, 1);
  for (const Request& r : {a, b, a}) {
    h.submit(r);
    h.run();
  }
  const int64_t cached = h.scheduler.counts().cached_tokens;
  EXPECT_EQ(cached, kBlock);
  h.submit(h.request(2 * kBlock, 2, 1));  // takes the block nobody asked for, then one of b
  h.run();
  h.submit(a);
  h.run();
  EXPECT_EQ(h.scheduler.counts().cached_tokens, cached + kBlock);
}

TEST(Scheduler, RequestWaitsUntilThereIsRoomForItsPrompt) {
  Harness h(limits(8, 256), {4});
  h.submit(3 * kBlock, 10, 1);
  h.submit(2 * kBlock, 4, 1);
  h.submit(4, 2, 1);  // would fit, but is behind the one that does not
  h.step();
  EXPECT_EQ(h.scheduler.num_running(), 1);
  EXPECT_EQ(h.scheduler.num_waiting(), 2);
  h.run();
  EXPECT_EQ(h.scheduler.counts().preemptions, 0);
  h.expect_empty();
}

TEST(Scheduler, AnAdmissionLeavesTheWatermarkFree) {
  SchedulerLimits l = limits(8, 256);
  l.watermark_blocks = 2;
  Harness h(l, {6});
  h.submit(2 * kBlock, 2, 1);
  h.submit(3 * kBlock, 2, 1);
  h.step();
  EXPECT_EQ(h.scheduler.num_running(), 1);
  h.run();
  Harness alone(l, {6});
  alone.submit(6 * kBlock, 1, 1);
  alone.run();
  EXPECT_EQ(alone.tokens, 1);
}

TEST(Scheduler, TheLastInTurnGivesWayAndComesBack) {
  for (const int64_t swap : {0, 16}) {
    SCOPED_TRACE(swap);
    Harness h(limits(4, 64), {4, true, swap});
    h.submit(kBlock, 2 * kBlock + 1, 1);
    h.submit(kBlock, 2 * kBlock + 1, 1);
    while (h.scheduler.counts().preemptions == 0) h.step();
    ASSERT_EQ(h.scheduler.running().size(), 1u);
    EXPECT_EQ(h.scheduler.running().front()->request->number, 0u);
    EXPECT_EQ(h.scheduler.requests().at(1)->sequences[0].preemptions, 1);
    h.run();
    EXPECT_EQ(h.tokens, 2 * (2 * kBlock + 1));
    EXPECT_EQ(h.scheduler.counts().swapped_blocks > 0, swap > 0);
    h.expect_empty();
  }
}

// The victim has two blocks when the first sequence asks for its third.
TEST(Scheduler, ASequenceIsSwappedOutWhereItsBlocksJustFit) {
  for (const int64_t swap : {0, 1, 2, 3}) {
    SCOPED_TRACE(swap);
    Harness h(limits(4, 64), {4, true, swap});
    h.submit(kBlock, 2 * kBlock + 1, 1);
    h.submit(kBlock, 2 * kBlock + 1, 1);
    while (h.scheduler.counts().preemptions == 0) h.step();
    EXPECT_EQ(h.scheduler.counts().swapped_blocks, swap < 2 ? 0 : 2);
    EXPECT_EQ(h.swap.num_free(), swap < 2 ? swap : swap - 2);
    h.run();
    h.expect_empty();
  }
}

TEST(Scheduler, NothingIsAdmittedInAStepThatTookBlocksAway) {
  Harness h(limits(2, 64), {4});
  h.submit(20, 30, 1);
  h.submit(20, 30, 1);
  h.step();
  Request urgent = h.request(4, 3, 1);  // waits for one of two places
  urgent.priority = 1;
  h.submit(urgent);
  for (int i = 0; h.scheduler.counts().preemptions == 0; ++i) {
    ASSERT_LT(i, 100);
    h.step();
  }
  EXPECT_EQ(h.blocks.num_free(), 1);  // it would fit
  EXPECT_EQ(h.scheduler.num_running(), 1);
  h.step();
  EXPECT_EQ(h.scheduler.running().front()->request->number, 2u);
  h.run();
  h.expect_empty();
}

// It had no blocks to give: only its leader was preempted.
TEST(Scheduler, AFollowerThatGivesWayIsNotCounted) {
  Harness h(limits(8, 8), {5});
  h.submit(12, 20, 1);
  h.submit(12, 20, 1);
  h.submit(3 * kBlock, 4, 2);  // while its prompt is computed, the others need their second block
  for (int i = 0; h.scheduler.counts().preemptions == 0; ++i) {
    ASSERT_LT(i, 100);
    h.step();
  }
  EXPECT_EQ(h.scheduler.counts().preemptions, 1);
  const ActiveRequest& group = *h.scheduler.requests().at(2);
  EXPECT_EQ(group.sequences[0].preemptions, 1u);
  EXPECT_EQ(group.sequences[1].preemptions, 0u);
  EXPECT_TRUE(group.sequences[1].begun);
  h.run();
  EXPECT_EQ(h.tokens, 2 * 20 + 2 * 4);
  h.expect_empty();
}

// A later request of a higher priority has the rank of one that waits for it long enough.
TEST(Scheduler, OfOneRankTheEarlierSubmittedGoesFirst) {
  Harness h(limits(1, 64), {16});
  Request urgent = h.request(4, 3, 1);
  const auto first = make_active(urgent, 0, SchedulingPolicy::kPriority);
  urgent.priority = 1;
  auto second = make_active(urgent, 1, SchedulingPolicy::kPriority);
  for (uint64_t number = 2; second->rank < first->rank; ++number) {
    second = make_active(urgent, number, SchedulingPolicy::kPriority);
  }
  ASSERT_EQ(second->rank, first->rank);
  const Sequence &earlier = first->sequences[0], &later = second->sequences[0];
  EXPECT_TRUE(SchedulingOrder()(&earlier, &later));
  EXPECT_FALSE(SchedulingOrder()(&later, &earlier));
}

TEST(Scheduler, HigherPriorityGoesFirstButNotForEver) {
  Harness h(limits(1, 64), {16});
  h.submit(4, 3, 1);
  Request urgent = h.request(4, 3, 1);
  urgent.priority = 1;
  h.submit(urgent);
  h.step();
  EXPECT_EQ(h.scheduler.running().front()->request->number, 1u);
  // Urgent requests keep coming; the first one is reached all the same.
  int64_t urgent_ones = 0;
  while (h.sampled.find({0, 0}) == h.sampled.end()) {
    if (h.scheduler.num_waiting() < 3) {
      h.submit(urgent);
      ++urgent_ones;
    }
    h.step();
    ASSERT_LT(urgent_ones, 10000);
  }
  EXPECT_GT(urgent_ones, 1000);
}

TEST(Scheduler, PublicationComputesEverythingAnew) {
  Harness h(limits(8, 64), {32, true, 8});
  const Request r = h.request(2 * kBlock + 3, 6, 4);
  h.submit(r);
  h.step();
  h.step();
  h.publish();
  EXPECT_EQ(h.blocks.pool().num_used(), 0);
  h.run();
  EXPECT_EQ(h.tokens, 4 * 6);
  h.publish();
  h.submit(r);
  EXPECT_EQ(h.step().prefill_rows, 2 * kBlock + 3);
  h.run();
  h.expect_empty();
}

TEST(Scheduler, WithoutAdmissionsOnlyWhatHasBegunIsFinished) {
  Harness h(limits(8, 64), {6});
  for (int i = 0; i < 3; ++i) h.submit(kBlock - 2, 2 * kBlock, 1);
  h.step();
  h.submit(4, 3, 1);
  for (int i = 0; h.scheduler.counts().preemptions == 0; ++i) {
    ASSERT_LT(i, 100);
    h.step();
  }
  h.set_admitting(false);
  EXPECT_EQ(h.scheduler.num_begun(), 4);
  h.submit(4, 3, 2);
  while (!h.scheduler.nothing_runnable()) h.step();
  EXPECT_EQ(h.scheduler.num_waiting(), 2);
  EXPECT_EQ(h.scheduler.num_running(), 0);
  EXPECT_FALSE(h.scheduler.idle());
  EXPECT_TRUE(h.step().rows.empty());
  h.set_admitting(true);
  EXPECT_FALSE(h.scheduler.nothing_runnable());
  h.run();
  EXPECT_EQ(h.tokens, 3 * 2 * kBlock + 3 * 3);
  h.expect_empty();
}

TEST(Scheduler, TheEndOfALeaderSendsItsFollowersBack) {
  Harness h(limits(8, 8), {32});
  h.submit(3 * kBlock, 4, 4);
  h.step();
  EXPECT_EQ(h.scheduler.num_running(), 4);
  Sequence* leader = h.scheduler.running().front();
  ASSERT_TRUE(leader->is_leader());
  h.scheduler.finish(*leader);
  EXPECT_EQ(h.scheduler.num_running(), 0);
  h.run();
  EXPECT_EQ(h.tokens, 3 * 4);
  h.expect_empty();
}

TEST(Scheduler, KeepsItsInvariantsUnderRandomLoad) {
  int64_t copies = 0, tokens = 0, preemptions = 0, swapped = 0, cached = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 rng(seed);
    SchedulerLimits l = limits(2 + rng() % 9, 0, rng() % 3 * 5);
    l.max_num_batched_tokens = l.max_num_seqs + rng() % 40;
    l.watermark_blocks = rng() % 3;
    if (rng() % 6 == 0) {
      l.chunked_prefill = false;
      l.prefill_chunk = 0;
      l.max_num_batched_tokens = 80;
    }
    PoolSetup pool{5 + static_cast<int64_t>(rng() % 20)};
    pool.prefix_caching = rng() % 4 != 0;
    pool.swap_blocks = rng() % 2 * 12;
    Harness h(l, pool, seed);
    std::vector<Request> prompts;
    for (int i = 0; i < 6; ++i) prompts.push_back(h.request(1 + h.random(45), 1, 1));
    for (int i = 0; i < 200; ++i) {
      if (h.random(4) == 0) {
        Request r = prompts[h.random(6)];
        r.max_new_tokens = 1 + h.random(30);
        r.num_samples = 1 + h.random(6);
        r.priority = h.random(3) == 0 ? h.random(3) : 0;
        h.submit(r);
      }
      h.step(5);
      if (h.random(60) == 0 && !h.scheduler.requests().empty()) h.abort_request(h.random(100));
      if (h.random(80) == 0) h.publish();
      if (h.random(30) == 0) h.set_admitting(h.random(2) == 0);
      if (HasFatalFailure()) return;
    }
    h.set_admitting(true);
    h.run();
    h.expect_empty();
    copies += h.copies;
    tokens += h.tokens;
    preemptions += h.scheduler.counts().preemptions;
    swapped += h.scheduler.counts().swapped_blocks;
    cached += h.scheduler.counts().cached_tokens;
  }
  EXPECT_GT(copies, 1000);
  EXPECT_GT(tokens, 20000);
  EXPECT_GT(preemptions, 1000);
  EXPECT_GT(swapped, 500);
  EXPECT_GT(cached, 10000);
}

}  // namespace
}  // namespace rl
