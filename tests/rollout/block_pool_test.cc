#include "rollout/block_pool.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "support/expect_error.h"

namespace rl {
namespace {

TEST(BlockPool, LastReferenceFreesTheBlock) {
  BlockPool pool(3);
  const int32_t a = pool.allocate();
  pool.retain(a);
  EXPECT_EQ(pool.references(a), 2);
  pool.release(a, false);
  EXPECT_EQ(pool.num_used(), 1);
  pool.release(a, false);
  EXPECT_EQ(pool.num_used(), 0);
  EXPECT_EQ(pool.references(a), 0);
}

TEST(BlockPool, EveryBlockIsHandedOutOnce) {
  BlockPool pool(5);
  std::vector<bool> seen(5);
  for (int i = 0; i < 5; ++i) {
    const int32_t b = pool.allocate();
    ASSERT_FALSE(seen.at(static_cast<size_t>(b)));
    seen[static_cast<size_t>(b)] = true;
  }
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(BlockPool, KeptBlocksAreHandedOutLastAndInTheOrderOfTheirRelease) {
  BlockPool pool(4);
  for (int i = 0; i < 4; ++i) pool.allocate();
  pool.release(2, true);
  pool.release(0, true);
  pool.release(3, false);
  pool.release(1, false);
  for (const int32_t expected : {1, 3, 2, 0}) EXPECT_EQ(pool.allocate(), expected);
}

TEST(BlockPool, AFreeBlockThatIsWantedAgainIsNotHandedOut) {
  BlockPool pool(3);
  for (int i = 0; i < 3; ++i) pool.allocate();
  for (int i = 0; i < 3; ++i) pool.release(i, true);
  pool.retain(1);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 2);
  EXPECT_EQ(pool.num_free(), 0);
  pool.release(1, true);
  EXPECT_EQ(pool.allocate(), 1);
}

// References and the order of free blocks, against a list that is searched.
TEST(BlockPool, AgreesWithAListUnderRandomUse) {
  constexpr int32_t kBlocks = 7;
  std::mt19937 rng(3);
  BlockPool pool(kBlocks);
  std::deque<int32_t> free = {0, 1, 2, 3, 4, 5, 6};
  std::vector<int32_t> references(kBlocks);
  for (int i = 0; i < 20000; ++i) {
    const auto block = static_cast<int32_t>(rng() % kBlocks);
    int32_t& count = references[static_cast<size_t>(block)];
    const unsigned action = rng() % 4;
    const bool keep = rng() % 2 == 0;
    if (action == 0 && !free.empty()) {
      ASSERT_EQ(pool.allocate(), free.front());
      references[static_cast<size_t>(free.front())] = 1;
      free.pop_front();
    } else if (action == 1) {
      pool.retain(block);
      if (count++ == 0) std::erase(free, block);
    } else if (action > 1 && count > 0) {
      pool.release(block, keep);
      if (--count == 0) keep ? free.push_back(block) : free.push_front(block);
    }
    ASSERT_EQ(pool.references(block), count);
    ASSERT_EQ(pool.num_free(), static_cast<int64_t>(free.size()));
    ASSERT_EQ(pool.num_used(), kBlocks - pool.num_free());
  }
}

TEST(BlockPool, MisuseIsAnInternalError) {
  BlockPool pool(1);
  expect_error(Code::kInternal, [&] { pool.release(0, false); });
  expect_error(Code::kInternal, [&] { pool.retain(1); });
  pool.allocate();
  expect_error(Code::kInternal, [&] { pool.allocate(); });
}

}  // namespace
}  // namespace rl
