// Checks the guarantees of splitting a GEMM into tasks, for one GEMM and many thread counts.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/matmul_slices.h"

namespace rl::testing {

inline void check_column_tile(const SliceRule& rule, const ColumnSlices& slices,
                              const ColumnTile& p, bool any_columns) {
  const int64_t unit = any_columns ? 16 : rule.cut.unit;
  ASSERT_GT(p.width, 0);
  ASSERT_EQ(p.cols, p.width * p.parts);
  if (rule.cut.parts == 1 && rule.n % unit == 0) {
    ASSERT_EQ(p.col0 % unit, 0) << "a piece begins inside of a unit of " << unit;
    ASSERT_EQ(p.cols % unit, 0) << "a piece ends inside of a unit of " << unit;
  }
  // A task of the skinny kernel may start inside a column block only if it ends in the same one.
  for (int64_t part = 0; part < p.parts; ++part) {
    const int64_t within = (part * (slices.size(p.slice) / p.parts) + p.first) % kSkinnyColumnBlock;
    ASSERT_TRUE(within == 0 || within + p.width <= kSkinnyColumnBlock)
        << "part " << part << " of column " << p.col0;
  }
}

// Every column of every slice belongs to exactly one task.
inline void check_column_tiles(const SliceRule& rule, const ColumnSlices& slices, int64_t threads,
                               bool any_columns) {
  const ColumnTiles tiles(slices, rule.cut, threads, any_columns);
  std::vector<int> seen(static_cast<size_t>(slices.n), 0);
  for (int64_t i = 0; i < tiles.count(); ++i) {
    const ColumnTile p = tiles.at(i);
    ASSERT_NO_FATAL_FAILURE(check_column_tile(rule, slices, p, any_columns));
    ASSERT_LT(p.slice, slices.count());
    ASSERT_EQ(p.col0, slices.first(p.slice) + p.first * p.parts);
    for (int64_t part = 0; part < p.parts; ++part) {
      const int64_t first =
          slices.first(p.slice) + part * (slices.size(p.slice) / p.parts) + p.first;
      ASSERT_LE(first + p.width, slices.n);
      for (int64_t c = first; c < first + p.width; ++c) ++seen[static_cast<size_t>(c)];
    }
  }
  const auto wrong = std::find_if(seen.begin(), seen.end(), [](int times) { return times != 1; });
  ASSERT_EQ(wrong, seen.end()) << "column " << wrong - seen.begin() << " of " << slices.n
                               << " is in " << *wrong << " pieces on " << threads << " threads";
}

inline void check_product(const SliceRule& rule) {
  const ColumnSlices s = cut_slices(rule);
  int64_t next = 0;
  for (int64_t i = 0; i < s.count(); ++i) {
    ASSERT_EQ(s.first(i), next);
    ASSERT_GT(s.size(i), 0);
    next += s.size(i);
  }
  ASSERT_EQ(next, rule.n);
  ASSERT_LE(s.width * kMaxTileRows, kTileFloats);
  ASSERT_EQ(s.count() == 1 ? 0 : s.width % rule.cut.unit, 0) << "a slice ends inside of a unit";
  if (rule.cut.parts == 2) {
    ASSERT_LE(s.width * rule.k, kMaxJoinedFloats);
    ASSERT_EQ(s.width % 2 + s.size(s.count() - 1) % 2, 0) << "a slice has no halves";
  }
  for (const int64_t threads : {1, 2, 3, 4, 8, 16, 32, 64, 128}) {
    ASSERT_NO_FATAL_FAILURE(check_column_tiles(rule, s, threads, false));
    if (rule.cut.parts != 1) continue;
    ASSERT_NO_FATAL_FAILURE(check_column_tiles(rule, s, threads, true));
  }
}

inline void check_gradient(int64_t n, int64_t k, const GradientCut& cut) {
  int64_t covered = 0, row = 0, column = 0;
  for (int64_t i = 0; i < cut.count(); ++i) {
    const GradientTile t = cut.at(i);
    ASSERT_EQ(t.n0, row) << n << " x " << k;
    ASSERT_EQ(t.k0, column) << n << " x " << k;
    ASSERT_TRUE(t.n > 0 && t.n <= 384 && t.k > 0 && t.k <= 384) << t.n << " x " << t.k;
    covered += t.n * t.k;
    column += t.k;
    if (column == k) {
      column = 0;
      row += t.n;
    }
  }
  ASSERT_EQ(covered, n * k);
}
inline void check_gradient(int64_t n, int64_t k) {
  ASSERT_NO_FATAL_FAILURE(check_gradient(n, k, cut_gradient(n, k)));
  const GradientCut packed = cut_packed_gradient(n, k);
  ASSERT_NO_FATAL_FAILURE(check_gradient(n, k, packed));
  for (int64_t s = 0; s + 1 < packed.k.count(); ++s)
    ASSERT_EQ(packed.k.size(s) % kPackedColumns, 0) << "a block has padding: " << k << " columns";
}

}  // namespace rl::testing
