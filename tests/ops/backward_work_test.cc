// The pieces of the attention backward: every row meets every key it attends once, and pieces of a
// step have nothing in common that they write.
#include "ops/backward_work.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

namespace rl {
namespace {

constexpr int64_t kChunk = kAttentionBackwardChunk, kWidth = 3;

// A batch of sequences and of prompts with the sequences that follow them.
struct Batch {
  std::vector<SequenceRows> sequences;
  int32_t rows = 0;
  void add(int32_t count, int32_t first_position, int32_t prefix_sequence) {
    sequences.push_back({rows, count, first_position, nullptr, prefix_sequence});
    rows += count;
  }
};

// Where the gradients of keys are written: a row of the batch, or a row of one of the sums.
using Place = std::pair<const float*, int64_t>;

struct Work {
  explicit Work(const Batch& batch, AttentionRule rule = {1.0f})
      : sums(static_cast<size_t>(batch.rows * kWidth)), work(batch.rows, kWidth) {
    work.cut(batch.sequences, sums.data());
    for (int64_t step = 0; step < work.steps(); ++step) {
      const auto pieces = work.pieces(step, rule);
      steps.emplace_back(pieces.begin(), pieces.end());
    }
  }
  std::vector<float> sums;
  BackwardWork work;
  std::vector<std::vector<AttentionBackwardPiece>> steps;
};

Place place_of(const AttentionBackwardPiece& p, int64_t key) {
  if (key < p.prefix) return {p.d_prefix + key * kWidth, 0};
  return {nullptr, p.rows.first_row - p.rows.first_position + key};
}

void expect_nothing_shared(const std::vector<AttentionBackwardPiece>& pieces) {
  std::set<int64_t> rows;
  std::set<Place> keys;
  for (const AttentionBackwardPiece& p : pieces) {
    for (int64_t r = 0; r < p.rows.rows; ++r) ASSERT_TRUE(rows.insert(p.rows.first_row + r).second);
    for (int64_t k = p.first_key; k < p.end_key; ++k)
      ASSERT_TRUE(keys.insert(place_of(p, k)).second);
  }
}

// How often each row of the batch met each position.
std::map<std::pair<int64_t, int64_t>, int> meetings(const Work& w) {
  std::map<std::pair<int64_t, int64_t>, int> met;
  for (const auto& pieces : w.steps)
    for (const AttentionBackwardPiece& p : pieces)
      for (int64_t r = 0; r < p.rows.rows; ++r)
        for (int64_t k = p.first_key; k < p.end_key && k <= p.rows.first_position + r; ++k)
          ++met[{p.rows.first_row + r, k}];
  return met;
}

void expect_all_met_once(const Batch& batch, const Work& w) {
  const auto met = meetings(w);
  size_t want = 0;
  for (const SequenceRows& s : batch.sequences) {
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t k = 0; k <= s.first_position + r; ++k, ++want) {
        const auto found = met.find({s.first_row + r, k});
        ASSERT_TRUE(found != met.end() && found->second == 1)
            << "row " << s.first_row + r << ", key " << k;
      }
    }
  }
  EXPECT_EQ(met.size(), want);
}

// The first step writes every row as row and as key; the others add.
void expect_first_step_overwrites(const Batch& batch, const Work& w) {
  int64_t rows = 0, keys = 0;
  for (size_t step = 0; step < w.steps.size(); ++step) {
    for (const AttentionBackwardPiece& p : w.steps[step]) {
      ASSERT_EQ(p.overwrite, step == 0);
      if (step > 0) continue;
      ASSERT_GE(p.first_key, p.prefix);
      rows += p.rows.rows;
      keys += p.end_key - p.first_key;
    }
  }
  EXPECT_EQ(rows, batch.rows);
  EXPECT_EQ(keys, batch.rows);
}

TEST(BackwardWork, RandomBatchesMeetEveryKeyOnceAndShareNothingInAStep) {
  std::mt19937 rng(5);
  const auto up_to = [&](unsigned most) { return static_cast<int32_t>(1 + rng() % most); };
  for (int round = 0; round < 40; ++round) {
    Batch batch;
    for (int32_t group = 0, groups = up_to(3); group < groups; ++group) {
      const auto prefix_sequence = static_cast<int32_t>(batch.sequences.size());
      const int32_t prompt = up_to(round % 2 == 0 ? 30 : 400);
      batch.add(prompt, 0, -1);
      for (unsigned i = 0, count = rng() % 8; i < count; ++i)
        batch.add(up_to(i % 2 == 0 ? 20 : 300), prompt, prefix_sequence);
    }
    const Work w(batch);
    for (const auto& pieces : w.steps) expect_nothing_shared(pieces);
    expect_all_met_once(batch, w);
    expect_first_step_overwrites(batch, w);
    for (const auto& pieces : w.steps) {
      for (const AttentionBackwardPiece& p : pieces) {
        ASSERT_LE(p.rows.rows, kChunk);
        ASSERT_LE(p.end_key - p.first_key, kChunk);
        if (p.first_key >= p.prefix) continue;
        ASSERT_GE(p.d_prefix, w.work.sums());
        ASSERT_LE(p.d_prefix + p.prefix * kWidth, w.work.sums() + w.work.num_sums());
      }
    }
  }
}

TEST(BackwardWork, ALongSequenceIsManyTasksOfOneStep) {
  Batch batch;
  batch.add(8192, 0, -1);
  const Work w(batch);
  ASSERT_EQ(w.work.steps(), 8192 / kChunk);
  for (size_t step = 0; step < w.steps.size(); ++step)
    EXPECT_EQ(w.steps[step].size(), 8192 / kChunk - step);
}

TEST(BackwardWork, KeysBehindEveryWindowAreLeftOut) {
  Batch batch;
  batch.add(1000, 0, -1);
  constexpr int64_t kWindow = 100;
  const Work all(batch), windowed(batch, {1.0f, kWindow});
  const auto met = meetings(windowed);
  for (int64_t row = 0; row < 1000; ++row)
    for (int64_t key = std::max<int64_t>(0, row - kWindow + 1); key <= row; ++key)
      ASSERT_TRUE(met.contains({row, key})) << row << ", " << key;
  EXPECT_LT(met.size(), meetings(all).size() / 2);
}

TEST(BackwardWork, FollowersOfAPromptTakeItsChunksInTurns) {
  Batch batch;
  batch.add(256, 0, -1);
  for (int i = 0; i < 8; ++i) batch.add(64, 256, 0);
  const Work w(batch);  // two parts of four sequences: a step of their own keys, then four turns
                        // for two chunks
  ASSERT_EQ(w.work.steps(), 5);
  EXPECT_EQ(w.steps[0].size(), 2u + 8u);
  EXPECT_EQ(w.steps[1].size(), 1u + 2u * 2u);
  EXPECT_EQ(w.work.num_sums(), 2 * 256 * kWidth);
}

}  // namespace
}  // namespace rl
