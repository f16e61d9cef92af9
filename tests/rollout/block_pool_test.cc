#include "rollout/block_pool.h"

#include <gtest/gtest.h>

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

TEST(BlockPool, MisuseIsAnInternalError) {
  BlockPool pool(1);
  expect_error(Code::kInternal, [&] { pool.release(0, false); });
  expect_error(Code::kInternal, [&] { pool.retain(1); });
  pool.allocate();
  expect_error(Code::kInternal, [&] { pool.allocate(); });
}

}  // namespace
}  // namespace rl
