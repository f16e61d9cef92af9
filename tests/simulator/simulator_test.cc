// Laws of a run under any timing and fault that a seed makes: nothing is lost, trained on twice, or
// older than its bound, and the run gets on. The seed of a failure repeats it.
#include "simulator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "memory_disk.h"

namespace rl::testing {
namespace {

// Of seeds first .. first + count - 1, on two threads; RL_SIMULATOR_SEEDS replaces the count.
struct Sweep {
  std::vector<std::string> broken;
  std::set<DropReason> reasons;
  int64_t events = 0;
};

int64_t seeds_or(int64_t count) {
  const char* const text = std::getenv("RL_SIMULATOR_SEEDS");
  return text != nullptr ? std::atoll(text) : count;
}

Sweep sweep(int64_t count) {
  Sweep all;
  std::mutex mutex;
  const auto work = [&](uint64_t first) {
    Sweep mine;
    for (auto seed = first; seed < static_cast<uint64_t>(count); seed += 2) {
      const SimResult got = simulate({.seed = seed, .timing = seed});
      if (!got.broken.empty() && mine.broken.size() < 5) mine.broken.push_back(got.broken);
      mine.reasons.insert(got.reasons.begin(), got.reasons.end());
      mine.events += got.events;
    }
    const std::lock_guard lock(mutex);
    all.broken.insert(all.broken.end(), mine.broken.begin(), mine.broken.end());
    all.reasons.merge(mine.reasons);
    all.events += mine.events;
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  return all;
}

bool is_reserved(DropReason reason) {
  return reason == DropReason::kOverlong || reason == DropReason::kPoisoned ||
         reason == DropReason::kRollback;
}

TEST(Simulator, NoSeedBreaksALaw) {
  const int64_t count = seeds_or(100'000);
  const Sweep all = sweep(count);
  for (const std::string& broken : all.broken) ADD_FAILURE() << broken;
  EXPECT_GT(all.events, 50 * count);
  for (size_t i = 1; i < kNumDropReasons; ++i) {
    const auto reason = static_cast<DropReason>(i);
    EXPECT_NE(all.reasons.contains(reason), is_reserved(reason)) << drop_reason_name(reason);
  }
}

TEST(Simulator, OneStepOffTrainsOnTheSameInAnyTiming) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SimOptions o{.seed = seed, .mode = SimMode::kOneStepOff, .faults = false, .feeds = false};
    const SimResult first = simulate(o);
    o.timing = seed + 1;
    const SimResult second = simulate(o);
    ASSERT_EQ(first.broken + second.broken, "");
    ASSERT_EQ(first.digest, second.digest) << "seed " << seed;
  }
}

TEST(Simulator, AsyncWithoutStalenessTrainsOnWhatSyncDoes) {
  int64_t trained = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SimOptions o{.seed = seed, .mode = SimMode::kSync, .faults = false, .filters = false};
    const SimResult sync = simulate(o);
    o.mode = SimMode::kAsync;
    o.bounds = 0;
    const SimResult async = simulate(o);
    ASSERT_EQ(sync.broken + async.broken, "");
    ASSERT_EQ(sync.digest, async.digest) << "seed " << seed;
    trained += sync.digest != 0;
  }
  EXPECT_GT(trained, 2000) << "a feed may have no whole step";
}

TEST(Simulator, EveryMistakeIsFound) {
  const std::map<Bug, const char*> bugs = {{Bug::kDrawsTooFarAhead, "draws too far ahead"},
                                           {Bug::kIgnoresSlowGroups, "ignores slow groups"},
                                           {Bug::kPublishesAtOnce, "publishes at once"},
                                           {Bug::kKeepsHoldingBack, "keeps holding back"},
                                           {Bug::kForgetsOpenGroups, "forgets open groups"},
                                           {Bug::kRedrawsTrainedGroup, "redraws a trained group"},
                                           {Bug::kLosesAChange, "loses a change"},
                                           {Bug::kForgetsDeadlines, "forgets deadlines"},
                                           {Bug::kTakesTooFew, "takes too few"},
                                           {Bug::kNeverCancels, "never cancels"},
                                           {Bug::kEvaluatesMeanwhile, "evaluates meanwhile"},
                                           {Bug::kDropsSilently, "drops silently"},
                                           {Bug::kSkipsGroups, "skips groups"},
                                           {Bug::kCountsTokensTwice, "counts tokens twice"},
                                           {Bug::kThrowsSurplusAway, "throws surplus away"},
                                           {Bug::kSwallowsFailures, "swallows failures"},
                                           {Bug::kTrainsPartOfAGroup, "trains part of a group"},
                                           {Bug::kForgetsItsAge, "forgets its age"},
                                           {Bug::kEvictsFreshGroups, "evicts fresh groups"},
                                           {Bug::kDropsSlowGroups, "drops slow groups"},
                                           {Bug::kUnmasksOldTokens, "unmasks old tokens"},
                                           {Bug::kKeepsOldWeights, "keeps old weights"},
                                           {Bug::kTrainsSkippedSteps, "trains skipped steps"},
                                           {Bug::kTakesNaN, "takes a reward that is no number"},
                                           {Bug::kTearsCheckpoints, "tears checkpoints"},
                                           {Bug::kForgetsTheCursor, "forgets the cursor"}};
  EXPECT_EQ(bugs.size(), static_cast<size_t>(Bug::kForgetsTheCursor));
  for (const auto& [bug, name] : bugs) {
    uint64_t seed = 0;
    std::string found;
    for (; seed < 10'000 && found.empty(); ++seed) {
      found = simulate({.seed = seed, .timing = seed, .bug = bug}).broken;
    }
    EXPECT_FALSE(found.empty()) << name;
    RecordProperty(name, found);
  }
}

std::string text_of(const LedgerCounts& c) {
  return str(c.attempts_started, " started, ", c.attempts_trained, " trained, ", c.discarded(),
             " discarded, ", c.prompts_drawn, " prompts, ", c.prompts_trained, " trained, ",
             c.dropped(), " dropped, ", c.tokens_generated, " tokens, ", c.tokens_trained,
             " trained, ", c.tokens_discarded, " discarded");
}

// Whatever happened, also a crash and what went on behind it. A run that failed has no more steps
// in its record than it had, and the step in which it failed is trained to its end.
TEST(Simulator, AReplayHasTheBooksOfItsRun) {
  int64_t crashed = 0, failed = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    MemoryDisk files;
    SimOptions o{.seed = seed, .timing = seed, .feeds = false, .record_to = &files};
    const SimResult first = simulate(o);
    ASSERT_EQ(first.broken, "");
    o.record_to = nullptr;
    o.replay_from = &files;
    o.timing = seed + 1;
    const SimResult second = simulate(o);
    ASSERT_EQ(second.broken, "");
    crashed += first.crashed;
    failed += first.failed;
    if (first.failed) continue;
    ASSERT_EQ(first.digest, second.digest) << "seed " << seed;
    LedgerCounts books = first.books;
    // Scores that are refused change nothing, and a replay has none.
    books.late_scores = books.duplicate_scores = books.unknown_scores = books.nonfinite_scores = 0;
    ASSERT_TRUE(books == second.books)
        << "seed " << seed << ": " << text_of(books) << " but " << text_of(second.books);
  }
  EXPECT_GT(crashed, 100);
  EXPECT_GT(failed, 50);
}

// What is left of a record whose run was killed is a run as well.
TEST(Simulator, ATornRecordReplaysUpToItsEnd) {
  int64_t torn = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    MemoryDisk files;
    SimOptions o{.seed = seed, .timing = seed, .feeds = false, .record_to = &files};
    ASSERT_EQ(simulate(o).broken, "");
    std::vector<std::byte>& bytes = files.files.at(kSimRecord);
    Dice dice(seed);
    const int64_t cut = dice.below(static_cast<int64_t>(bytes.size()) / 2);
    bytes.resize(bytes.size() - static_cast<size_t>(cut));
    const ScheduleExtent extent = ScheduleReader(files, kSimRecord).extent();
    torn += extent.torn && extent.cut_bytes > 0;
    o.record_to = nullptr;
    o.replay_from = &files;
    ASSERT_EQ(simulate(o).broken, "");
  }
  EXPECT_GT(torn, 300);
}

TEST(Simulator, TheSameSeedGivesTheSameRun) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const SimResult a = simulate({.seed = seed, .timing = seed});
    const SimResult b = simulate({.seed = seed, .timing = seed});
    ASSERT_EQ(a.digest, b.digest);
    ASSERT_EQ(a.events, b.events);
  }
}

}  // namespace
}  // namespace rl::testing
