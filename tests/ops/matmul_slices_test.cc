// Cuts of products: every column is computed once, limits hold for every unit, and threads share
// what there is evenly.
#include "ops/matmul_slices.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"
#include "core/executor.h"
#include "support/cuts.h"

namespace rl::testing {
namespace {

std::vector<int64_t> widths_of(const ColumnSlices& s) {
  std::vector<int64_t> widths;
  for (int64_t i = 0; i < s.count(); ++i) widths.push_back(s.size(i));
  return widths;
}
using Widths = std::vector<int64_t>;

TEST(ColumnSlices, OfSmollm2) {
  const SliceCut any{1}, heads{1, 64}, halves{2};
  EXPECT_EQ(widths_of(cut_slices({576, 960, heads})), (Widths{256, 256, 256, 192}));
  EXPECT_EQ(widths_of(cut_slices({576, 576, any})), (Widths{320, 256}));
  EXPECT_EQ(widths_of(cut_slices({576, 3072, halves})), Widths(6, 512));
  EXPECT_EQ(widths_of(cut_slices({1536, 576})), (Widths{288, 288}));
  EXPECT_EQ(widths_of(cut_slices({576, 1536})), Widths(6, 256));
}

TEST(ColumnSlices, HoldWholeHeadsOfAnySize) {
  for (int64_t head = 16; head <= 1024; head += 16) {
    for (const int64_t heads : {3, 9, 18, 36, 40}) {
      for (const int64_t width : {0, 16, 64, 200}) {
        SCOPED_TRACE(::testing::Message()
                     << heads << " heads of " << head << ", slices of " << width);
        check_product({576, heads * head, {1, head}, width});
      }
    }
  }
}

// A unit of 128 columns rounded 320 up to 384 columns of 8192 floats, which no worker's scratch
// holds.
TEST(ColumnSlices, JoinedHalvesFitTheScratchForEveryK) {
  for (int64_t k = 64; k <= kMaxJoinedFloats / 32; k += 64) {
    const ColumnSlices s = cut_slices({k, 2 * 28672, {2}});
    ASSERT_LE(s.width * k, kMaxJoinedFloats) << k;
    ASSERT_EQ(s.width % (128 * k <= kMaxJoinedFloats ? 128 : 32), 0)
        << k;  // column blocks, or units too deep for them
  }
  EXPECT_EQ(widths_of(cut_slices({24576, 512, {2}})), (Widths{96, 96, 96, 96, 96, 32}));
  for (const int64_t k : {20480, 20544, 24576, 81920}) check_product({k, 2 * 5504, {2}});
  try {
    cut_slices({kMaxJoinedFloats / 32 + 1, 512, {2}});
    FAIL() << "a slice of 32 columns does not fit";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::kUnsupported);
    EXPECT_NE(e.message.find("[81921, 512] product needs slices of 32 columns, but 31 fit"),
              std::string::npos)
        << e.message;
  }
}

TEST(ColumnSlices, OfAGivenWidthAreAtMostThatWide) {
  EXPECT_EQ(widths_of(cut_slices({64, 176, {}, 80})), (Widths{80, 80, 16}));
  EXPECT_EQ(widths_of(cut_slices({64, 176, {1}, 80})), (Widths{64, 64, 48}));
  EXPECT_EQ(widths_of(cut_slices({64, 96, {1}, 32})),
            (Widths{32, 32, 32}));  // narrower than a column block
  EXPECT_EQ(widths_of(cut_slices({64, 144, {1, 48}, 16})),
            (Widths{48, 48, 48}));  // one unit at least
  EXPECT_EQ(widths_of(cut_slices({64, 96, {2}, 32})), (Widths{32, 32, 32}));
}

TEST(ColumnTiles, OddNumbersOfBlocksAreSharedEvenly) {
  for (int64_t blocks = 2; blocks <= 70; ++blocks) {
    for (const int64_t rest : {0, 16, 32}) {  // a last block that is not whole
      const int64_t n = blocks * 64 - (rest ? 64 - rest : 0);
      for (int64_t threads = 1; threads <= 40; ++threads) {
        const ColumnTiles tiles(slices_of_width(n, 256), {1}, threads);
        const int64_t q = blocks / threads, beyond = blocks % threads;
        const int64_t halves = beyond == 0 ? 2 * q : 2 * beyond <= threads ? 2 * q + 1 : 2 * q + 2;
        int64_t most = 0;
        for (int64_t w = 0; w < threads; ++w) {
          const TaskShare share = task_share(tiles.count(), w, threads);
          int64_t columns = 0;
          for (int64_t i = share.begin; i < share.end; ++i) columns += tiles.at(i).cols;
          most = std::max(most, columns);
        }
        ASSERT_LE(most, halves * 32) << n << " columns on " << threads << " threads";
      }
    }
  }
}

TEST(GradientCut, CoversEveryElementOnce) {
  using Sides = std::pair<int64_t, int64_t>;
  for (const auto& [n, k] :
       {Sides{1, 1}, {16, 40}, {383, 384}, {530, 96}, {3072, 576}, {4096, 4096}})
    check_gradient(n, k);
}

TEST(GradientCut, RowsOfCopiedOperandsAreAnOddNumberOfLinesApart) {
  for (int64_t columns = 1; columns <= 384; ++columns) {
    const int64_t stride = staged_stride(columns);
    ASSERT_EQ(stride % 16, 0) << columns;
    ASSERT_EQ(stride / 16 % 2, 1) << columns;
    ASSERT_GT(stride, columns);
    ASSERT_LE(stride, columns + 47);
  }
}

class GradientChunks : public ::testing::TestWithParam<int64_t /*most rows*/> {};
INSTANTIATE_TEST_SUITE_P(Most, GradientChunks,
                         ::testing::Values(kGradientChunkRows, kPackedChunkRows));

TEST_P(GradientChunks, HaveAFewFixedSizes) {
  for (int64_t m = 1; m <= 2100; ++m) {
    int64_t left = (m + kGradientRowUnit - 1) / kGradientRowUnit * kGradientRowUnit,
            last = GetParam();
    while (left > 0) {
      const int64_t rows = gradient_chunk_rows(left, GetParam());
      ASSERT_TRUE(rows == 512 || rows == 256 || rows == 128 || rows == 64 || rows == 32) << m;
      ASSERT_LE(rows, last) << m;
      last = rows;
      left -= rows;
    }
    ASSERT_EQ(left, 0) << m;
  }
}

}  // namespace
}  // namespace rl::testing
