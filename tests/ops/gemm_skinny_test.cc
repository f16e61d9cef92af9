// Few rows against many: the kernels of gemm_skinny_bf16.cc and gemm_skinny_f32_simd.cc give the
// bits that oneDNN gives.
#include "ops/gemm_skinny.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "core/arena.h"
#include "core/error.h"
#include "device/cpu/executors.h"
#include "ops/compute.h"
#include "ops/cpu/matmul.h"
#include "support/compute_dtypes.h"
#include "support/random_values.h"

namespace rl::testing {
namespace {

struct Shape {
  int64_t k, n, width;
  int64_t unit = 16;  // of what takes the columns
};

// Random weights, packed.
struct RandomWeights {
  RandomWeights(Matmul& matmul, const Shape& s, SliceCut cut, int seed)
      : shape(plan_packed({s.k, s.n, cut, s.width}, matmul.compute_dtype())),
        arena("packed", shape.bytes) {
    const auto weights = random_values(s.n * s.k, seed);
    matmul.pack_rows(
        shape, arena.data(),
        [&](int64_t i, int) {
          return std::vector<Matmul::RowRange>{
              {weights.data() + shape.slices.first(i) * s.k, shape.slices.size(i)}};
        },
        packed);
  }
  PackedShape shape;
  Arena arena;
  PackedMatrix packed;
};

std::vector<std::byte> random_rows(Dtype dtype, int64_t rows, int64_t k, int seed) {
  return as_dtype(random_values(rows * k, seed), dtype, (padded_rows(rows) - rows) * k);
}

// Whole units of the columns together, or any columns.
enum class Cut { kUnits, kAnywhere };
std::vector<float> product(Matmul& matmul, const PackedMatrix& w, const std::vector<std::byte>& x,
                           int64_t m, Cut cut = Cut::kAnywhere) {
  const int64_t n = w.shape().slices.n;
  std::vector<float> y(m * n, std::nanf(""));
  if (cut == Cut::kAnywhere)
    matmul.run_into({y.data(), n}, w, x.data(), m);
  else
    matmul.run_into({y.data(), n}, w, x.data(), m, [](const MatmulTile&) {});
  return y;
}

// Skips where there is no kernel to test: in bf16 without dot products, and in fp32 with AVX-512,
// where oneDNN may sum in an order of its own. Those have a run capped at AVX2.
void require_processor(Dtype dtype) {
  if (dtype == Dtype::kBf16) {
    if (!cpu_has_bf16_dot()) GTEST_SKIP() << "this CPU has no bf16 dot product";
    return;
  }
  if ((hwy::SupportedTargets() & HWY_AVX2) == 0) GTEST_SKIP() << "this CPU has no AVX2";
  const auto executor = make_thread_executor(1);
  Matmul matmul(*executor, dtype);
  const bool taken = Matmul::skinny_chunk(RandomWeights(matmul, {600, 64, 64}, {1}, 1).packed) != 0;
  const bool avx512 = (hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX3_DL)) != 0;
  if (!taken && avx512)
    GTEST_SKIP() << "this CPU has no fp32 products in an order that librl knows";
}

using Case = std::tuple<Dtype, Shape>;
class GemmSkinny : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { require_processor(std::get<0>(GetParam())); }
};

// More rows than the kernel takes are oneDNN's.
TEST_P(GemmSkinny, HaveTheBitsOfManyRows) {
  const auto& [dtype, s] = GetParam();
  constexpr int64_t kMany = kMaxSkinnyRows + 16;
  const auto x = random_rows(dtype, kMany, s.k, 2);
  for (const int threads : {1, 2, 3}) {
    const auto executor = make_thread_executor(threads);
    Matmul matmul(*executor, dtype);
    const RandomWeights weights(matmul, s, {1, s.unit}, 1);
    const PackedMatrix& w = weights.packed;
    ASSERT_NE(Matmul::skinny_chunk(w), 0) << "the kernel takes no part on this machine";
    const std::vector<float> many = product(matmul, w, x, kMany);
    for (int64_t m = 1; m <= kMaxSkinnyRows; m += threads == 2 ? 1 : 7) {
      for (const Cut cut : {Cut::kUnits, Cut::kAnywhere}) {
        const std::vector<float> few = product(matmul, w, x, m, cut);
        ASSERT_EQ(std::memcmp(few.data(), many.data(), few.size() * sizeof(float)), 0)
            << m << " rows on " << threads << " threads";
      }
    }
  }
}

class SkinnyTiles : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override { require_processor(GetParam()); }
};

// The blocks of the columns are the tiles, but for one of an odd number, whose halves two threads
// take where the epilogue takes halves.
TEST_P(SkinnyTiles, OneBlockOfAnOddNumberIsHalved) {
  constexpr int64_t k = 32, m = 3, block = kSkinnyColumnBlock;
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
  Matmul matmul(*executor, GetParam());
  for (const Case& c : cases) {
    const RandomWeights weights(matmul, {k, c.n, c.width}, c.cut, 5);
    const auto x = random_rows(GetParam(), m, k, 6);
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
TEST_P(SkinnyTiles, HalvesOfASliceStandSideBySide) {
  constexpr int64_t k = 96, m = 5;
  const auto executor = make_thread_executor(3);
  Matmul matmul(*executor, GetParam());
  for (const auto& [n, width, tiles_wanted] :
       {std::tuple<int64_t, int64_t, int>{1280, 512, 10}, {448, 256, 3}}) {
    const RandomWeights weights(matmul, {k, n, width}, {2}, 3);
    const PackedShape& shape = weights.shape;
    const PackedMatrix& w = weights.packed;
    const auto x = random_rows(GetParam(), kMaxSkinnyRows * 2, k, 4);
    const std::vector<float> want = product(matmul, w, x, kMaxSkinnyRows * 2);
    std::vector<float> got(m * n, std::nanf(""));
    std::atomic<int> tiles{0};
    matmul.run(w, x.data(), m, [&](const MatmulTile& t) {
      ++tiles;
      const int64_t slice0 = shape.slices.first(t.slice), half = shape.slices.size(t.slice) / 2;
      const int64_t first = (t.col0 - slice0) / 2, width_each = t.cols / 2;
      for (int64_t r = 0; r < t.rows; ++r)
        for (int64_t c = 0; c < t.cols; ++c)
          got[r * n + slice0 + c / width_each * half + first + c % width_each] =
              t.data[r * t.stride + c];
    });
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
        << n << " columns";
    EXPECT_EQ(tiles.load(), tiles_wanted);
  }
}

// Slices of whole heads that are no whole column blocks: those of the first slice end 16 columns
// into a block. Tiles of any columns and of heads, few rows and many.
TEST_P(SkinnyTiles, OfSlicesThatEndInsideABlockHaveTheBitsOfManyRows) {
  constexpr int64_t k = 64, n = 816, kMany = kMaxSkinnyRows + 16;
  const auto executor = make_thread_executor(2);
  Matmul matmul(*executor, GetParam());
  const RandomWeights weights(matmul, {k, n, 0}, {1, 136}, 7);
  const PackedMatrix& w = weights.packed;
  ASSERT_EQ(weights.shape.slices.width, 272);
  ASSERT_NE(Matmul::skinny_chunk(w), 0) << "the kernel takes no part on this machine";
  const auto x = random_rows(GetParam(), kMany, k, 8);
  const std::vector<float> many = product(matmul, w, x, kMany);
  for (const int64_t m : {int64_t{1}, int64_t{5}, kMaxSkinnyRows}) {
    const std::vector<float> few = product(matmul, w, x, m);
    EXPECT_EQ(std::memcmp(few.data(), many.data(), few.size() * sizeof(float)), 0) << m << " rows";
    std::vector<float> by_heads(m * n, std::nanf(""));
    matmul.run(w, x.data(), m, [&](const MatmulTile& t) {
      EXPECT_EQ(t.col0 % 136 + t.cols % 136, 0)
          << "a tile of " << t.cols << " columns from " << t.col0 << " on";
      for (int64_t r = 0; r < t.rows; ++r)
        std::copy_n(t.data + r * t.stride, t.cols, &by_heads[(t.row0 + r) * n + t.col0]);
    });
    EXPECT_EQ(std::memcmp(by_heads.data(), many.data(), by_heads.size() * sizeof(float)), 0)
        << m << " rows";
  }
}

class GemmSkinnyFp32 : public ::testing::Test {
 protected:
  void SetUp() override { require_processor(Dtype::kF32); }
};

// oneDNN sums the last columns of some other widths in an order of its own.
TEST_F(GemmSkinnyFp32, StayWithOneDnnWhereAWidthIsNoWhole16s) {
  const auto executor = make_thread_executor(2);
  Matmul matmul(*executor, Dtype::kF32);
  for (const Shape& s : {Shape{96, 100, 100}, Shape{300, 164, 64}, Shape{576, 8, 64}}) {
    const RandomWeights weights(matmul, s, {1}, 7);
    EXPECT_EQ(Matmul::skinny_chunk(weights.packed), 0) << s.n << " columns";
    const auto x = random_rows(Dtype::kF32, kMaxSkinnyRows + 1, s.k, 8);
    const std::vector<float> many = product(matmul, weights.packed, x, kMaxSkinnyRows + 1);
    for (const int64_t m : {1, 5, 47}) {
      const std::vector<float> few = product(matmul, weights.packed, x, m);
      EXPECT_EQ(std::memcmp(few.data(), many.data(), few.size() * sizeof(float)), 0)
          << s.n << " columns, " << m;
    }
  }
}

// K below, at and beyond the chunks of oneDNN's kernels, whole chunks or not; widths
// of 1 to 4 lines in the last column block; units that are no column blocks. Only fp32 has odd
// depths.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Dtype dtype : compute_dtypes()) {
    for (const Shape& s : {Shape{16, 16, 64},
                           {64, 96, 256},
                           {98, 48, 64},
                           {200, 80, 80},
                           {576, 960, 256},
                           {576, 576, 320},
                           {1000, 176, 112},
                           {1024, 128, 64},
                           {1100, 64, 64},
                           {1536, 576, 320},
                           {3072, 208, 112}})
      all.emplace_back(dtype, s);
  }
  for (const Shape& s : {Shape{1, 16, 64},
                         {33, 48, 64},
                         {129, 64, 64},
                         {255, 80, 80},
                         {257, 64, 64},
                         {511, 112, 64},
                         {513, 48, 64},
                         {767, 64, 64},
                         {769, 176, 96},
                         {1537, 64, 64},
                         {200, 288, 192, 48},
                         {576, 1536, 512, 64},
                         {4096, 96, 64},
                         {14336, 64, 64}})
    all.emplace_back(Dtype::kF32, s);
  return all;
}
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const auto& [dtype, s] = info.param;
  return str(dtype_name(dtype), "_", s.k, "x", s.n, "_by_", s.width, "_unit_", s.unit);
}
INSTANTIATE_TEST_SUITE_P(Shapes, GemmSkinny, ::testing::ValuesIn(cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Dtypes, SkinnyTiles, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return dtype_name(info.param); });

}  // namespace
}  // namespace rl::testing
