#include "rollout/block_pool.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace rl {
namespace {

TEST(BlockPool, LastReferenceFreesTheBlock) {
  BlockPool pool(3, 16);
  pool.reserve(2);
  const int32_t a = pool.allocate();
  pool.retain(a);
  EXPECT_EQ(pool.references(a), 2);
  pool.release(a);
  EXPECT_EQ(pool.num_used(), 1);
  pool.release(a);
  EXPECT_EQ(pool.num_used(), 0);
  EXPECT_EQ(pool.references(a), 0);
}

TEST(BlockPool, ReservedBlocksAreNotReservedTwice) {
  BlockPool pool(4, 16);
  pool.reserve(3);
  EXPECT_TRUE(pool.can_reserve(1));
  EXPECT_FALSE(pool.can_reserve(2));
  pool.allocate();
  EXPECT_EQ(pool.num_reserved(), 2);
  EXPECT_TRUE(pool.can_reserve(1));
  EXPECT_FALSE(pool.can_reserve(2));
  pool.cancel_reservation(2);
  EXPECT_TRUE(pool.can_reserve(3));
}

TEST(BlockPool, EveryBlockIsHandedOutOnce) {
  BlockPool pool(5, 16);
  pool.reserve(5);
  std::vector<bool> seen(5);
  for (int i = 0; i < 5; ++i) {
    const int32_t b = pool.allocate();
    ASSERT_FALSE(seen.at(static_cast<size_t>(b)));
    seen[static_cast<size_t>(b)] = true;
  }
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(BlockPool, MisuseIsAnInternalError) {
  BlockPool pool(2, 16);
  expect_error(Code::kInternal, [&] { pool.allocate(); });
  expect_error(Code::kInternal, [&] { pool.release(0); });
  expect_error(Code::kInternal, [&] { pool.retain(2); });
  expect_error(Code::kInternal, [&] { pool.reserve(3); });
  expect_error(Code::kInternal, [&] { pool.cancel_reservation(1); });
}

}  // namespace
}  // namespace rl
