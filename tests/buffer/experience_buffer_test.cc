// The buffer of several threads; under ThreadSanitizer a lock that is left out is a race.
#include "buffer/experience_buffer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/expect_error.h"

namespace rl {
namespace {

constexpr uint64_t kGroups = 200;

SamplePtr sample_of(uint64_t ordinal, uint32_t slot, uint64_t version = 0) {
  auto s = std::make_shared<Sample>();
  s->id = 1 + ordinal * 2 + slot;
  s->ordinal = ordinal;
  s->slot = slot;
  s->ids = {1, 2, 3};
  s->prompt_tokens = 2;
  s->logprobs = s->logprobs_sampled = {-1.0f};
  s->versions = {version};
  s->loss_mask = {1};
  s->scored = true;
  return s;
}

TEST(ExperienceBuffer, ManyThreadsPutTakeCountAndVisit) {
  ExperienceBuffer buffer(2, 1000, true);
  std::atomic<int> putting = 2;
  std::vector<std::jthread> threads;
  for (const uint32_t slot : {0u, 1u}) {
    threads.emplace_back([&, slot] {
      for (uint64_t g = 0; g < kGroups; ++g) {
        if (g % 2 == 0) {
          buffer.put(sample_of(g, slot));
        } else {
          buffer.put_all({sample_of(g, slot)});
        }
      }
      --putting;
    });
  }
  threads.emplace_back([&] {
    while (putting > 0) {
      EXPECT_LE(buffer.num_whole_groups() * 2, static_cast<int64_t>(2 * kGroups));
      EXPECT_LE(buffer.num_samples(), static_cast<int64_t>(2 * kGroups));
      buffer.visit([](const Group& g) { EXPECT_LE(g.samples.size(), 2u); });
    }
  });
  size_t taken = 0;
  while (putting > 0) taken += buffer.take(3).size();
  threads.clear();
  taken += buffer.take(1000).size();
  EXPECT_EQ(taken, 2 * kGroups);
  EXPECT_EQ(buffer.num_samples(), 0);
}

TEST(ExperienceBuffer, AGroupThatIsErasedMakesRoom) {
  ExperienceBuffer buffer(2, 3, true);
  buffer.put_all({sample_of(4, 0), sample_of(4, 1), sample_of(5, 0)});
  buffer.erase(4);
  buffer.erase(6);  // there is none
  EXPECT_EQ(buffer.num_samples(), 1);
  EXPECT_EQ(buffer.num_whole_groups(), 0);
  buffer.put_all({sample_of(4, 0), sample_of(4, 1)});
  buffer.clear();
  EXPECT_EQ(buffer.num_samples(), 0);
  EXPECT_TRUE(buffer.take(9).empty());
}

std::vector<uint64_t> ordinals_of(const std::vector<SamplePtr>& samples) {
  std::vector<uint64_t> out;
  for (const SamplePtr& s : samples) {
    if (s->slot == 0) out.push_back(s->ordinal);
  }
  return out;
}

using Ordinals = std::vector<uint64_t>;

void put_groups(ExperienceBuffer& buffer, uint64_t count) {
  for (uint64_t g = 0; g < count; ++g) buffer.put_all({sample_of(g, 0, g), sample_of(g, 1, g)});
}

void expect_law(const ExperienceBuffer& buffer) {
  const BufferCounts c = buffer.counts();
  EXPECT_EQ(c.put, c.taken + c.dropped + c.stale + c.held);
  EXPECT_EQ(c.held, buffer.num_samples());
  EXPECT_EQ(c.whole_groups, buffer.num_whole_groups());
}

TEST(ExperienceBuffer, TheNewestGroupsComeFirstIfTheRuleSaysSo) {
  ExperienceBuffer buffer(2, 20, true);
  put_groups(buffer, 5);
  buffer.put(sample_of(9, 0));  // not whole
  EXPECT_EQ(ordinals_of(buffer.take({.max_groups = 2, .newest_first = true}, 0)), (Ordinals{3, 4}));
  EXPECT_EQ(ordinals_of(buffer.take({.max_groups = 2}, 0)), (Ordinals{0, 1}));
  EXPECT_TRUE(buffer.take({.min_groups = 2, .max_groups = 2}, 0).empty()) << "one is left";
  EXPECT_EQ(ordinals_of(buffer.take({.newest_first = true}, 0)), (Ordinals{2}));
  EXPECT_EQ(buffer.num_samples(), 1);
  expect_law(buffer);
}

TEST(ExperienceBuffer, TheOldestGroupsComeFirstIfTheRuleSaysSo) {
  ExperienceBuffer buffer(2, 20, true);
  for (const auto& [ordinal, version] :
       {std::pair<uint64_t, uint64_t>{0, 7}, {1, 5}, {2, 6}, {3, 5}, {4, kUnknownVersion}}) {
    buffer.put_all({sample_of(ordinal, 0, version), sample_of(ordinal, 1, 7)});
  }
  const auto take = [&](int64_t groups) {
    return ordinals_of(buffer.take({.max_groups = groups, .oldest_first = true}, 0));
  };
  EXPECT_EQ(take(1), (Ordinals{1}));
  EXPECT_EQ(take(2), (Ordinals{2, 3})) << "by ordinal";
  EXPECT_EQ(take(9), (Ordinals{0, 4}));
  expect_law(buffer);
}

TEST(ExperienceBuffer, WholeGroupsOfOlderVersionsAreStale) {
  ExperienceBuffer buffer(2, 20, true);
  put_groups(buffer, 4);
  buffer.put(sample_of(8, 0, 1));  // not whole: the rest of it may still come
  SamplePtr unknown[] = {sample_of(9, 0, kUnknownVersion), sample_of(9, 1, kUnknownVersion)};
  SamplePtr mixed[] = {sample_of(10, 0, 7), sample_of(10, 1, 1)};
  SamplePtr masked = sample_of(11, 1, 1);
  masked->loss_mask = {0};
  for (const SamplePtr& s : unknown) buffer.put(s);
  for (const SamplePtr& s : mixed) buffer.put(s);
  buffer.put_all({sample_of(11, 0, 5), masked});
  EXPECT_EQ(ordinals_of(buffer.take({.min_version = 2}, 0)), (Ordinals{2, 3, 9, 11}));
  EXPECT_EQ(buffer.counts().stale, 6) << "groups 0, 1 and 10";
  EXPECT_EQ(buffer.num_samples(), 1);
  buffer.put(sample_of(8, 1, 5));
  EXPECT_TRUE(buffer.take({.min_version = 2}, 0).empty());
  EXPECT_EQ(buffer.counts().stale, 8);
  EXPECT_EQ(buffer.num_samples(), 0);
  expect_law(buffer);
}

TEST(ExperienceBuffer, ASampleThatIsTakenBackDoesNotAgeItsGroup) {
  ExperienceBuffer buffer(2, 3, true);
  buffer.put(sample_of(1, 0, 5));
  expect_error(Code::kDuplicate, [&] { buffer.put_all({sample_of(1, 1, 0), sample_of(1, 0, 0)}); });
  buffer.put(sample_of(1, 1, 5));
  EXPECT_EQ(ordinals_of(buffer.take({.min_version = 5}, 0)), (Ordinals{1}));
  EXPECT_EQ(buffer.counts().put, 2);
  expect_law(buffer);
}

TEST(ExperienceBuffer, GroupsAreDroppedThatFulfilEveryCondition) {
  ExperienceBuffer buffer(2, 20, true);
  put_groups(buffer, 4);
  buffer.put(sample_of(4, 0, 0));
  buffer.put(sample_of(5, 0, 5));
  const Ordinals some = {5, 0, 7, 4, 5}, none;
  EXPECT_EQ(buffer.drop({.ordinals = std::span<const uint64_t>(none)}), 0);
  EXPECT_EQ(buffer.drop({.ordinals = some, .below_version = 5, .incomplete_only = true}), 1);
  EXPECT_EQ(buffer.drop({.ordinals = some}), 3) << "0 and 5; 4 is gone";
  EXPECT_EQ(buffer.drop({.below_version = 2}), 2);
  EXPECT_EQ(buffer.drop({.incomplete_only = true}), 0);
  EXPECT_EQ(buffer.drop({}), 4);
  EXPECT_EQ(buffer.counts().dropped, 10);
  EXPECT_EQ(buffer.counts().groups, 0);
  expect_law(buffer);
}

TEST(ExperienceBuffer, AWaitEndsWithTheGroupsThatItWantsOrItsTime) {
  ExperienceBuffer buffer(2, 20, true);
  constexpr int64_t kMillisecond = 1'000'000;
  EXPECT_TRUE(buffer.take({}, kMillisecond).empty());
  std::jthread other([&] { put_groups(buffer, 3); });
  EXPECT_EQ(buffer.take({.min_groups = 3}, -1).size(), 6u);
  EXPECT_TRUE(buffer.take({.min_groups = 3}, kMillisecond).empty());
  EXPECT_FALSE(buffer.closed());
}

TEST(ExperienceBuffer, ClosingEndsEveryWaitAndGivesNothing) {
  ExperienceBuffer buffer(2, 20, true);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(buffer.take({.min_groups = 4}, -1).empty()); });
  }
  put_groups(buffer, 3);
  buffer.close();
  threads.clear();
  EXPECT_TRUE(buffer.closed());
  EXPECT_TRUE(buffer.take({}, -1).empty());
  EXPECT_EQ(buffer.counts().whole_groups, 3);
}

TEST(ExperienceBuffer, ARefusedSampleIsNamedByItsPlaceAndTheOthersAreTakenBack) {
  ExperienceBuffer buffer(2, 10, true);
  buffer.put(sample_of(5, 1));
  const Error e = expect_error(Code::kDuplicate, [&] {
    buffer.put_all({sample_of(4, 0), sample_of(5, 1), sample_of(6, 0)}, "batch");
  });
  EXPECT_EQ(e.key, "batch[1]");
  EXPECT_TRUE(e.message.starts_with("batch[1]: ")) << e.message;
  EXPECT_EQ(buffer.num_samples(), 1);
}

// Keeps what it hears.
class Heard final : public BufferObserver {
 public:
  void changed(int64_t whole_groups, bool more) noexcept override {
    whole = whole_groups;
    num_news += more;
  }
  void removed(const Sample& of, DropReason reason) noexcept override {
    last_removed = of.ordinal;
    (reason == DropReason::kStale ? num_stale : num_dropped) += 1;
  }
  int64_t whole = -1, num_news = 0, num_stale = 0, num_dropped = 0;
  uint64_t last_removed = 0;
};

int64_t counted(const ExperienceBuffer& buffer) {
  int64_t whole = 0;
  buffer.visit([&](const Group& g) { whole += g.samples.size() == 2; });
  return whole;
}

TEST(ExperienceBuffer, AnObserverHearsOfEveryChange) {
  Heard heard;
  ExperienceBuffer buffer(2, 12, true);
  buffer.put_all({sample_of(1, 0, 3), sample_of(1, 1, 3)});
  buffer.observe(heard);
  EXPECT_EQ(heard.whole, 1) << "at once";
  EXPECT_EQ(heard.num_news, 1);
  buffer.put(sample_of(2, 0, 5));
  EXPECT_EQ(heard.num_news, 1) << "it is not complete";
  buffer.put_all({sample_of(2, 1, 5), sample_of(3, 0, 5), sample_of(3, 1, 5), sample_of(4, 0)});
  EXPECT_EQ(heard.whole, 3);
  EXPECT_EQ(heard.num_news, 2) << "one change";
  EXPECT_THROW(buffer.put_all({sample_of(5, 0), sample_of(5, 1), sample_of(3, 0)}), Error);
  EXPECT_EQ(heard.num_news, 2) << "it put nothing";
  EXPECT_EQ(buffer.num_whole_groups(), counted(buffer));
  EXPECT_EQ(buffer.take({.max_groups = 1, .min_version = 4}, 0).size(), 2u);
  EXPECT_EQ(heard.num_stale, 1);
  EXPECT_EQ(heard.last_removed, 1u);
  EXPECT_EQ(heard.whole, 1);
  EXPECT_EQ(buffer.drop({.incomplete_only = true}), 1);
  EXPECT_EQ(heard.last_removed, 4u);
  EXPECT_EQ(heard.whole, 1);
  buffer.clear();
  EXPECT_EQ(heard.num_dropped, 2);
  EXPECT_EQ(heard.whole, 0);
  EXPECT_EQ(heard.num_news, 2);
}

TEST(ExperienceBuffer, CompleteGroupsAreCountedThroughEveryChange) {
  ExperienceBuffer buffer(2, 40, true);
  uint64_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const uint64_t ordinal = (random >> 33) % 16;
    const auto slot = static_cast<uint32_t>((random >> 40) % 2);
    try {
      switch ((random >> 50) % 8) {
        case 0:
          buffer.take(1);
          break;
        case 1:
          buffer.erase(ordinal);
          break;
        case 2:
          buffer.drop({.ordinals = {{&ordinal, 1}}});
          break;
        case 3:
          buffer.put_all({sample_of(ordinal, slot), sample_of(ordinal, 1 - slot)});
          break;
        case 4:
          buffer.take({.min_groups = 2, .max_groups = 3, .newest_first = true, .min_version = 1},
                      0);
          break;
        default:
          buffer.put(sample_of(ordinal, slot, (random >> 55) % 3));
      }
    } catch (const Error& e) {
      EXPECT_EQ(e.code, Code::kDuplicate);
    }
    ASSERT_EQ(buffer.num_whole_groups(), counted(buffer)) << "after change " << i;
    const BufferCounts counts = buffer.counts();
    ASSERT_EQ(counts.whole_groups, buffer.num_whole_groups());
    ASSERT_EQ(counts.put, counts.taken + counts.dropped + counts.stale + counts.held);
  }
}

}  // namespace
}  // namespace rl
