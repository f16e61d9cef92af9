// Few rows against many: the kernel of few_rows.cc gives the bits that oneDNN gives.
#include "ops/few_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "core/arena.h"
#include "device/cpu/executors.h"
#include "ops/matmul.h"
#include "support/random_values.h"

namespace rl::testing {
namespace {

struct Shape {
  int64_t k, n, width;
};

class FewRows : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};

// Random weights, packed.
struct RandomWeights {
  RandomWeights(Matmul& matmul, const Shape& s, SliceCut cut, int seed)
      : shape(plan_packed({s.k, s.n, cut, s.width}, Dtype::kBf16)), arena("packed", shape.bytes) {
    const auto weights = random_values(s.n * s.k, seed);
    matmul.pack_rows(shape, arena.data(), [&](int64_t i, int) {
      return std::vector<Matmul::RowRange>{{weights.data(), shape.slices.first(i), shape.slices.size(i)}};
    }, packed);
  }
  PackedShape shape;
  Arena arena;
  PackedMatrix packed;
};

std::vector<float> product(Matmul& matmul, const PackedMatrix& w, const std::vector<std::byte>& x, int64_t m) {
  const int64_t n = w.shape().slices.n;
  std::vector<float> y(m * n, std::nanf(""));
  matmul.run_into({y.data(), n}, w, x.data(), m);
  return y;
}

TEST_P(FewRows, HaveTheBitsOfManyRows) {
  const Shape s = GetParam();
  const auto executor = make_thread_executor(2);
  Matmul matmul(*executor, Dtype::kBf16);
  const RandomWeights weights(matmul, s, {1}, 1);
  const PackedMatrix& w = weights.packed;
  ASSERT_NE(w.few_rows_chunk(), 0) << "the kernel takes no part on this machine";

  constexpr int64_t kMany = kFewRows + 16;
  const auto x = as_dtype(random_values(kMany * s.k, 2), Dtype::kBf16, Matmul::padded_rows(kMany) * s.k);
  const std::vector<float> many = product(matmul, w, x, kMany);
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 31, 63, 64}) {
    const std::vector<float> few = product(matmul, w, x, m);
    EXPECT_EQ(std::memcmp(few.data(), many.data(), few.size() * sizeof(float)), 0) << m << " rows";
  }
}

// The blocks of the columns are the tiles, but for one of an odd number, whose halves two threads take where the
// epilogue takes halves.
TEST(FewRowsPieces, OneBlockOfAnOddNumberIsHalved) {
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  constexpr int64_t k = 32, m = 3, block = kFewRowsColumnBlock;
  using Widths = std::map<int64_t, int64_t>;  // of the tiles, by their first column
  struct Case {
    int64_t n, width;
    SliceCut cut;
    Widths want;
  };
  const Case cases[] = {
      {5 * block, 3 * block, {1}, {{0, 64}, {64, 64}, {128, 64}, {192, 64}, {256, 32}, {288, 32}}},
      {5 * block, 3 * block, {1, 64}, {{0, 64}, {64, 64}, {128, 64}, {192, 64}, {256, 64}}},
      {4 * block, 2 * block, {1}, {{0, 64}, {64, 64}, {128, 64}, {192, 64}}},
      {2 * block + 16, 3 * block, {1}, {{0, 64}, {64, 32}, {96, 32}, {128, 16}}},
  };
  const auto executor = make_thread_executor(2);
  Matmul matmul(*executor, Dtype::kBf16);
  for (const Case& c : cases) {
    const RandomWeights weights(matmul, {k, c.n, c.width}, c.cut, 5);
    const auto x = as_dtype(random_values(m * k, 6), Dtype::kBf16, Matmul::padded_rows(m) * k);
    std::mutex mutex;
    Widths got;
    matmul.run(weights.packed, x.data(), m, [&](const MatmulTile& t) {
      const std::lock_guard lock(mutex);
      got[t.col0] = t.cols;
    });
    EXPECT_EQ(got, c.want) << c.n << " columns in slices of " << c.width;
  }
}

// An epilogue that joins the halves of a slice gets the same columns of both, every column once.
TEST(FewRowsPieces, HalvesOfASliceStandSideBySide) {
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  constexpr int64_t k = 96, m = 5;
  const auto executor = make_thread_executor(3);
  Matmul matmul(*executor, Dtype::kBf16);
  for (const auto& [n, width, tiles_wanted] : {std::tuple<int64_t, int64_t, int>{1280, 512, 10}, {448, 256, 3}}) {
    const RandomWeights weights(matmul, {k, n, width}, {2}, 3);
    const PackedShape& shape = weights.shape;
    const PackedMatrix& w = weights.packed;
    const auto x = as_dtype(random_values(kFewRows * 2 * k, 4), Dtype::kBf16, Matmul::padded_rows(kFewRows * 2) * k);
    const std::vector<float> want = product(matmul, w, x, kFewRows * 2);
    std::vector<float> got(m * n, std::nanf(""));
    std::atomic<int> tiles{0};
    matmul.run(w, x.data(), m, [&](const MatmulTile& t) {
      ++tiles;
      const int64_t slice0 = shape.slices.first(t.slice), half = shape.slices.size(t.slice) / 2;
      const int64_t first = (t.col0 - slice0) / 2, width_each = t.cols / 2;
      for (int64_t r = 0; r < t.rows; ++r)
        for (int64_t c = 0; c < t.cols; ++c)
          got[r * n + slice0 + c / width_each * half + first + c % width_each] = t.data[r * t.stride + c];
    });
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << n << " columns";
    EXPECT_EQ(tiles.load(), tiles_wanted);
  }
}

// Slices of whole heads that are no whole column blocks: those of the first slice end 16 columns into a block. Pieces
// of any columns and of heads, few rows and many.
TEST(FewRowsPieces, OfSlicesThatEndInsideABlockHaveTheBitsOfManyRows) {
  if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
  constexpr int64_t k = 64, n = 816, kMany = kFewRows + 16;
  const auto executor = make_thread_executor(2);
  Matmul matmul(*executor, Dtype::kBf16);
  const RandomWeights weights(matmul, {k, n, 0}, {1, 136}, 7);
  const PackedMatrix& w = weights.packed;
  ASSERT_EQ(weights.shape.slices.width, 272);
  ASSERT_NE(w.few_rows_chunk(), 0) << "the kernel takes no part on this machine";
  const auto x = as_dtype(random_values(kMany * k, 8), Dtype::kBf16, Matmul::padded_rows(kMany) * k);
  const std::vector<float> many = product(matmul, w, x, kMany);
  for (const int64_t m : {int64_t{1}, int64_t{5}, kFewRows}) {
    const std::vector<float> few = product(matmul, w, x, m);
    EXPECT_EQ(std::memcmp(few.data(), many.data(), few.size() * sizeof(float)), 0) << m << " rows";
    std::vector<float> by_heads(m * n, std::nanf(""));
    matmul.run(w, x.data(), m, [&](const MatmulTile& t) {
      EXPECT_EQ(t.col0 % 136 + t.cols % 136, 0) << "a tile of " << t.cols << " columns from " << t.col0 << " on";
      for (int64_t r = 0; r < t.rows; ++r)
        std::copy_n(t.data + r * t.stride, t.cols, &by_heads[(t.row0 + r) * n + t.col0]);
    });
    EXPECT_EQ(std::memcmp(by_heads.data(), many.data(), by_heads.size() * sizeof(float)), 0) << m << " rows";
  }
}

// Depths below, at and beyond both chunks and not whole pieces; widths of 1 to 4 vectors in the last column block.
INSTANTIATE_TEST_SUITE_P(Shapes, FewRows,
                         ::testing::Values(Shape{16, 16, 64}, Shape{64, 96, 256}, Shape{98, 48, 64}, Shape{200, 80, 80},
                                           Shape{576, 960, 256}, Shape{576, 576, 320}, Shape{1000, 176, 112},
                                           Shape{1024, 128, 64}, Shape{1100, 64, 64}, Shape{1536, 576, 320},
                                           Shape{3072, 208, 112}));

}  // namespace
}  // namespace rl::testing
