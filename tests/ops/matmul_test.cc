// Products against a double oracle on edge shapes, and the exactness the contract promises.
#include "ops/cpu/matmul.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "core/arena.h"
#include "core/error.h"
#include "device/cpu/executors.h"
#include "ops/compute.h"
#include "support/compute_dtypes.h"
#include "support/random_values.h"

namespace rl::testing {
namespace {

struct Shape {
  int64_t m, k, n, width;
};

std::vector<float> run_product(Matmul& matmul, const PackedMatrix& w,
                               const std::vector<std::byte>& x, int64_t m) {
  const int64_t n = w.shape().slices.n;
  std::vector<float> y(m * n, std::nanf(""));
  matmul.run(w, x.data(), m, [&](const MatmulTile& t) {
    for (int64_t r = 0; r < t.rows; ++r)
      std::memcpy(&y[(t.row0 + r) * n + t.col0], t.data + r * t.cols, t.cols * sizeof(float));
  });
  return y;
}

class Products : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
    executor_ = make_thread_executor(2);
    matmul_ = std::make_unique<Matmul>(*executor_, GetParam());
  }
  // fp32 accumulation over k terms of unit size: a few ulp per sqrt(k); inputs are exact in the
  // compute dtype.
  static double tolerance(int64_t k) { return 4e-7 * static_cast<double>(k); }
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Matmul> matmul_;
};

TEST_P(Products, WrittenInPlaceTheyAreTheSameAndTouchNothingElse) {
  const Shape s{300, 96, 176, 80};
  const auto wf = random_values(s.n * s.k, 2);
  const auto x = as_dtype(random_values(s.m * s.k, 1), GetParam(), padded_rows(s.m) * s.k);
  const PackedShape shape = plan_packed({.k = s.k, .n = s.n, .width = s.width}, GetParam());
  Arena arena("rows", shape.bytes);
  PackedMatrix w;
  matmul_->pack_rows(
      shape, arena.data(),
      [&](int64_t i, int) {
        return std::vector<Matmul::RowRange>{
            {wf.data() + shape.slices.first(i) * s.k, shape.slices.size(i)}};
      },
      w);
  const int64_t stride = s.n + 5;
  for (const int64_t m : {int64_t{1}, int64_t{16}, s.m}) {
    const std::vector<float> dense = run_product(*matmul_, w, x, m);
    std::vector<float> y(m * stride, 7.0f);
    std::atomic<int64_t> tiles = 0, in_place = 0;
    matmul_->run_into({y.data(), stride}, w, x.data(), m, [&](const MatmulTile& t) {
      ++tiles;
      in_place += t.data == &y[t.row0 * stride + t.col0] && t.stride == stride;
    });
    EXPECT_GE(tiles, shape.slices.count());
    EXPECT_EQ(in_place, tiles);
    for (int64_t r = 0; r < m; ++r) {
      ASSERT_EQ(std::memcmp(&y[r * stride], &dense[r * s.n], s.n * sizeof(float)), 0)
          << m << " rows";
      for (int64_t c = s.n; c < stride; ++c) ASSERT_EQ(y[r * stride + c], 7.0f);
    }
  }
}

TEST_P(Products, MatchTheOracleOnEdgeShapes) {
  for (const Shape s :
       {Shape{1, 16, 16, 256}, Shape{3, 64, 96, 256}, Shape{5, 100, 40, 16},
        Shape{300, 576, 960, 256}, Shape{257, 33, 530, 512}, Shape{64, 1536, 576, 128}}) {
    const auto xf = random_values(s.m * s.k, 1), wf = random_values(s.n * s.k, 2);
    const auto x = as_dtype(xf, GetParam(), padded_rows(s.m) * s.k);
    const PackedShape shape = plan_packed({.k = s.k, .n = s.n, .width = s.width}, GetParam());
    Arena rows_arena("rows", shape.bytes), cols_arena("cols", shape.bytes);
    PackedMatrix by_rows, by_columns;
    matmul_->pack_rows(
        shape, rows_arena.data(),
        [&](int64_t i, int) {
          return std::vector<Matmul::RowRange>{
              {wf.data() + shape.slices.first(i) * s.k, shape.slices.size(i)}};
        },
        by_rows);
    std::vector<float> transposed(wf.size());
    for (int64_t i = 0; i < s.n; ++i)
      for (int64_t j = 0; j < s.k; ++j) transposed[j * s.n + i] = wf[i * s.k + j];
    matmul_->pack_columns(shape, cols_arena.data(), transposed.data(), by_columns);
    const auto y = run_product(*matmul_, by_rows, x, s.m);
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; j += 7) {
        double want = 0;
        for (int64_t t = 0; t < s.k; ++t) {
          const double of_x = element(x.data(), GetParam(), i * s.k + t);
          want += of_x * round_to(GetParam(), wf[j * s.k + t]);
        }
        ASSERT_NEAR(y[i * s.n + j], want, tolerance(s.k))
            << s.m << "x" << s.k << "x" << s.n << " at " << i << "," << j;
      }
    }
    EXPECT_EQ(run_product(*matmul_, by_columns, x, s.m), y);
  }
}

// With two halves too, and each value is rounded once.
TEST_P(Products, UnpackedRowsPackToTheSameBytes) {
  for (const Shape s : {Shape{0, 16, 32, 256}, Shape{0, 33, 50, 16}, Shape{0, 100, 96, 32},
                        Shape{0, 576, 320, 64}}) {
    for (const int64_t parts : {1, 2}) {
      if (s.n % 32 != 0 && parts == 2) continue;
      SCOPED_TRACE(std::to_string(s.k) + " x " + std::to_string(s.n) + ", parts " +
                   std::to_string(parts));
      const auto w = random_values(s.n * s.k, 9);
      const PackedShape shape = plan_packed({s.k, s.n, {parts}, s.width}, GetParam());
      const auto ranges = [&](float* from, auto at) {
        const int64_t first = shape.slices.first(at), count = shape.slices.size(at);
        std::vector<Matmul::RowTarget> out;
        for (int64_t p = 0; p < parts; ++p)
          out.push_back({from + (p * s.n / parts + first / parts) * s.k, count / parts});
        return out;
      };
      const auto pack = [&](std::vector<float> rows) {
        Arena arena("packed", shape.bytes);
        PackedMatrix packed;
        matmul_->pack_rows(
            shape, arena.data(),
            [&](int64_t slice, int) {
              std::vector<Matmul::RowRange> out;
              for (const auto& part : ranges(rows.data(), slice))
                out.push_back({part.w, part.count});
              return out;
            },
            packed);
        const std::vector<std::byte> bytes(arena.data(), arena.data() + shape.bytes);
        std::vector<float> back(rows.size(), std::nanf(""));
        matmul_->unpack_rows(packed, [&](int64_t slice) { return ranges(back.data(), slice); });
        return std::pair(bytes, back);
      };
      const auto [bytes, rows] = pack(w);
      for (size_t i = 0; i < w.size(); ++i) ASSERT_EQ(rows[i], round_to(GetParam(), w[i])) << i;
      EXPECT_EQ(pack(rows).first, bytes);
    }
  }
}

TEST_P(Products, TwoRangesOfASliceStandSideBySide) {
  const int64_t k = 48, half = 32;
  const auto w = random_values(2 * half * k, 3), xf = random_values(2 * k, 4);
  const auto x = as_dtype(xf, GetParam(), 256 * k);
  const PackedShape shape = plan_packed({.k = k, .n = 2 * half, .width = 32}, GetParam());
  Arena arena("packed", shape.bytes), plain_arena("plain", shape.bytes);
  PackedMatrix mixed, plain;
  matmul_->pack_rows(
      shape, arena.data(),
      [&](int64_t s, int) {
        return std::vector<Matmul::RowRange>{{w.data() + s * 16 * k, 16},
                                             {w.data() + (half + s * 16) * k, 16}};
      },
      mixed);
  matmul_->pack_rows(
      shape, plain_arena.data(),
      [&](int64_t s, int) {
        return std::vector<Matmul::RowRange>{{w.data() + s * 32 * k, 32}};
      },
      plain);
  const auto a = run_product(*matmul_, mixed, x, 2), b = run_product(*matmul_, plain, x, 2);
  for (int64_t c = 0; c < 16; ++c) {
    EXPECT_EQ(a[c], b[c]);
    EXPECT_EQ(a[16 + c], b[half + c]);
    EXPECT_EQ(a[half + c], b[16 + c]);
  }
}

// As deep as the gate and up projections of a 70B model, and as deep as leaves no room for whole
// column blocks of both halves: joined slices have to fit the scratch of a worker.
TEST_P(Products, WideJoinedHalvesArePackedAndMatchTheOracle) {
  const int64_t m = 3;
  for (const auto& [k, half, slices] : {std::array<int64_t, 3>{8192, 320, 3}, {24576, 80, 2}}) {
    const int64_t n = 2 * half;
    const auto w = random_values(n * k, 9), xf = random_values(m * k, 10);
    const auto x = as_dtype(xf, GetParam(), padded_rows(m) * k);
    const PackedShape shape = plan_packed({k, n, {2}}, GetParam());
    ASSERT_EQ(shape.slices.count(), slices);
    Arena arena("packed", shape.bytes);
    PackedMatrix packed;
    matmul_->pack_rows(
        shape, arena.data(),
        [&](int64_t s, int) {
          const int64_t first = shape.slices.first(s) / 2, count = shape.slices.size(s) / 2;
          return std::vector<Matmul::RowRange>{{w.data() + first * k, count},
                                               {w.data() + (half + first) * k, count}};
        },
        packed);
    std::vector<float> y(m * n, std::nanf(""));
    matmul_->run(packed, x.data(), m, [&](const MatmulTile& t) {
      const int64_t first = t.col0 / 2, each = t.cols / 2;
      for (int64_t r = 0; r < t.rows; ++r)
        for (int64_t c = 0; c < t.cols; ++c)
          y[(t.row0 + r) * n + c / each * half + first + c % each] = t.data[r * t.stride + c];
    });
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; j += 3) {
        double want = 0;
        for (int64_t t = 0; t < k; ++t)
          want += static_cast<double>(element(x.data(), GetParam(), i * k + t)) *
                  round_to(GetParam(), w[j * k + t]);
        ASSERT_NEAR(y[i * n + j], want, tolerance(k)) << i << "," << j << " of depth " << k;
      }
    }
  }
}

// The last slice may be a single column.
TEST_P(Products, ARowHasTheSameBitsInEveryBatch) {
  ASSERT_TRUE(matmul_->exact()) << matmul_->implementation();
  const int64_t k = 576;
  const auto row = random_values(k, 6);
  for (const auto& [n, width] : {std::array<int64_t, 2>{320, 128}, {513, 512}}) {
    const auto w = random_values(n * k, 5);
    const PackedShape shape = plan_packed({.k = k, .n = n, .width = width}, GetParam());
    Arena arena("packed", shape.bytes);
    PackedMatrix packed;
    matmul_->pack_rows(
        shape, arena.data(),
        [&](int64_t s, int) {
          return std::vector<Matmul::RowRange>{
              {w.data() + shape.slices.first(s) * k, shape.slices.size(s)}};
        },
        packed);
    std::vector<float> reference;
    for (const int64_t m : {1, 2, 5, 16, 17, 48, 63, 130, 256, 300, 513}) {
      for (const int64_t place : {int64_t{0}, m / 2, m - 1}) {
        auto xf = random_values(m * k, static_cast<unsigned>(m));
        std::copy(row.begin(), row.end(), xf.begin() + place * k);
        const auto y =
            run_product(*matmul_, packed, as_dtype(xf, GetParam(), padded_rows(m) * k), m);
        const std::vector<float> got(y.begin() + place * n, y.begin() + (place + 1) * n);
        if (reference.empty()) reference = got;
        ASSERT_EQ(std::memcmp(got.data(), reference.data(), n * sizeof(float)), 0)
            << n << " columns, m " << m << " place " << place;
      }
    }
  }
}

TEST_P(Products, WeightGradientsAddToWhatIsThere) {
  for (const Shape s : {Shape{1, 16, 16, 0}, Shape{37, 64, 80, 0}, Shape{300, 96, 530, 0}}) {
    const int64_t padded = padded_gradient_rows(s.m), stride = s.n + 16;
    auto dyf = random_values(s.m * stride, 7), xf = random_values(s.m * s.k, 8);
    const auto dy = as_dtype(dyf, GetParam(), (padded - s.m) * stride);
    const auto x = as_dtype(xf, GetParam(), (padded - s.m) * s.k);
    std::vector<float> grad(s.n * s.k, 0.5f);
    matmul_->accumulate_weight_grad({dy.data(), stride, x.data(), s.m, s.n, s.k, grad.data()});
    for (int64_t i = 0; i < s.n; i += 3) {
      for (int64_t j = 0; j < s.k; ++j) {
        double want = 0.5;
        for (int64_t t = 0; t < s.m; ++t)
          want += static_cast<double>(element(dy.data(), GetParam(), t * stride + i)) *
                  element(x.data(), GetParam(), t * s.k + j);
        ASSERT_NEAR(grad[i * s.k + j], want, tolerance(s.m) + 1e-6) << i << "," << j;
      }
    }
  }
}

// Rows of dy and of x up to the padded depth, in the compute dtype; those from m on are zero.
struct GradientOperands {
  GradientOperands(Dtype dtype, int64_t m, int64_t n, int64_t k)
      : m(m),
        n(n),
        k(k),
        dyf(random_values(m * n, 11)),
        xf(random_values(m * k, 12)),
        dy(as_dtype(dyf, dtype, (padded_gradient_rows(m) - m) * n)),
        x(as_dtype(xf, dtype, (padded_gradient_rows(m) - m) * k)) {}
  std::vector<float> gradient(Matmul& matmul) const {
    std::vector<float> grad(n * k, 0.25f);
    matmul.accumulate_weight_grad({dy.data(), n, x.data(), m, n, k, grad.data()});
    return grad;
  }
  int64_t m, n, k;
  std::vector<float> dyf, xf;
  std::vector<std::byte> dy, x;
};

TEST_P(Products, WeightGradientsOfManyTilesAndRowsMatchTheOracle) {
  const GradientOperands o(GetParam(), 1100, 700, 530);
  ASSERT_EQ(cut_gradient(o.n, o.k).count(), 6);
  const std::vector<float> grad = o.gradient(*matmul_);
  for (int64_t i = 0; i < o.n; i += 13) {
    for (int64_t j = 0; j < o.k; j += 7) {
      double want = 0.25;
      for (int64_t t = 0; t < o.m; ++t)
        want += static_cast<double>(element(o.dy.data(), GetParam(), t * o.n + i)) *
                element(o.x.data(), GetParam(), t * o.k + j);
      ASSERT_NEAR(grad[i * o.k + j], want, tolerance(o.m)) << i << "," << j;
    }
  }
}

TEST_P(Products, WeightGradientsHaveTheSameBitsOnAnyNumberOfThreads) {
  const GradientOperands o(GetParam(), 300, 700, 530);
  const std::vector<float> want = o.gradient(*matmul_);
  for (const int threads : {1, 3, 7}) {
    const auto executor = make_thread_executor(threads);
    Matmul matmul(*executor, GetParam());
    EXPECT_EQ(o.gradient(matmul), want) << threads << " threads";
  }
}

// The sum of an element goes over rows, so a tile keeps its bits whatever stands in the columns
// beside it.
TEST_P(Products, TheTilesOfAWeightGradientDoNotMeet) {
  const GradientOperands o(GetParam(), 300, 700, 530);
  const std::vector<float> want = o.gradient(*matmul_);
  const GradientTile tile = cut_gradient(o.n, o.k).at(0);
  GradientOperands other = o;
  const auto replace_from = [&](int64_t column, int64_t width, std::vector<float>& rows,
                                unsigned seed) {
    const auto values = random_values(o.m * width, seed);
    for (int64_t r = 0; r < o.m; ++r)
      std::copy_n(&values[r * width + column], width - column, &rows[r * width + column]);
    return as_dtype(rows, GetParam(), (padded_gradient_rows(o.m) - o.m) * width);
  };
  other.dy = replace_from(tile.n, o.n, other.dyf, 13);
  other.x = replace_from(tile.k, o.k, other.xf, 14);
  const std::vector<float> got = other.gradient(*matmul_);
  for (int64_t i = 0; i < tile.n; ++i)
    ASSERT_EQ(std::memcmp(&got[i * o.k], &want[i * o.k], tile.k * sizeof(float)), 0) << "row " << i;
  EXPECT_NE(got[tile.k], want[tile.k]);
  EXPECT_NE(got[tile.n * o.k], want[tile.n * o.k]);
}

TEST_P(Products, WeightGradientsMakeNoKernelOnceTheirShapeIsPrepared) {
  const int64_t n = 530, k = 96;
  matmul_->prepare_weight_grad(n, k, n);
  const int64_t made = matmul_->kernels_made();
  for (int64_t m = 1; m < 1200; m += 37) {
    GradientOperands(GetParam(), m, n, k).gradient(*matmul_);
    ASSERT_EQ(matmul_->kernels_made(), made) << m << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Products, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return dtype_name(info.param); });

// The runs capped at AVX2 prove something only when the cap reaches oneDNN and Highway.
class CappedIsa : public ::testing::TestWithParam<const char*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CappedIsa);
INSTANTIATE_TEST_SUITE_P(Caps, CappedIsa,
                         ::testing::ValuesIn(capped_at_avx2() ? std::vector{"AVX2"}
                                                              : std::vector<const char*>{}));

TEST_P(CappedIsa, HoldsForProductsAndForVectorKernels) {
  const auto executor = make_thread_executor(1);
  const Matmul matmul(*executor, Dtype::kF32);
  EXPECT_EQ(matmul.implementation().find("avx512"), std::string::npos) << matmul.implementation();
  EXPECT_FALSE(cpu_has_bf16_dot());
  EXPECT_EQ(hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX3_DL), 0);
}

}  // namespace
}  // namespace rl::testing
