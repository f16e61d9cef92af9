// The laws of the books under random events, and the experience buffer.
#include "buffer/ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "buffer/experience_buffer.h"
#include "core/rng.h"
#include "pipeline/groups/score_board.h"
#include "pipeline/loop/run_state.h"
#include "support/expect_error.h"

namespace rl {
namespace {

// Draws below n, one after another.
class Draws {
 public:
  explicit Draws(uint64_t seed) : key_{seed, RngPurpose::kInit} {}
  uint64_t below(uint64_t n) { return random_bits(key_, next_++, 0, 0) % n; }

 private:
  PhiloxKey key_;
  uint64_t next_ = 0;
};

SamplePtr make_sample(const ScoreBoard& board, uint64_t ordinal, uint32_t slot, int64_t tokens) {
  auto s = std::make_shared<Sample>();
  s->id = board.sample_id(ordinal, slot);
  s->ordinal = ordinal;
  s->slot = slot;
  s->ids.assign(static_cast<size_t>(2 + tokens), 1);
  s->prompt_tokens = 2;
  s->logprobs.assign(static_cast<size_t>(tokens), -1.0f);
  s->logprobs_sampled = s->logprobs;
  s->versions.assign(static_cast<size_t>(tokens), 0);
  s->loss_mask.assign(static_cast<size_t>(tokens), 1);
  return s;
}

// One random host and engine against a board, with its own count of what should come out.
class Simulation {
 public:
  explicit Simulation(uint64_t seed)
      : draws_(seed),
        size_(1 + draws_.below(4)),
        board_(size_, 1),
        buffer_(static_cast<int64_t>(size_), 10000) {}

  void step() {
    now_ += static_cast<int64_t>(draws_.below(5));
    switch (draws_.below(9)) {
      case 0:
        open();
        break;
      case 1:
      case 2:
      case 3:
        finish();
        break;
      case 4:
      case 5:
        answer();
        break;
      case 6:
        board_.expire(now_);
        break;
      case 7:
        commit_groups();
        break;
      default:
        end_step();
        break;
    }
    board_.ledger().check();
  }
  void end() {
    board_.abandon(DropReason::kShutdown, {});
    const LedgerCounts& c = board_.ledger().counts();
    EXPECT_EQ(c.attempts_in_flight, 0);
    EXPECT_EQ(c.attempts_started, static_cast<int64_t>(opened_ * size_));
    EXPECT_EQ(c.prompts_trained * static_cast<int64_t>(size_), c.attempts_trained);
    EXPECT_EQ(c.tokens_generated, tokens_);
    EXPECT_EQ(c.attempts_trained, trained_);
    EXPECT_EQ(board_.unscored(), 0);
  }

 private:
  void open() {
    running_.emplace(opened_, 0u);
    board_.open(opened_++, -1);
  }
  void finish() {
    if (running_.empty()) return;
    auto it = running_.begin();
    std::advance(it, static_cast<long>(draws_.below(running_.size())));
    const auto tokens = static_cast<int64_t>(draws_.below(9));
    tokens_ += tokens;
    board_.finish(make_sample(board_, it->first, it->second, tokens), now_ + 20);
    if (++it->second == size_) running_.erase(it);
  }
  void answer() {
    const uint64_t id = draws_.below(opened_ * size_ + 3);
    try {
      if (draws_.below(10) == 0)
        board_.fail(id, "no", now_);
      else
        board_.score(id, draws_.below(12) == 0 ? 0.0 / 0.0 : 1.0, now_);
    } catch (const Error& e) {
      const bool known = e.code == Code::kNotFound || e.code == Code::kDuplicate ||
                         e.code == Code::kLate || e.code == Code::kNonFinite;
      EXPECT_TRUE(known) << e.message;
    }
  }
  // Some of them are dropped instead, before or after.
  void commit_groups() {
    for (const uint64_t ordinal : board_.complete()) {
      const uint64_t fate = draws_.below(6);
      if (fate != 0) buffer_.put_all(board_.hand_over(ordinal));
      if (fate == 1) buffer_.erase(ordinal);
      if (fate <= 1) board_.drop(ordinal, DropReason::kFiltered, "no");
    }
  }
  // A step on some of the groups committed so far; it may be undone.
  void end_step() {
    std::vector<SamplePtr> batch = buffer_.take(static_cast<int64_t>(1 + draws_.below(3)));
    uint64_t last = 0;
    for (const SamplePtr& s : batch) {
      const uint64_t place = s->ordinal * size_ + s->slot + 1;
      EXPECT_GT(place, last);  // (ordinal, slot) order
      last = place;
      EXPECT_TRUE(s->scored);
    }
    board_.reserve(batch);
    board_.ledger().check();
    if (draws_.below(3) == 0) {
      board_.unreserve();
      buffer_.put_all(std::move(batch));
      return;
    }
    trained_ += static_cast<int64_t>(batch.size());
    board_.commit();
  }

  Draws draws_;
  uint64_t size_;
  ScoreBoard board_;
  ExperienceBuffer buffer_;
  std::map<uint64_t, uint32_t> running_;  // ordinal: slots finished
  uint64_t opened_ = 0;
  int64_t now_ = 0, tokens_ = 0, trained_ = 0;
};

TEST(Ledger, InvariantsHoldAfterEveryEventOfRandomRuns) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    Simulation simulation(seed);
    for (int i = 0; i < 400; ++i) simulation.step();
    simulation.end();
  }
}

TEST(Ledger, ImpossibleTransitionsAreBrokenInvariants) {
  Ledger l;
  l.open_group(3, 2);
  EXPECT_THROW(l.open_group(3, 2), Error);
  EXPECT_THROW(l.open_group(2, 2), Error);  // ordinals grow
  EXPECT_THROW(l.scored(3, 0), Error);      // not finished
  l.finished(3, 0, 5);
  EXPECT_THROW(l.finished(3, 0, 5), Error);
  EXPECT_THROW(l.reserve(3), Error);  // slot 1 runs
  EXPECT_THROW(l.finished(3, 2, 5), Error);
  l.scored(3, 0);
  EXPECT_THROW(l.scored(3, 0), Error);
  EXPECT_THROW(l.drop(3, DropReason::kNone, 0), Error);
  l.drop(3, DropReason::kCancelled, 2);
  l.check();
  EXPECT_EQ(l.counts().tokens_discarded, 7);
  EXPECT_THROW(l.drop(3, DropReason::kCancelled, 0), Error);  // closed
}

TEST(Ledger, AnUndoneStepMayBeRepeated) {
  Ledger l;
  l.open_group(0, 1);
  l.finished(0, 0, 4);
  l.scored(0, 0);
  l.reserve(0);
  EXPECT_THROW(l.reserve(0), Error);
  l.unreserve();
  l.check();
  l.commit();
  EXPECT_EQ(l.counts().attempts_trained, 0);
  EXPECT_TRUE(l.is_open(0));
  l.reserve(0);
  l.commit();
  l.check();
  EXPECT_EQ(l.counts().attempts_trained, 1);
  EXPECT_EQ(l.counts().tokens_trained, 4);
  EXPECT_FALSE(l.is_open(0));
}

TEST(Ledger, CountsThatBreakALawAreNotRestored) {
  LedgerCounts c;
  c.attempts_started = 4;
  c.attempts_trained = 3;
  Ledger l;
  EXPECT_EQ(expect_error(Code::kInternal, [&] { l.restore(c, 1); }).code, Code::kInternal);
}

TEST(Ledger, CountsWithAttemptsInFlightAreOfNoCheckpoint) {
  LedgerCounts c;
  c.attempts_started = c.attempts_in_flight = 4;  // the laws hold
  Ledger attempts;
  expect_error(Code::kInternal, [&] { attempts.restore(c, 1); });
  c = {};
  c.tokens_generated = c.tokens_in_flight = 9;
  Ledger tokens;
  expect_error(Code::kInternal, [&] { tokens.restore(c, 1); });
}

TEST(Ledger, OrdinalsBelowThoseOfARestoredRunWereOpenedBefore) {
  Ledger l;
  l.restore(LedgerCounts{}, 5);
  expect_error(Code::kInternal, [&] { l.open_group(4, 1); });
  l.open_group(5, 1);
  EXPECT_TRUE(l.is_open(5));
}

TEST(RunState, SurvivesItsText) {
  RunState s;
  s.step = 3;
  s.cursor = 24;
  s.seed = UINT64_MAX;
  s.max_tokens = 64;
  s.ledger.attempts_started = 5;
  s.ledger.attempts_discarded[static_cast<size_t>(DropReason::kFiltered)] = 5;
  const std::string text = render_run_state(s);
  EXPECT_EQ(parse_run_state(text, "here"), s);
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_THROW(parse_run_state(text.substr(0, n), "here"), Error) << n;
  }
  std::string unknown = text;
  unknown.insert(1, "\"surprise\":1,");
  expect_error(Code::kDataLoss, [&] { parse_run_state(unknown, "here"); });
}

TEST(ExperienceBuffer, HandsOutWholeGroupsInOrder) {
  ExperienceBuffer b(2, 8);
  const ScoreBoard ids(2, 1);
  const auto scored = [&](uint64_t ordinal, uint32_t slot) {
    SamplePtr s = make_sample(ids, ordinal, slot, 1);
    s->scored = true;
    return s;
  };
  b.put(scored(7, 1));
  b.put(scored(4, 1));
  EXPECT_TRUE(b.take(9).empty());
  b.put(scored(4, 0));
  b.put(scored(7, 0));
  b.put(scored(9, 0));
  EXPECT_EQ(b.num_whole_groups(), 2);
  const std::vector<SamplePtr> first = b.take(1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0]->ordinal, 4u);
  EXPECT_EQ(first[0]->slot, 0u);
  EXPECT_EQ(first[1]->slot, 1u);
  EXPECT_EQ(b.take(9).size(), 2u);
  EXPECT_EQ(b.num_samples(), 1);
  expect_error(Code::kDuplicate, [&] { b.put(scored(9, 0)); });
  expect_error(Code::kOutOfRange, [&] { b.put(scored(9, 2)); });
  expect_error(Code::kFailedPrecondition, [&] { b.put(make_sample(ids, 1, 0, 1)); });
  SamplePtr bad = scored(10, 0);
  bad->reward = 0.0 / 0.0;
  expect_error(Code::kNonFinite, [&] { b.put(bad); });
  for (uint64_t o = 20; b.num_samples() < 8; ++o) b.put(scored(o, 0));
  expect_error(Code::kResourceExhausted, [&] { b.put(scored(99, 0)); });
}

}  // namespace
}  // namespace rl
