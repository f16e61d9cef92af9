// Which rows are taken together, and that every row is attended exactly once.
#include "ops/attention_work.h"

#include <gtest/gtest.h>

#include <random>

namespace rl {
namespace {

constexpr int64_t kBlock = 16;

TEST(AttentionWork, SingleRowsThatShareTheirFirstBlocksFormAGroup) {
  const int32_t a[] = {7, 8, 1}, b[] = {7, 8, 2}, c[] = {7, 3, 4}, d[] = {9, 9, 9};
  const SequenceRows sequences[] = {{0, 1, 40, a}, {1, 1, 35, b}, {2, 1, 47, c}, {3, 1, 40, d}};
  AttentionWork work(16);
  work.cut(sequences, kBlock);
  ASSERT_EQ(work.shared_prefix_groups().size(), 1u);
  EXPECT_EQ(work.shared_prefix_groups()[0].rows.size(), 2u);
  EXPECT_EQ(work.shared_prefix_groups()[0].shared_blocks, 2);
  EXPECT_EQ(work.shared_prefix_groups()[0].rows[1].position, 35);
  ASSERT_EQ(work.ungrouped().size(), 2u);
  EXPECT_EQ(work.ungrouped()[0].first_row, 2);
  EXPECT_EQ(work.by_sequence().size(), 4u);
}

TEST(AttentionWork, ABlockThatIsStillWrittenToIsNotShared) {
  const int32_t a[] = {7, 8}, b[] = {7, 8};
  const SequenceRows sequences[] = {{0, 1, 15, a}, {1, 1, 31, b}};
  AttentionWork work(16);
  work.cut(sequences, kBlock);
  EXPECT_TRUE(work.shared_prefix_groups().empty());
  EXPECT_EQ(work.ungrouped().size(), 2u);
}

TEST(AttentionWork, RandomBatchesHaveEveryRowOnceInEitherCut) {
  std::mt19937 rng(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<int32_t>> tables;
    std::vector<SequenceRows> sequences;
    int32_t rows = 0;
    for (unsigned s = 0, count = 1 + rng() % 40; s < count; ++s) {
      const auto length = static_cast<int32_t>(1 + rng() % 90);
      const int32_t own =
          rng() % 4 == 0 ? static_cast<int32_t>(1 + rng() % static_cast<unsigned>(length)) : 1;
      tables.emplace_back();
      for (int32_t b = 0; b * kBlock < length; ++b)
        tables.back().push_back(static_cast<int32_t>(b * 2 + rng() % 2));
      sequences.push_back({rows, own, length - own, nullptr});
      rows += own;
    }
    for (size_t s = 0; s < sequences.size(); ++s) sequences[s].blocks = tables[s].data();
    AttentionWork work(rows);
    work.cut(sequences, kBlock);
    std::vector<int> by_sequence(static_cast<size_t>(rows)), mixed(static_cast<size_t>(rows));
    const auto count = [](std::vector<int>& seen, int64_t first, int64_t n) {
      for (int64_t r = first; r < first + n; ++r) ++seen[static_cast<size_t>(r)];
    };
    for (const AttentionRows& r : work.by_sequence()) count(by_sequence, r.first_row, r.rows);
    for (const AttentionRows& r : work.ungrouped()) count(mixed, r.first_row, r.rows);
    for (const SharedAttentionRows& r : work.shared_prefix_groups()) {
      ASSERT_LE(r.rows.size(), static_cast<size_t>(kAttentionMaxRows));
      count(mixed, r.first_row, static_cast<int64_t>(r.rows.size()));
      for (const SharedRow& row : r.rows) {
        ASSERT_GE(row.position, r.shared_blocks * kBlock);
        ASSERT_TRUE(std::equal(row.blocks, row.blocks + r.shared_blocks, r.rows.front().blocks));
      }
    }
    ASSERT_EQ(by_sequence, std::vector<int>(static_cast<size_t>(rows), 1));
    ASSERT_EQ(mixed, std::vector<int>(static_cast<size_t>(rows), 1));
  }
}

}  // namespace
}  // namespace rl
