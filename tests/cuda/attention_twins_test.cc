// Attention on the GPU: against the reference device, and bit for bit whatever shares the call.
//
// Tolerances: an output is a mean of values, below 4 in magnitude, so a few hundred roundings of
// fp32 change it by less than 1e-5. Weights that are rounded to bf16 are off by up to 2^-9 each. A
// log-sum-exp is below 16 in magnitude.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "cuda/attention_batch.h"
#include "ops/cuda/attention_tiles.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

Tolerance tolerance_of(const AttentionOf& c) { return {c.rounds_weights() ? 4.0 / 512 : 1e-5, 0}; }
constexpr Tolerance kLseTolerance{2e-5, 0};

class AttentionTwins : public ::testing::TestWithParam<AttentionOf> {
 protected:
  const AttentionOf c_ = GetParam();
  TwoDevices devices_{c_.dtype};

  void expect_reference(const RowsOfSequences& rows) {
    AttentionData data(c_, rows);
    devices_.run([&](Compute& compute, auto at) { data.attend(compute, at); });
    expect_near(c_.dtype, data.out(), tolerance_of(c_));
    expect_near(data.lse(), kLseTolerance);
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTwins, ::testing::ValuesIn(kAttentionCases), name_of);

// Prefills, a chunk of one, and decode rows at borders of blocks and steps.
TEST_P(AttentionTwins, RowsOfAllKindsMatchTheReference) {
  RowsOfSequences rows(c_.block_size);
  rows.add(37, 0);
  rows.add(20, 51);
  for (const int32_t position : {0, 15, 16, 31, 63, 64, 100}) rows.add(1, position);
  rows.add(2, 0);
  expect_reference(rows);
}

class WindowedAttentionTwins : public AttentionTwins {};
INSTANTIATE_TEST_SUITE_P(Shapes, WindowedAttentionTwins,
                         ::testing::ValuesIn(with_window(kAttentionCases)), name_of);

class LongAttentionTwins : public AttentionTwins {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, LongAttentionTwins,
    ::testing::Values(AttentionOf{2, 1, 16, 64, 0, Dtype::kBf16, Dtype::kBf16},
                      AttentionOf{2, 2, 16, 32, 530, Dtype::kBf16, Dtype::kBf16},
                      AttentionOf{18, 1, 16, 64, 0, Dtype::kBf16, Dtype::kBf16},
                      AttentionOf{2, 1, 144, 64, 0, Dtype::kBf16, Dtype::kBf16},
                      AttentionOf{2, 1, 16, 128, 0, Dtype::kF32, Dtype::kF32},
                      AttentionOf{2, 1, 16, 64, 600, Dtype::kF32, Dtype::kBf16}),
    name_of);

// Several splits, walked by one block or computed by one each.
TEST_P(LongAttentionTwins, SplitsMatchTheReference) {
  RowsOfSequences rows(c_.block_size);
  rows.add(17, 505);
  rows.add(1, 511);
  rows.add(1, 512);
  rows.add(1, 1100);
  rows.add(3, 1022);
  expect_reference(rows);
}

// The rows of one sequence, at positions from `first` on, taken in chunks.
RowBits in_chunks(TwoDevices& devices, AttentionData& data, const AttentionOf& c, int32_t chunk) {
  const SequenceRows& all = data.rows().all().front();
  AttentionWork work(all.rows);
  for (int32_t r = 0; r < all.rows; r += chunk) {
    const SequenceRows part{r, std::min(chunk, all.rows - r), all.first_position + r, all.blocks};
    work.cut({&part, 1}, c.block_size);
    attend(devices.gpu(), {data.args(DeviceSide()), work, nullptr});
  }
  return {data.out().read_device(), data.lse().read_device()};
}

// N1 and N2: decode, prefill in any chunks and the forward of training have the same bits.
TEST_P(AttentionTwins, ChunksChangeNoBit) {
  RowsOfSequences rows(c_.block_size);
  rows.add(75, 0);
  AttentionData data(c_, rows);
  const RowBits whole = in_chunks(devices_, data, c_, 75);
  for (const int32_t chunk : {1, 5, 16, 33}) {
    AttentionData again(c_, rows);
    EXPECT_TRUE(in_chunks(devices_, again, c_, chunk) == whole) << "chunk " << chunk;
  }
}
TEST_P(LongAttentionTwins, SplitsOfTheirOwnChangeNoBit) {
  RowsOfSequences rows(c_.block_size);
  rows.add(23, 1010);
  AttentionData data(c_, rows);
  const RowBits whole = in_chunks(devices_, data, c_, 23);
  for (const int32_t chunk : {1, 7}) {
    AttentionData again(c_, rows);
    EXPECT_TRUE(in_chunks(devices_, again, c_, chunk) == whole) << "chunk " << chunk;
  }
}

// Decode rows that share a table up to their own position: each alone, and all in one call.
TEST_P(AttentionTwins, NeighboursInTheBatchChangeNoBit) {
  RowsOfSequences rows(c_.block_size);
  rows.add(1, 90);
  for (const int32_t position : {40, 90, 3, 89, 64, 17})
    rows.add_with_table(1, position, rows.all().front().blocks);
  rows.add(30, 8);
  AttentionData data(c_, rows), alone(c_, rows);
  data.attend(devices_.gpu(), DeviceSide());
  AttentionWork work(rows.rows());
  for (const SequenceRows& sequence : rows.all()) {
    work.cut({&sequence, 1}, c_.block_size);
    attend(devices_.gpu(), {alone.args(DeviceSide()), work, nullptr});
  }
  EXPECT_EQ(data.out().read_device(), alone.out().read_device());
  EXPECT_EQ(data.lse().read_device(), alone.lse().read_device());
}

// The keys of a prefix that ends inside a block lie in each sequence's own block too.
TEST_P(AttentionTwins, SequencesThatContinueAPrefixMatchTheReference) {
  const auto prefix_rows = static_cast<int32_t>(c_.block_size) + 5;
  RowsOfSequences rows(c_.block_size);
  rows.add(prefix_rows, 0);
  rows.add(7, prefix_rows, 0);
  rows.add(12, prefix_rows, 0);
  expect_reference(rows);
}

// Rows that ranks divide, with the keys of one rank after the other: as the reference, and near
// those of one call with all keys.
void expect_calls_match(TwoDevices& devices, const AttentionOf& c, const RowsOfSequences& rows,
                        const RowShares& shares) {
  AttentionData data(c, rows), whole(c, rows);
  OnBoth<float> calls(rows.rows() * c.heads * c.head_dim);
  shares.for_each_in_ring([&](int rank, const RankRows& keys) {
    devices.run([&](Compute& compute, auto at) {
      AttentionWork work(rows.rows());
      shares.cut(rank, keys, work);
      AttentionArgs args = data.args(at);
      args.out = nullptr;
      args.partial = at(calls);
      args.merges = !keys.own;
      attend(compute, {args, work, nullptr});
    });
  });
  expect_near(calls, tolerance_of(c));
  expect_near(data.lse(), kLseTolerance);
  whole.attend(devices.gpu(), DeviceSide());
  const std::vector<std::byte> out = whole.out().read_device();
  std::vector<float> want(static_cast<size_t>(calls.count()));
  for (size_t i = 0; i < want.size(); ++i)
    want[i] = reference::get(c.dtype, out.data(), static_cast<int64_t>(i));
  Tolerance tolerance = tolerance_of(c);
  if (c.dtype == Dtype::kBf16) tolerance.absolute += 4.0 / 512;  // the output is rounded
  expect_near(calls.read_device(), want, tolerance);
  expect_near(data.lse().read_device(), whole.lse().read_device(), kLseTolerance);
}

TEST_P(AttentionTwins, KeysOfOneRankAfterTheOtherMatchTheReference) {
  const RowsOfSequences rows = rows_to_divide(c_.block_size);
  expect_calls_match(devices_, c_, rows, RowShares(rows, 2, {45, 100}));
  expect_calls_match(devices_, c_, rows, RowShares(rows, 2, {12, 38, 70, 100}));
  expect_calls_match(devices_, c_, rows, RowShares(rows, 3, {10, 60, 100}));
}
TEST_P(LongAttentionTwins, KeysOfOneRankAfterTheOtherMatchTheReference) {
  RowsOfSequences rows(c_.block_size);
  rows.add(20, 0);
  const int32_t prefix = rows.add(600, 0);
  rows.add(40, 600, prefix);
  expect_calls_match(devices_, c_, rows, RowShares(rows, 2, {300, 500, 640, 660}));
}

// Without lse, as an engine calls it.
TEST_P(AttentionTwins, OutputDoesNotDependOnLse) {
  RowsOfSequences rows(c_.block_size);
  rows.add(9, 30);
  rows.add(1, 70);
  AttentionData data(c_, rows), without(c_, rows);
  data.attend(devices_.gpu(), DeviceSide());
  AttentionWork work(rows.rows());
  work.cut(rows.all(), c_.block_size);
  AttentionArgs args = without.args(DeviceSide());
  args.lse = nullptr;
  attend(devices_.gpu(), {args, work, nullptr});
  EXPECT_EQ(data.out().read_device(), without.out().read_device());
}

// A block that no row of a call attends has no place in the pool here.
TEST_P(WindowedAttentionTwins, BlocksOutsideEveryWindowAreNotRead) {
  RowsOfSequences rows(c_.block_size);
  rows.add(4, 110);
  rows.add(1, 120);
  for (size_t i = 0; i < rows.all().size(); ++i) {
    const SequenceRows& s = rows.all()[i];
    const int64_t first = c_.rule().first_key(s.first_position) / c_.block_size;
    for (int64_t b = 0; b < first; ++b) rows.table(i)[static_cast<size_t>(b)] = 1 << 20;
  }
  expect_reference(rows);
}

TEST_P(AttentionTwins, DecodeTurnsItsHeadsFirst) {
  RowsOfSequences rows(c_.block_size);
  for (const int32_t position : {70, 0, 16, 33}) rows.add(1, position);
  const RopeTable table = make_rope_table(c_.head_dim, 80, {.theta = 1e4});
  std::vector<RowPlace> places;
  for (const SequenceRows& s : rows.all())
    places.push_back({s.first_position, s.blocks[s.first_position / c_.block_size]});
  AttentionData data(c_, rows);
  OnBoth<float> qkv(random_values(rows.rows() * c_.width(), 3));
  devices_.run([&](Compute& compute, auto at) {
    AttentionWork work(rows.rows());
    work.cut(rows.all(), c_.block_size);
    const RopeKvArgs heads{.shape = c_.shape(),
                           .qkv = at(qkv),
                           .bias = nullptr,
                           .norm = nullptr,
                           .places = places.data(),
                           .table = &table,
                           .q = at(data.q()),
                           .pool = at(data.pool()),
                           .rows = rows.rows()};
    attend(compute, {data.args(at), work, &heads});
  });
  // A key that is rounded the other way moves a score by 2^-9 of it.
  Tolerance tolerance = tolerance_of(c_);
  if (c_.dtype == Dtype::kBf16 || c_.kv_dtype == Dtype::kBf16) tolerance.absolute += 0.02;
  expect_near(c_.dtype, data.out(), tolerance);
}

// The device says so before a model is made; the op does not rely on it.
TEST(AttentionLimits, HeadsAboveTheDevicesLargestAreRefused) {
  const int64_t most = TwoDevices(Dtype::kF32).gpu_device().max_head_dim();
  EXPECT_EQ(most, 256);
  const auto sizes_of = [](int64_t head_dim) {
    const AttentionOf c{2, 1, head_dim, 16, 0, Dtype::kF32, Dtype::kF32};
    return cuda::attention_sizes(c.shape(), c.rule());
  };
  EXPECT_EQ(sizes_of(most).width, most);
  const Error error = expect_error(Code::kUnsupported, [&] { sizes_of(most + 2); });
  EXPECT_TRUE(contains(error.message, "heads of 258 components"));
}

// Every pair of every run is in one tile, or in one tile for each split that holds keys of it.
TEST(AttentionTiles, CoverEveryPairOnce) {
  const AttentionOf c{6, 2, 64, 16, 700, Dtype::kBf16, Dtype::kBf16};
  const cuda::AttentionSizes sizes = cuda::attention_sizes(c.shape(), c.rule());
  const std::vector<cuda::AttentionRun> runs = {
      {0, 50, 600, 0}, {50, 1, 3000, 0}, {51, 1, 511, 0}, {52, 1, 512, 0}, {53, 3, 900, 0}};
  const auto tiles = cuda::tiles_of_runs(sizes, runs, 64);
  for (const int64_t most : {0, 3, 6, 1000}) {
    const cuda::SplitTiles split = cuda::split_tiles(sizes, runs, tiles, most);
    EXPECT_LE(split.partial_pairs, most);
    std::map<std::pair<int, int>, int> times, wanted;
    for (const cuda::AttentionTile& tile : split.tiles)
      for (int pair = tile.first_pair; pair < tile.end_pair; ++pair) ++times[{tile.run, pair}];
    for (size_t i = 0; i < runs.size(); ++i)
      for (int pair = 0; pair < runs[i].rows * 3; ++pair) wanted[{static_cast<int>(i), pair}] = 1;
    int64_t partial = 0;
    for (const cuda::MergedTile& tile : split.merged) {
      EXPECT_EQ(tile.partial, partial);
      partial += int64_t{tile.end_pair - tile.first_pair} * tile.splits;
      for (int pair = tile.first_pair; pair < tile.end_pair; ++pair)
        wanted[{tile.run, pair}] = tile.splits;
    }
    EXPECT_EQ(times, wanted) << "most " << most;
    EXPECT_EQ(split.partial_pairs, partial);
    // Row 3000 attends keys from 2301 on, in splits 4 and 5; row 512 keys of splits 0 and 1.
    EXPECT_EQ(split.merged.size(), most < 6 ? 0u : most < 12 ? 1u : 2u);
  }
}

}  // namespace
}  // namespace rl::testing
