#include "rollout/prefix_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace rl {
namespace {

using Ids = std::vector<int32_t>;

TEST(PrefixCache, FindsABlockByItsIdsAndWhatStandsBeforeThem) {
  PrefixCache cache(8, 2);
  const uint64_t root = cache.root().serial;
  const uint64_t a = cache.insert(root, Ids{1, 2}, 5);
  const uint64_t b = cache.insert(a, Ids{1, 2}, 3);
  EXPECT_EQ(cache.find(root, Ids{1, 2}), 5);
  EXPECT_EQ(cache.find(a, Ids{1, 2}), 3);
  EXPECT_EQ(cache.find(b, Ids{1, 2}), -1);
  EXPECT_EQ(cache.find(root, Ids{1, 3}), -1);
  EXPECT_EQ(cache.serial(3), b);
}

TEST(PrefixCache, AnEqualBlockIsEnteredOnce) {
  PrefixCache cache(8, 2);
  const uint64_t root = cache.root().serial;
  const uint64_t a = cache.insert(root, Ids{1, 2}, 5);
  EXPECT_EQ(cache.insert(root, Ids{1, 2}, 6), a);
  EXPECT_FALSE(cache.holds(6));
}

TEST(PrefixCache, AnErasedBlockCutsOffWhatStandsBehindIt) {
  PrefixCache cache(8, 2);
  const uint64_t root = cache.root().serial;
  const uint64_t a = cache.insert(root, Ids{1, 2}, 0);
  cache.insert(a, Ids{3, 4}, 1);
  cache.erase(0);
  EXPECT_EQ(cache.find(root, Ids{1, 2}), -1);
  const uint64_t again = cache.insert(root, Ids{1, 2}, 2);
  EXPECT_NE(again, a);
  EXPECT_EQ(cache.find(again, Ids{3, 4}), -1);
}

TEST(PrefixCache, CutForgetsEverythingAndOldSerialsFindNothing) {
  PrefixCache cache(8, 2);
  const uint64_t root = cache.root().serial;
  const uint64_t a = cache.insert(root, Ids{1, 2}, 0);
  cache.cut();
  EXPECT_NE(cache.root().serial, root);
  EXPECT_EQ(cache.find(root, Ids{1, 2}), -1);
  EXPECT_EQ(cache.find(cache.root().serial, Ids{1, 2}), -1);
  EXPECT_FALSE(cache.holds(0));
  EXPECT_GT(cache.insert(cache.root().serial, Ids{1, 2}, 0), a);
}

// Ids of two values and few blocks, so that buckets, keys and serials meet in every way.
TEST(PrefixCache, AgreesWithAMapUnderRandomUse) {
  std::mt19937 rng(7);
  PrefixCache cache(13, 2);
  std::map<std::pair<uint64_t, Ids>, int32_t> map;
  std::vector<uint64_t> serials = {cache.root().serial};
  for (int i = 0; i < 20000; ++i) {
    const uint64_t before = serials[rng() % serials.size()];
    const Ids ids = {static_cast<int32_t>(rng() % 2), static_cast<int32_t>(rng() % 2)};
    const auto found = map.find({before, ids});
    ASSERT_EQ(cache.find(before, ids), found == map.end() ? -1 : found->second);
    const auto block = static_cast<int32_t>(rng() % 13);
    if (rng() % 2 == 0) {
      cache.erase(block);
      std::erase_if(map, [&](const auto& entry) { return entry.second == block; });
    } else if (!cache.holds(block)) {
      serials.push_back(cache.insert(before, ids, block));
      map.try_emplace({before, ids}, block);
      if (serials.size() > 30) serials.erase(serials.begin() + 1);
    }
  }
}

}  // namespace
}  // namespace rl
