// Who runs in which step, how many rows that takes and what is counted: small cases with exact
// numbers. Laws under random load are in scheduler_test.cc.
#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <vector>

#include "rollout/scheduler.h"

namespace rl {
namespace {

constexpr int64_t kBlock = 16;

std::vector<int32_t> prompt_of(int64_t tokens, int32_t first = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = first + static_cast<int32_t>(i);
  return ids;
}

// What a step did.
struct Rows {
  int64_t prefill, decode;
  bool operator==(const Rows&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Rows& r) {
  return out << r.prefill << " prefilled, " << r.decode << " decoded";
}

class Turns : public ::testing::Test {
 protected:
  void make(const SchedulerLimits& limits, int64_t num_blocks, int64_t swap_blocks = 0) {
    blocks_.emplace(num_blocks, kBlock, true);
    swap_.emplace(swap_blocks);
    scheduler_.emplace(limits, *blocks_, *swap_);
  }
  ActiveRequest* submit(std::vector<int32_t> prompt, int64_t max_new_tokens, int64_t samples = 1) {
    Request r;
    r.prompt = std::move(prompt);
    r.max_new_tokens = max_new_tokens;
    r.num_samples = samples;
    auto active = make_active(r, number_++, SchedulingPolicy::kFcfs);
    ActiveRequest* const submitted = active.get();
    scheduler_->submit(std::move(active));
    return submitted;
  }
  // A step in which every sample that may gets the next token, of an id that no other has.
  Rows step() {
    const StepSchedule& schedule = scheduler_->next();
    const Rows rows{schedule.prefill_rows, schedule.decode_rows};
    transfers_ = schedule.transfers;
    std::vector<Sequence*> targets;
    for (const ScheduledRows& r : schedule.rows) {
      if (!r.needs_logits()) continue;
      targets.push_back(r.sequence);
      if (!r.sequence->is_leader()) continue;
      for (Sequence& s : r.sequence->request->sequences) {
        if (s.follows) targets.push_back(&s);
      }
    }
    scheduler_->advance();
    for (Sequence* s : targets) {
      s->sample->ids.push_back(next_id_++);
      if (s->length() == s->end) scheduler_->finish(*s);
    }
    scheduler_->drop_finished();
    return rows;
  }
  int64_t running() const { return scheduler_->num_running(); }
  int64_t waiting() const { return scheduler_->num_waiting(); }
  const SchedulerCounts& counts() const { return scheduler_->counts(); }

  std::optional<KvBlocks> blocks_;
  std::optional<SwapSpace> swap_;
  std::optional<Scheduler> scheduler_;
  std::vector<BlockTransfer> transfers_;  // of the last step
  uint64_t number_ = 0;
  int32_t next_id_ = 1000;
};

TEST_F(Turns, APromptOfOneTokenIsPrefilled) {
  make({.max_num_seqs = 2, .max_num_batched_tokens = 8}, 4);
  submit({5}, 3);
  EXPECT_EQ(step(), (Rows{1, 0}));
  EXPECT_EQ(step(), (Rows{0, 1}));
  EXPECT_EQ(step(), (Rows{0, 1}));
  EXPECT_EQ(step(), (Rows{0, 0}));
}

TEST_F(Turns, PromptsShareTheRoomThatDecodingLeaves) {
  make({.max_num_seqs = 4, .max_num_batched_tokens = 10}, 16);
  submit(prompt_of(4), 9);
  EXPECT_EQ(step(), (Rows{4, 0}));
  submit(prompt_of(12, 100), 9);
  submit(prompt_of(12, 200), 9);
  EXPECT_EQ(step(), (Rows{9, 1}));
  EXPECT_EQ(running(), 2) << "no room for the third";
  EXPECT_EQ(step(), (Rows{3 + 6, 1}));
  EXPECT_EQ(running(), 3);
  EXPECT_EQ(step(), (Rows{6, 2}));
  EXPECT_EQ(step(), (Rows{0, 3}));
}

TEST_F(Turns, AChunkIsLimitedForEachPromptOfItsOwn) {
  make({.max_num_seqs = 4, .max_num_batched_tokens = 10, .prefill_chunk = 4}, 16);
  submit(prompt_of(6), 9);
  submit(prompt_of(9, 100), 9);
  submit(prompt_of(9, 200), 9);
  EXPECT_EQ(step(), (Rows{4 + 4 + 2, 0}));
  EXPECT_EQ(running(), 3);
  EXPECT_EQ(step(), (Rows{2 + 4 + 4, 0}));
  EXPECT_EQ(step(), (Rows{1 + 3, 1}));
  EXPECT_EQ(step(), (Rows{0, 3}));
}

TEST_F(Turns, AnAdmissionMayLeaveExactlyTheWatermark) {
  for (const int64_t second : {2, 3}) {
    make({.max_num_seqs = 4, .max_num_batched_tokens = 128, .watermark_blocks = 2}, 6);
    submit(prompt_of(2 * kBlock), 2);
    submit(prompt_of(second * kBlock, 500), 2);
    step();
    EXPECT_EQ(waiting(), second == 2 ? 0 : 1);
    scheduler_.reset();
  }
}

// All samples have the same prompt of two whole blocks and three tokens.
TEST_F(Turns, OneOfAGroupComputesThePromptAnewForTheOthers) {
  make({.max_num_seqs = 4, .max_num_batched_tokens = 64}, 32);
  constexpr int64_t kPrompt = 2 * kBlock + 3;
  submit(prompt_of(kPrompt), 9, 4);
  EXPECT_EQ(step(), (Rows{kPrompt, 0}));
  EXPECT_EQ(step(), (Rows{0, 4}));
  EXPECT_EQ(counts().looked_up_tokens, kPrompt) << "followers look nothing up";
  scheduler_->forget_computed();
  EXPECT_EQ(blocks_->pool().num_used(), 0);
  EXPECT_EQ(waiting(), 4);
  EXPECT_EQ(scheduler_->num_begun(), 4);
  EXPECT_EQ(step(), (Rows{kPrompt + 2, 0})) << "the others wait for the blocks of the first";
  EXPECT_EQ(running(), 1);
  EXPECT_EQ(step(), (Rows{3 * 5, 1})) << "which they then find";
  EXPECT_EQ(running(), 4);
  EXPECT_EQ(counts().looked_up_tokens, kPrompt + 4 * (kPrompt + 2));
  EXPECT_EQ(counts().cached_tokens, 3 * 2 * kBlock);
  EXPECT_EQ(step(), (Rows{0, 4}));
}

// Without a whole block to share, nobody waits for another's prompt.
TEST_F(Turns, AGroupThatHasBegunSharesNothingOfAShortPrompt) {
  make({.max_num_seqs = 4, .max_num_batched_tokens = 64}, 32);
  submit(prompt_of(5), 9, 3);
  EXPECT_EQ(step(), (Rows{5, 0}));
  EXPECT_EQ(step(), (Rows{0, 3}));
  scheduler_->forget_computed();
  EXPECT_EQ(step(), (Rows{3 * 7, 0}));
  EXPECT_EQ(counts().cached_tokens, 0);
}

// The end of a sequence frees its last block first, so a prefix loses its end before its beginning.
TEST_F(Turns, TheBeginningOfAPrefixIsKeptLongest) {
  make({.max_num_seqs = 1, .max_num_batched_tokens = 64}, 3);
  submit(prompt_of(3 * kBlock), 1);
  EXPECT_EQ(step(), (Rows{3 * kBlock, 0}));
  EXPECT_EQ(blocks_->cached_tokens(prompt_of(3 * kBlock)), 3 * kBlock);
  submit(prompt_of(4, 500), 1);
  EXPECT_EQ(step(), (Rows{4, 0}));
  EXPECT_EQ(blocks_->cached_tokens(prompt_of(3 * kBlock)), 2 * kBlock);
  submit(prompt_of(3 * kBlock), 1);
  EXPECT_EQ(step(), (Rows{kBlock, 0}));
  EXPECT_EQ(counts().cached_tokens, 2 * kBlock);
  EXPECT_EQ(counts().looked_up_tokens, 6 * kBlock + 4);
}

// Each of two has one whole block; the first then needs a third block of three.
TEST_F(Turns, ASwappedSequenceComesBackWithAllItHadComputed) {
  make({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 3, 2);
  submit(prompt_of(kBlock), 4);
  ActiveRequest* const last = submit(prompt_of(kBlock, 500), 4);
  EXPECT_EQ(step(), (Rows{2 * kBlock, 0}));
  EXPECT_EQ(step(), (Rows{0, 1})) << "one block for two sequences that need one";
  const Sequence& s = last->sequences[0];
  EXPECT_EQ(s.state, SequenceState::kWaiting);
  EXPECT_EQ(s.preemptions, 1u);
  EXPECT_EQ(s.computed, kBlock);
  EXPECT_EQ(s.swapped, (std::vector<int32_t>{0}));
  EXPECT_TRUE(s.blocks.empty());
  EXPECT_EQ(counts().preemptions, 1);
  EXPECT_EQ(counts().swapped_blocks, 1);
  ASSERT_EQ(transfers_.size(), 1u);
  EXPECT_EQ(transfers_[0].kind, BlockTransfer::Kind::kSwapOut);
  EXPECT_EQ(transfers_[0].to, 0);
  EXPECT_EQ(swap_->num_free(), 1);
  while (running() == 1 && waiting() == 1) {
    ASSERT_EQ(step(), (Rows{0, 1}));
    EXPECT_EQ(swap_->num_free(), s.swapped.empty() ? 2 : 1);
  }
  ASSERT_EQ(running(), 0);
  EXPECT_EQ(step(), (Rows{0, 1})) << "nothing is computed anew";
  ASSERT_EQ(transfers_.size(), 1u);
  EXPECT_EQ(transfers_[0].kind, BlockTransfer::Kind::kSwapIn);
  EXPECT_EQ(transfers_[0].from, 0);
  EXPECT_EQ(s.computed, kBlock + 1);
  EXPECT_EQ(s.blocks.size(), 2u);
  EXPECT_EQ(swap_->num_free(), 2);
  EXPECT_EQ(counts().looked_up_tokens, 2 * kBlock) << "what is swapped in is not looked up";
}

TEST_F(Turns, AWaitingSequenceThatEndsGivesItsPlacesBack) {
  make({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 3, 2);
  submit(prompt_of(kBlock), 4);
  ActiveRequest* const last = submit(prompt_of(kBlock, 500), 4);
  step();
  step();
  ASSERT_EQ(swap_->num_free(), 1);
  EXPECT_EQ(scheduler_->num_begun(), 2);
  scheduler_->finish(last->sequences[0]);
  EXPECT_EQ(last->unfinished, 0);
  EXPECT_EQ(swap_->num_free(), 2);
  EXPECT_EQ(waiting(), 0);
  EXPECT_EQ(scheduler_->num_begun(), 1);
  EXPECT_EQ(scheduler_->requests().size(), 2u);
  scheduler_->drop_finished();
  EXPECT_EQ(scheduler_->requests().size(), 1u);
}

TEST_F(Turns, KeptPositionsAreThoseThatWereComputed) {
  make({.max_num_seqs = 2, .max_num_batched_tokens = 64}, 8, 2);
  ActiveRequest* const first = submit(prompt_of(kBlock + 4), 9);
  ActiveRequest* const second = submit(prompt_of(5, 500), 9);
  ActiveRequest* const third = submit(prompt_of(5, 600), 9);
  step();
  step();
  scheduler_->keep_computed();
  EXPECT_EQ(first->sequences[0].kept, kBlock + 5);
  EXPECT_EQ(second->sequences[0].kept, 6);
  EXPECT_EQ(third->sequences[0].kept, 0) << "it never ran";
  EXPECT_EQ(blocks_->cached_tokens(prompt_of(kBlock + 4)), 0);
  EXPECT_EQ(step(), (Rows{0, 2})) << "nothing is computed anew";
  EXPECT_EQ(first->sequences[0].kept, kBlock + 5);
}

TEST_F(Turns, AskedTwiceItHandsTransfersOutOnce) {
  make({.max_num_seqs = 4, .max_num_batched_tokens = 64}, 16);
  submit(prompt_of(5), 9, 3);
  step();
  const StepSchedule& schedule = scheduler_->next();
  EXPECT_EQ(schedule.transfers.size(), 2u) << "two of three copy the block they share";
  for (const BlockTransfer& t : schedule.transfers) {
    EXPECT_EQ(t.kind, BlockTransfer::Kind::kCopy);
    EXPECT_NE(t.from, t.to);
  }
  EXPECT_EQ(schedule.decode_rows, 3);
  scheduler_->next();
  EXPECT_TRUE(schedule.transfers.empty());
  EXPECT_EQ(schedule.decode_rows, 3);
  EXPECT_EQ(schedule.rows.size(), 3u);
}

}  // namespace
}  // namespace rl
