// Ids of samples: none is given twice, by an engine, by several of a runtime, or by processes with
// other values of runtime.instance.
#include "pipeline/session/sample_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "run_rig.h"
#include "support/expect_error.h"

namespace rl {
namespace {

TEST(SampleIds, CountFromTheirInstance) {
  SampleIds none(0), third(3);
  EXPECT_EQ(none.take(2), 1u);
  EXPECT_EQ(none.take(0), 3u);
  EXPECT_EQ(none.take(1), 3u);
  EXPECT_EQ(third.take(1), (uint64_t{3} << 48) + 1);
}

TEST(SampleIds, ThoseThatNothingUsedAreGivenAgainUnlessOthersCameBetween) {
  SampleIds ids(0);
  const uint64_t first = ids.take(4);
  ids.give_back(first, 4);
  EXPECT_EQ(ids.take(2), first);
  const uint64_t second = ids.take(1);
  ids.give_back(first, 2);
  EXPECT_EQ(ids.take(1), second + 1);
}

TEST(SampleIds, AreNeverThoseThatAHostHasGiven) {
  SampleIds ids(1);
  const uint64_t base = uint64_t{1} << 48;
  ids.note(7, 3);         // of another instance
  ids.note(2 * base, 1);  // and so is this
  ids.note(UINT64_MAX, 1);
  EXPECT_EQ(ids.take(1), base + 1);
  ids.note(base + 10, 5);
  EXPECT_EQ(ids.take(1), base + 15);
  ids.note(base + 3, 5);
  EXPECT_EQ(ids.take(1), base + 16);
}

TEST(SampleIds, EndWithTheirInstance) {
  SampleIds ids(1);
  const uint64_t end = uint64_t{2} << 48;
  ids.note(end - 3, 1);
  EXPECT_EQ(ids.take(2), end - 2);
  expect_error(Code::kResourceExhausted, [&] { ids.take(1); });
  SampleIds other(1);
  other.note(end - 1, 9);  // reaches into the next one
  expect_error(Code::kResourceExhausted, [&] { other.take(1); });
}

TEST(SampleIds, OfSeveralThreadsDiffer) {
  SampleIds ids(0);
  std::vector<uint64_t> all[3];
  {
    std::vector<std::jthread> threads;
    for (auto& mine : all) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          const uint64_t first = ids.take(2);
          if (i % 3 == 0) {
            ids.give_back(first, 2);
          } else {
            mine.insert(mine.end(), {first, first + 1});
          }
        }
      });
    }
  }
  std::vector<uint64_t> together;
  for (const auto& mine : all) together.insert(together.end(), mine.begin(), mine.end());
  std::ranges::sort(together);
  EXPECT_EQ(std::ranges::adjacent_find(together), together.end());
}

// The instance moves every id of a run and nothing else.
TEST(SampleIds, OfAPipelineCarryItsInstance) {
  std::vector<std::vector<std::pair<uint64_t, std::vector<int32_t>>>> runs;
  std::vector<uint64_t> digests;
  for (const uint64_t instance : {uint64_t{0}, uint64_t{5}}) {
    const TempDir dir;
    OptionSet o = testing::tiny_options(dir);
    o.set_u64("runtime.instance", instance);
    o.set_i64("pipeline.total_steps", 1);
    testing::Rig rig(o);
    const auto log = rig.start_and_serve();
    auto& run = runs.emplace_back();
    for (const SamplePtr& s : log.samples) {
      EXPECT_EQ(s->id, (instance << 48) + 1 + 4 * s->ordinal + s->slot);
      run.emplace_back(s->id - (instance << 48), s->ids);
    }
    std::ranges::sort(run);
    digests.push_back(rig.model().weight_digest());
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(digests[0], digests[1]);
}

}  // namespace
}  // namespace rl
