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
  if (key < p.prefix) return {p.d_prefix + (key - p.first_sum) * kWidth, 0};
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

// The rows of a batch that ranks divide into chunks, as one of them has them.
struct RankWork {
  RankWork(const Batch& batch, const std::vector<RowChunk>& chunks, const std::vector<size_t>& mine)
      : sums(static_cast<size_t>(batch.rows * kWidth)), work(batch.rows, kWidth) {
    all.sequences = batch.sequences;
    all.chunks = chunks;
    all.rows = batch.rows;
    all.own_place = chunks[mine.front()].place;
    for (const size_t c : mine) add(batch, chunks[c]);
    all.own = wholes;
    work.cut(own, all, sums.data());
  }
  void add(const Batch& batch, const RowChunk& chunk) {
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const SequenceRows& s = batch.sequences[i];
      const auto first = std::max<int64_t>(s.first_row, chunk.first_row);
      const auto end = std::min<int64_t>(s.first_row + s.rows, chunk.end_row);
      if (first >= end) continue;
      own.push_back({static_cast<int32_t>(all.own_rows), static_cast<int32_t>(end - first),
                     static_cast<int32_t>(s.first_position + first - s.first_row), nullptr});
      wholes.push_back(static_cast<int32_t>(i));
      for (int64_t row = first; row < end; ++row) rows.push_back(row);
      all.own_rows += end - first;
    }
  }
  // The row of the whole batch that has the key of a sequence.
  int64_t row_of_key(size_t whole, int64_t key) const {
    const SequenceRows& s = all.sequences[whole];
    if (key >= s.first_position) return s.first_row + key - s.first_position;
    return all.sequences[static_cast<size_t>(s.prefix_sequence)].first_row + key;
  }
  int64_t place_of_row(int64_t row) const {
    for (const RowChunk& c : all.chunks)
      if (row >= c.first_row && row < c.end_row) return c.place + row - c.first_row;
    return -1;
  }
  size_t whole_of_row(int64_t own_row) const {
    size_t i = 0;
    while (own_row >= own[i].first_row + own[i].rows) ++i;
    return static_cast<size_t>(wholes[i]);
  }

  DividedRows all;
  std::vector<SequenceRows> own;
  std::vector<int32_t> wholes;
  std::vector<int64_t> rows;  // of the whole batch
  std::set<int64_t> stored;   // own rows that a piece overwrote
  std::vector<float> sums;
  BackwardWork work;
};

// Rows of the whole batch and the keys that they met on this rank, by the row of the key.
void meet(RankWork& r, std::map<std::pair<int64_t, int64_t>, int>& met) {
  for (int64_t step = 0; step < r.work.steps(); ++step) {
    const auto pieces = r.work.pieces(step, {1.0f});
    expect_nothing_shared({pieces.begin(), pieces.end()});
    for (const AttentionBackwardPiece& p : pieces) {
      const size_t whole = r.whole_of_row(p.rows.first_row);
      for (int64_t k = p.first_key; k < p.end_key; ++k) {
        const int64_t key_row = r.row_of_key(whole, k);
        if (k < p.prefix) {
          ASSERT_EQ(place_of(p, k).first, r.sums.data() + r.place_of_row(key_row) * kWidth);
        } else {
          ASSERT_EQ(r.rows[static_cast<size_t>(place_of(p, k).second)], key_row);
        }
        for (int64_t i = 0; i < p.rows.rows; ++i)
          if (k <= p.rows.first_position + i)
            ++met[{r.rows[static_cast<size_t>(p.rows.first_row + i)], key_row}];
      }
      if (!p.overwrite) continue;
      EXPECT_EQ(p.end_key, p.rows.first_position + p.rows.rows);
      for (int64_t i = 0; i < p.rows.rows; ++i)
        ASSERT_TRUE(r.stored.insert(p.rows.first_row + i).second);
    }
  }
  EXPECT_EQ(r.stored.size(), r.rows.size());
}

// A batch of random groups, cut anywhere, also within prompts, into one or two chunks for a rank.
struct Division {
  Batch batch;
  std::vector<RowChunk> chunks;
  std::vector<std::vector<size_t>> of_ranks;  // which chunks

  RankRows rows_of(size_t rank, bool own) const {
    RankRows out{chunks[of_ranks[rank].front()].place, 0, own};
    out.end = out.begin;
    for (const size_t c : of_ranks[rank]) out.end += chunks[c].end_row - chunks[c].first_row;
    return out;
  }
};

Batch random_groups(std::mt19937& rng, int round) {
  Batch batch;
  for (unsigned group = 0, groups = 1 + rng() % 3; group < groups; ++group) {
    const auto prefix_sequence = static_cast<int32_t>(batch.sequences.size());
    const auto prompt = static_cast<int32_t>(1 + rng() % (round % 2 == 0 ? 30 : 400));
    batch.add(prompt, 0, -1);
    for (unsigned i = 0, count = rng() % 6; i < count; ++i)
      batch.add(static_cast<int32_t>(1 + rng() % 300), prompt, prefix_sequence);
  }
  return batch;
}

Division random_division(std::mt19937& rng, int round) {
  Division d{random_groups(rng, round), {}, {}};
  const int64_t ranks = 1 + rng() % 4, count = round % 3 == 0 ? 2 * ranks : ranks;
  std::vector<int64_t> bounds = {0, d.batch.rows};
  for (int64_t i = 1; i < count; ++i) bounds.push_back(rng() % (d.batch.rows + 1));
  std::ranges::sort(bounds);
  for (int64_t c = 0; c < count; ++c)
    d.chunks.push_back({bounds[static_cast<size_t>(c)], bounds[static_cast<size_t>(c + 1)], 0});
  d.of_ranks.resize(static_cast<size_t>(ranks));
  int64_t place = 0;
  for (int64_t r = 0; r < ranks; ++r) {
    for (int64_t c = 0; c < count; ++c) {
      if (c != r && (c < ranks || 2 * ranks - 1 - c != r)) continue;
      RowChunk& chunk = d.chunks[static_cast<size_t>(c)];
      d.of_ranks[static_cast<size_t>(r)].push_back(static_cast<size_t>(c));
      chunk.place = place;
      place += chunk.end_row - chunk.first_row;
    }
  }
  return d;
}

void expect_all_met_once(const Batch& batch,
                         const std::map<std::pair<int64_t, int64_t>, int>& met) {
  size_t want = 0;
  for (const SequenceRows& s : batch.sequences) {
    for (int64_t r = 0; r < s.rows; ++r) want += static_cast<size_t>(s.first_position + r + 1);
  }
  for (const auto& [pair, times] : met) ASSERT_EQ(times, 1);
  EXPECT_EQ(met.size(), want);
}

TEST(BackwardWork, RanksThatDivideRowsMeetEveryKeyOnce) {
  std::mt19937 rng(6);
  for (int round = 0; round < 30; ++round) {
    const Division d = random_division(rng, round);
    std::map<std::pair<int64_t, int64_t>, int> met;
    for (const std::vector<size_t>& mine : d.of_ranks) {
      RankWork rank(d.batch, d.chunks, mine);
      meet(rank, met);
    }
    expect_all_met_once(d.batch, met);
  }
}

// The same as meet() for a device that takes whole sequences. Parts that add to the same sums take
// the same keys, one part after the other.
void meet_whole(const RankWork& r, std::map<std::pair<int64_t, int64_t>, int>& met) {
  struct Keys {
    int64_t first, end;
    size_t part;
  };
  std::map<const float*, Keys> taken;
  r.work.for_each_sequence([&](const AttentionRows& rows, size_t part) {
    const size_t whole = r.whole_of_row(rows.first_row);
    const auto add = [&](int64_t row, int64_t key) {
      ++met[{r.rows[static_cast<size_t>(rows.first_row + row)], r.row_of_key(whole, key)}];
    };
    for (int64_t i = 0; i < rows.rows; ++i)
      for (int64_t k = rows.first_position; k <= rows.first_position + i; ++k) add(i, k);
    r.work.for_each_prefix_keys(part, [&](const BackwardWork::TakenKeys& t) {
      ASSERT_TRUE(t.stride == kWidth && t.blocks == nullptr);
      for (int64_t k = t.first; k < t.end; ++k) {
        const int64_t place = r.place_of_row(r.row_of_key(whole, k));
        ASSERT_EQ(t.sums + (k - t.first) * kWidth, r.sums.data() + place * kWidth);
        for (int64_t i = 0; i < rows.rows; ++i) add(i, k);
      }
      Keys& keys = taken.try_emplace(t.sums, Keys{t.first, t.end, part}).first->second;
      ASSERT_TRUE(keys.first == t.first && keys.end == t.end && keys.part + 1 >= part);
      keys.part = part;
    });
  });
}

TEST(BackwardWork, RanksThatDivideRowsMeetEveryKeyOnceInWholeSequences) {
  std::mt19937 rng(8);
  for (int round = 0; round < 30; ++round) {
    const Division d = random_division(rng, round);
    std::map<std::pair<int64_t, int64_t>, int> met;
    for (const std::vector<size_t>& mine : d.of_ranks)
      meet_whole(RankWork(d.batch, d.chunks, mine), met);
    expect_all_met_once(d.batch, met);
  }
}

// The same as meet() with the keys of one rank. Nothing is added to a gradient of this rank's own
// keys before it was stored.
void meet_keys_of(RankWork& r, const RankRows& keys,
                  std::map<std::pair<int64_t, int64_t>, int>& met) {
  const int64_t stride = keys.own ? 2 * kWidth + 1 : kWidth;
  std::vector<float> gradients(static_cast<size_t>((keys.count() + 1) * stride));
  r.work.cut(r.own, r.all, keys, {gradients.data(), stride});
  EXPECT_EQ(r.work.num_sums(), keys.own ? 0 : keys.count() * kWidth);
  std::set<const float*> stored;
  for (int64_t step = 0; step < r.work.steps(); ++step) {
    std::set<const float*> written, now;
    std::set<int64_t> rows;
    for (const AttentionBackwardPiece& p : r.work.pieces(step, {1.0f})) {
      ASSERT_TRUE(keys.own || !p.overwrite);
      const size_t whole = r.whole_of_row(p.rows.first_row);
      for (int64_t k = p.first_key; k < p.end_key; ++k) {
        const int64_t key_row = r.row_of_key(whole, k);
        const int64_t row = r.place_of_row(key_row) - keys.begin;
        ASSERT_TRUE(row >= 0 && row < keys.count());
        const float* const place = gradients.data() + row * stride;
        ASSERT_TRUE(written.insert(place).second);
        if (p.overwrite) now.insert(place);
        ASSERT_TRUE(p.overwrite || !keys.own || stored.contains(place));
        if (k < p.prefix) {
          ASSERT_EQ(p.prefix_stride, stride);
          ASSERT_EQ(p.d_prefix + (k - p.first_sum) * stride, place);
        }
        for (int64_t i = 0; i < p.rows.rows; ++i)
          if (k <= p.rows.first_position + i)
            ++met[{r.rows[static_cast<size_t>(p.rows.first_row + i)], key_row}];
      }
      for (int64_t i = 0; i < p.rows.rows; ++i)
        ASSERT_TRUE(rows.insert(p.rows.first_row + i).second);
    }
    stored.merge(now);
  }
  EXPECT_EQ(static_cast<int64_t>(stored.size()), keys.own ? keys.count() : 0);
}

TEST(BackwardWork, KeysOfOneRankAfterTheOtherAreMetOnce) {
  std::mt19937 rng(7);
  for (int round = 0; round < 30; ++round) {
    const Division d = random_division(rng, round);
    std::map<std::pair<int64_t, int64_t>, int> met;
    for (size_t r = 0; r < d.of_ranks.size(); ++r) {
      RankWork rank(d.batch, d.chunks, d.of_ranks[r]);
      for (size_t source = 0; source < d.of_ranks.size(); ++source)
        meet_keys_of(rank, d.rows_of(source, source == r), met);
    }
    expect_all_met_once(d.batch, met);
  }
}

}  // namespace
}  // namespace rl
