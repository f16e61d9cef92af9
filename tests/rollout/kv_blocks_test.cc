// Blocks with the cache that finds them by content, and the places outside the pool.
#include "rollout/kv_blocks.h"

#include <gtest/gtest.h>

#include <vector>

#include "rollout/swap_space.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using Ids = std::vector<int32_t>;

// Enters ids, whole blocks of two, as if they were computed; the last serial.
PrefixPlace enter(KvBlocks& blocks, const Ids& ids, std::vector<int32_t>& taken) {
  PrefixPlace place = blocks.cache()->root();
  for (size_t at = 0; at + 2 <= ids.size(); at += 2) {
    taken.push_back(blocks.allocate());
    const std::span<const int32_t> block = std::span(ids).subspan(at, 2);
    place = {blocks.cache()->insert(place.serial, block, taken.back()), place.blocks + 1};
  }
  return place;
}

TEST(KvBlocks, ABlockIsNeededForEachPartOfItsPositions) {
  const KvBlocks blocks(4, 16, false);
  const std::pair<int64_t, int64_t> counts[] = {{0, 0},  {1, 1},  {15, 1}, {16, 1},
                                                {17, 2}, {32, 2}, {33, 3}};
  for (const auto& [positions, count] : counts) EXPECT_EQ(blocks.count(positions), count);
}

TEST(KvBlocks, OnlyWholeBlocksOfAPrefixAreCached) {
  KvBlocks blocks(8, 2, true);
  std::vector<int32_t> taken;
  EXPECT_EQ(enter(blocks, {1, 2, 3, 4, 5, 6}, taken).blocks, 3);
  const std::pair<Ids, int64_t> cached[] = {
      {{}, 0},
      {{1}, 0},
      {{1, 2}, 2},
      {{1, 2, 3}, 2},
      {{1, 2, 3, 4}, 4},
      {{1, 2, 3, 4, 5, 6}, 6},
      {{1, 2, 3, 4, 5, 6, 7, 8}, 6},
      {{1, 2, 9, 4, 5, 6}, 2},
      {{3, 4}, 0},  // known, but not after nothing
      {{1, 2, 5, 6}, 2},
  };
  for (const auto& [ids, tokens] : cached) EXPECT_EQ(blocks.cached_tokens(ids), tokens);
}

TEST(KvBlocks, AMissingBlockHidesThoseBehindIt) {
  KvBlocks blocks(8, 2, true);
  std::vector<int32_t> taken;
  enter(blocks, {1, 2, 3, 4, 5, 6}, taken);
  blocks.cache()->erase(taken[1]);
  EXPECT_EQ(blocks.cached_tokens(Ids{1, 2, 3, 4, 5, 6}), 2);
}

TEST(KvBlocks, WithoutACacheNothingIsFound) {
  KvBlocks blocks(4, 2, false);
  EXPECT_EQ(blocks.cache(), nullptr);
  EXPECT_EQ(blocks.cached_tokens(Ids{1, 2, 3, 4}), 0);
  const int32_t block = blocks.allocate();
  blocks.release(block);
  EXPECT_EQ(blocks.allocate(), block) << "the block freed last is the warm one";
}

// A cached block is reused late, and its content is then found no more.
TEST(KvBlocks, ABlockThatIsHandedOutAnewIsNoLongerCached) {
  KvBlocks blocks(3, 2, true);
  std::vector<int32_t> taken;
  enter(blocks, {1, 2}, taken);
  const int32_t other = blocks.allocate();
  blocks.release(taken[0]);
  blocks.release(other);
  EXPECT_EQ(blocks.num_free(), 3);
  EXPECT_EQ(blocks.cached_tokens(Ids{1, 2}), 2);
  EXPECT_EQ(blocks.allocate(), other) << "an uncached block goes first";
  EXPECT_NE(blocks.allocate(), taken[0]) << "so does one that was never used";
  EXPECT_EQ(blocks.cached_tokens(Ids{1, 2}), 2);
  EXPECT_EQ(blocks.allocate(), taken[0]);
  EXPECT_EQ(blocks.cached_tokens(Ids{1, 2}), 0);
  EXPECT_FALSE(blocks.cache()->holds(taken[0]));
}

TEST(KvBlocks, ACachedBlockThatIsRetainedStaysCached) {
  KvBlocks blocks(2, 2, true);
  std::vector<int32_t> taken;
  enter(blocks, {1, 2}, taken);
  blocks.release(taken[0]);
  blocks.retain(taken[0]);
  EXPECT_EQ(blocks.pool().references(taken[0]), 1);
  EXPECT_EQ(blocks.num_free(), 1);
  EXPECT_NE(blocks.allocate(), taken[0]);
  EXPECT_EQ(blocks.num_free(), 0);
  EXPECT_EQ(blocks.cached_tokens(Ids{1, 2}), 2);
}

TEST(SwapSpace, PlacesAreGivenOnceAndComeBack) {
  SwapSpace swap(3);
  EXPECT_EQ(swap.num_free(), 3);
  EXPECT_TRUE(swap.has_room(3));
  EXPECT_FALSE(swap.has_room(4));
  for (const int32_t place : {0, 1, 2}) EXPECT_EQ(swap.take(), place);
  EXPECT_EQ(swap.num_free(), 0);
  EXPECT_TRUE(swap.has_room(0));
  EXPECT_FALSE(swap.has_room(1));
  expect_error(Code::kInternal, [&] { swap.take(); });
  swap.release(1);
  EXPECT_EQ(swap.num_free(), 1);
  EXPECT_EQ(swap.take(), 1);
}

TEST(SwapSpace, OfNoPlacesHoldsNothing) {
  const SwapSpace none(0);
  EXPECT_EQ(none.num_free(), 0);
  EXPECT_TRUE(none.has_room(0));
  EXPECT_FALSE(none.has_room(1));
}

}  // namespace
}  // namespace rl
