// Lanes: how many prompts an engine generates at once, and until when a sample keeps its lane; and
// prompts that are read before they are drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <sstream>

#include "late_scorer.h"
#include "option_looks.h"
#include "pipeline/prompts/prompt_prefetch.h"
#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using testing::LateScorer;
using testing::options_with;
using testing::Rig;
using testing::RunLog;
using Texts = std::vector<std::string>;

const Texts kLanes = {"pipeline.max_concurrent_prompts_per_engine=1"};

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<int64_t> numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<int64_t> out;
  for (int64_t n; in >> n;) out.push_back(n);
  return out;
}

uint64_t digest(const OptionSet& o) {
  Rig rig(o);
  rig.start_and_serve();
  return rig.model().weight_digest();
}

TEST(Lanes, NoMoreSamplesRunThanThereAreLanes) {
  const TempDir dir;
  const auto most = [&](const Texts& texts) {
    return std::ranges::max(numbers(testing::most_running(options_with(dir, texts))));
  };
  EXPECT_GT(most({}), 8);
  EXPECT_EQ(most(kLanes), 4);
  EXPECT_EQ(most({"pipeline.max_concurrent_prompts_per_engine=2"}), 8);
  EXPECT_EQ(most(kLanes + Texts{"engine.num_engines=2"}), 4) << "each engine has its own";
}

// A group waits for lanes of all its samples, so fewer run at its end.
TEST(Lanes, AGroupMayTakeAndLeaveThemTogether) {
  const TempDir dir;
  const auto forwards = [&](const Texts& texts) {
    return numbers(testing::most_running(options_with(dir, texts))).size();
  };
  EXPECT_GT(forwards(kLanes + Texts{"pipeline.sample_lanes=group"}), forwards(kLanes));
}

TEST(Lanes, ASampleMayKeepItsLaneUntilItIsScored) {
  const TempDir dir;
  const Texts held = {"pipeline.free_lane_after_generation=false"};
  EXPECT_EQ(testing::held_lanes(options_with(dir, kLanes + held)), "at most 4");
  EXPECT_NE(testing::held_lanes(options_with(dir, kLanes)), "at most 4");
}

TEST(Lanes, NoSampleChanges) {
  const TempDir dir;
  const uint64_t without = digest(options_with(dir, {}));
  for (const Texts& more : {Texts{}, Texts{"pipeline.sample_lanes=group"},
                            Texts{"pipeline.free_lane_after_generation=false"},
                            Texts{"pipeline.prompt_prefetch=true"}}) {
    EXPECT_EQ(digest(options_with(dir, kLanes + more)), without);
  }
}

TEST(Lanes, AnAsynchronousRunGoesOnInThem) {
  const TempDir dir;
  for (const char* held : {"true", "false"}) {
    SCOPED_TRACE(held);
    OptionSet o = options_with(
        dir, kLanes + Texts{"pipeline.mode=async", "model.compute_copies=2",
                            "pipeline.max_staleness=2", "pipeline.partial_rollout=true",
                            "pipeline.total_steps=5", "pipeline.reward_timeout_ns=60ms",
                            str("pipeline.free_lane_after_generation=", held)});
    o.set_string("pipeline.record_path", dir.file(str("schedule_", held)));
    Rig rig(o);
    LateScorer scorer(rig);
    rig.on_score = [late = rig.on_score](Pipeline& p, const SamplePtr& s) {
      if (s->ordinal % 6 != 3) late(p, s);  // the others miss their deadline
    };
    const RunLog log = rig.start_and_serve();
    EXPECT_EQ(log.steps.size(), 5u);
    EXPECT_FALSE(log.dropped.empty());
    for (const double taken : log.series("pipeline/lanes_taken")) EXPECT_LE(taken, 4);
    OptionSet again = o;
    again.unset("pipeline.record_path");
    again.set_string("pipeline.replay_path", dir.file(str("schedule_", held)));
    EXPECT_EQ(digest(again), rig.model().weight_digest());
  }
}

Prompt numbered(uint64_t ordinal) {
  if (ordinal == 7) throw Error(Code::kDataLoss, "row 7 is broken");
  return {{static_cast<int32_t>(ordinal)}, {}, {}, static_cast<int64_t>(ordinal)};
}

// Reads prompts one after the other.
template <typename F>
PromptPrefetch::Read with(F read_one) {
  return [read_one](uint64_t first, int64_t count, const PromptLimits& limits) {
    std::vector<ReadPrompt> prompts;
    for (int64_t i = 0; i < count; ++i) {
      ReadPrompt& read = prompts.emplace_back();
      try {
        read.prompt = read_one(first + static_cast<uint64_t>(i), limits);
      } catch (...) {
        read.failure = std::current_exception();
        break;
      }
    }
    return prompts;
  };
}

TEST(PromptPrefetch, GivesEveryPromptInAnyOrder) {
  const CpuList cpus;
  std::atomic<int64_t> reads = 0;
  PromptPrefetch ahead(with([&](uint64_t ordinal, const PromptLimits&) {
                         ++reads;
                         return numbered(ordinal);
                       }),
                       3, cpus);
  for (const uint64_t ordinal : {0, 1, 2, 3, 20, 21, 5, 6}) {
    EXPECT_EQ(ahead.take(ordinal, {}).data_row, static_cast<int64_t>(ordinal));
  }
  EXPECT_GT(reads, 8);
  EXPECT_EQ(expect_error(Code::kDataLoss, [&] { ahead.take(7, {}); }).message, "row 7 is broken");
}

TEST(PromptPrefetch, OtherLimitsReadAgain) {
  const CpuList cpus;
  PromptPrefetch ahead(with([&](uint64_t, const PromptLimits& limits) -> Prompt {
                         return {{static_cast<int32_t>(limits.max_new_tokens)}, {}, {}, 0};
                       }),
                       4, cpus);
  EXPECT_EQ(ahead.take(0, {.max_new_tokens = 8}).ids[0], 8);
  EXPECT_EQ(ahead.take(1, {.max_new_tokens = 8}).ids[0], 8);
  EXPECT_EQ(ahead.take(2, {.max_new_tokens = 9}).ids[0], 9);
}

TEST(PromptPrefetch, ABrokenRowEndsTheRunWhenItIsDrawn) {
  const TempDir dir;
  OptionSet o = options_with(
      dir, {"pipeline.prompt_prefetch=true", "pipeline.total_steps=4", "data.shuffle=false"});
  Texts rows = testing::id_rows(9);
  rows.push_back("{\"ids\": [1, 999999]}");
  testing::write_lines(dir.file("data.jsonl"), rows);
  Rig rig(o);
  rig.ends_with = Code::kOutOfRange;
  const RunLog log = rig.start_and_serve();
  EXPECT_EQ(log.steps.size(), 2u);
  EXPECT_NE(rig.pipeline().failure()->message.find("data.jsonl:10"), std::string::npos)
      << rig.pipeline().failure()->message;
}

}  // namespace
}  // namespace rl
