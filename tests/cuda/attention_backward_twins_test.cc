// The backward of attention on the GPU against the reference device: sequences alone and behind
// shared prefixes, rows that ranks divide, windows, every type and head size. The reference takes
// the work's pieces, the GPU does not; sums of shared prefixes are compared too.
//
// Tolerances are those of the CPU's tests: delta is taken from the rounded output, so in bf16 its
// error is 2^-9 of the output times the gradient, and rounded weights are off by as much. What a
// key receives is a sum over rows, which adds up such errors: in bf16 up to a few hundred of them,
// with random signs. Over all elements, two roundings to bf16, each of which is off by 2^-9 /
// sqrt(3) of a weight on average, give a relative distance of 1.6e-3. Gradients of
// queries and keys are zero where a window holds one key.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "cuda/attention_batch.h"

namespace rl::testing {
namespace {

class AttentionBackwardTwins : public ::testing::TestWithParam<AttentionOf> {
 protected:
  const AttentionOf c_ = GetParam();
  TwoDevices devices_{c_.dtype};

  int64_t sum_width() const { return 2 * c_.kv_heads * c_.head_dim; }

  // The forward's results come from the reference device on both sides.
  class Batch {
   public:
    Batch(AttentionBackwardTwins& test, const RowsOfSequences& rows)
        : test_(test),
          rows_(rows),
          data_(test.c_, rows),
          d_out_(random_values(rows.rows() * test.c_.heads * test.c_.head_dim, 9)),
          dqkv_(rows.rows() * test.c_.width()),
          sums_(random_values(rows.rows() * test.sum_width(), 10)) {
      data_.attend(test.devices_.reference(), HostSide());
      data_.out().write(std::vector<std::byte>(data_.out().host()));
      data_.lse().write(std::vector<float>(data_.lse().host()));
    }
    template <typename At>
    BackwardWork run(Compute& compute, const At& at) {
      return run(compute, at, [&](BackwardWork& work) { work.cut(rows_.all(), at(sums_)); });
    }
    // cut gives the work its rows.
    template <typename At, typename Cut>
    BackwardWork run(Compute& compute, const At& at, const Cut& cut) {
      const AttentionArgs forward = data_.args(at);
      BackwardWork work(rows_.rows(), test_.sum_width());
      cut(work);
      attend_backward(compute, {{forward.shape, forward.rule, forward.q, forward.pool, forward.out,
                                 forward.lse, at(d_out_), at(dqkv_), forward.products},
                                work,
                                nullptr});
      return work;
    }
    AttentionData& data() { return data_; }
    OnBoth<float>& d_out() { return d_out_; }
    OnBoth<float>& dqkv() { return dqkv_; }
    OnBoth<float>& sums() { return sums_; }

   private:
    AttentionBackwardTwins& test_;
    const RowsOfSequences& rows_;
    AttentionData data_;
    OnBoth<float> d_out_, dqkv_, sums_;
  };

  // Of gradients, where those of keys begin in a row.
  int64_t first_key_column() const { return c_.heads * c_.head_dim; }

  // Relative distance of some columns.
  void expect_close(const std::vector<float>& got, const std::vector<float>& want, int64_t first,
                    int64_t count) {
    double off = 0, all = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const int64_t column = static_cast<int64_t>(i) % c_.width() - first;
      if (column < 0 || column >= count) continue;
      off += std::pow(static_cast<double>(got[i]) - want[i], 2);
      all += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_LE(std::sqrt(off), (c_.rounds_weights() ? 2e-3 : 1e-6) * std::sqrt(all) + 1e-3)
        << "columns from " << first << " on: " << std::sqrt(off / all);
  }
  // Gradients of queries, keys and values.
  void expect_gradients(const std::vector<float>& got, const std::vector<float>& want) {
    expect_near(got, want, tolerance());
    const int64_t keys = first_key_column(), each = sum_width() / 2;
    expect_close(got, want, 0, keys);
    expect_close(got, want, keys, each);
    expect_close(got, want, keys + each, each);
  }
  Tolerance tolerance() const {
    const double each = c_.dtype == Dtype::kBf16 ? 0.03 : 2e-5;
    return {each, each};
  }

  // Positions of shared prefixes, once for each part: that many rows of sums are used.
  void expect_reference(const RowsOfSequences& rows, int64_t summed_rows) {
    Batch batch(*this, rows);
    devices_.run([&](Compute& compute, auto at) { batch.run(compute, at); });
    expect_gradients(batch.dqkv().read_device(), batch.dqkv().host());
    const auto used = static_cast<size_t>(summed_rows * sum_width());
    std::vector<float> got = batch.sums().read_device(), want = batch.sums().host();
    got.resize(used);
    want.resize(used);
    expect_near(got, want, tolerance());
  }

  // Gradients of all rows of the reference device on one rank, sums in their rows.
  std::vector<float> undivided(Batch& batch, const RowsOfSequences& rows) {
    const BackwardWork work = batch.run(devices_.reference(), HostSide());
    std::vector<float> out = batch.dqkv().host();
    work.add_sums(0, rows.rows(),
                  [&](int64_t row) { return out.data() + row * c_.width() + first_key_column(); });
    return out;
  }
  // Adds sums to the rows whose keys and values they are of, those at some places.
  void add_sums(const RowShares& shares, const RankRows& of, const std::vector<float>& sums,
                std::vector<float>& to) const {
    const auto rows = static_cast<int64_t>(to.size()) / c_.width();
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t place = shares.place_of(row);
      if (place < of.begin || place >= of.end) continue;
      const int64_t from = (place - of.begin) * sum_width(),
                    at = row * c_.width() + first_key_column();
      for (int64_t i = 0; i < sum_width(); ++i)
        to[static_cast<size_t>(at + i)] += sums[static_cast<size_t>(from + i)];
    }
  }
  // Each rank's share is that of the reference device, and all together are one rank's gradients.
  void expect_shares(const RowsOfSequences& rows, const RowShares& shares) {
    Batch batch(*this, rows);
    const std::vector<float> want = undivided(batch, rows);
    std::vector<float> sums(want.size(), 0.0f);
    for (int rank = 0; rank < shares.ranks(); ++rank) {
      batch.sums().write(random_values(batch.sums().count(), 11));
      devices_.run([&](Compute& compute, auto at) {
        batch.run(compute, at,
                  [&](BackwardWork& work) { shares.cut(rank, at(batch.sums()), work); });
      });
      expect_near(batch.sums(), tolerance());
      add_sums(shares, {0, rows.rows(), false}, batch.sums().read_device(), sums);
    }
    expect_all(batch, sums, want);
  }
  // The same with the keys of one rank after the other. Sums of the rank's own keys are zeroed by
  // the caller.
  void expect_shares_in_ring(const RowsOfSequences& rows, const RowShares& shares) {
    Batch batch(*this, rows);
    const std::vector<float> want = undivided(batch, rows);
    std::vector<float> sums(want.size(), 0.0f);
    shares.for_each_in_ring([&](int rank, const RankRows& keys) {
      batch.sums().write(keys.own ? std::vector<float>(static_cast<size_t>(batch.sums().count()))
                                  : random_values(batch.sums().count(), 11));
      devices_.run([&](Compute& compute, auto at) {
        batch.run(compute, at, [&](BackwardWork& work) {
          shares.cut(rank, keys, {at(batch.sums()), sum_width()}, work);
        });
      });
      expect_near(batch.sums(), tolerance());
      add_sums(shares, keys, batch.sums().read_device(), sums);
    });
    expect_all(batch, sums, want);
  }
  // The gradients of all ranks' rows and what others summed for them.
  void expect_all(Batch& batch, const std::vector<float>& sums, const std::vector<float>& want) {
    std::vector<float> got = batch.dqkv().read_device();
    expect_gradients(got, batch.dqkv().host());
    std::ranges::transform(got, sums, got.begin(), std::plus());
    expect_gradients(got, want);
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionBackwardTwins, ::testing::ValuesIn(kAttentionCases),
                         name_of);

TEST_P(AttentionBackwardTwins, SequencesMatchTheReference) {
  RowsOfSequences rows(c_.block_size);
  rows.add(70, 0);
  rows.add(1, 0);
  rows.add(16, 0);
  rows.add(33, 0);
  expect_reference(rows, 0);
}

// Parts of one sequence and of several, prefixes that end inside a block and on its border.
TEST_P(AttentionBackwardTwins, SharedPrefixesMatchTheReference) {
  RowsOfSequences rows(c_.block_size);
  const int32_t inside = rows.add(21, 0);
  for (const int32_t more : {3, 25, 9, 17}) rows.add(more, 21, inside);
  rows.add(5, 0);
  const auto block = static_cast<int32_t>(c_.block_size);
  const int32_t border = rows.add(block, 0);
  for (const int32_t more : {block + 1, 2}) rows.add(more, block, border);
  // 3 and 25 rows are the first prefix's first part, 9 and 17 the second.
  expect_reference(rows, 2 * 21 + 2 * c_.block_size);
}

// The second rank begins within the third sequence that continues the prompt.
TEST_P(AttentionBackwardTwins, SharesOfTwoRanksAreTheGradientsOfOne) {
  const RowsOfSequences rows = rows_to_divide(c_.block_size);
  expect_shares(rows, RowShares(rows, 2, {45, 100}));
}

// Cuts within the prompt, in a sequence that continues it, and in the one alone. The second rank
// takes keys of the prompt for rows of it, of several sequences and of a part of one.
TEST_P(AttentionBackwardTwins, SharesInZigzagAreTheGradientsOfOne) {
  const RowsOfSequences rows = rows_to_divide(c_.block_size);
  expect_shares(rows, RowShares(rows, 2, {12, 38, 70, 100}));
}

TEST_P(AttentionBackwardTwins, SharesInARingAreTheGradientsOfOne) {
  const RowsOfSequences rows = rows_to_divide(c_.block_size);
  expect_shares_in_ring(rows, RowShares(rows, 2, {45, 100}));
  expect_shares_in_ring(rows, RowShares(rows, 2, {12, 38, 70, 100}));
  expect_shares_in_ring(rows, RowShares(rows, 3, {10, 60, 100}));
}

class LongAttentionBackwardTwins : public AttentionBackwardTwins {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, LongAttentionBackwardTwins,
    ::testing::Values(AttentionOf{3, 1, 16, 32, 0, Dtype::kBf16, Dtype::kBf16},
                      AttentionOf{2, 2, 32, 64, 140, Dtype::kBf16, Dtype::kBf16},
                      AttentionOf{2, 1, 160, 64, 150, Dtype::kBf16, Dtype::kBf16},
                      AttentionOf{2, 1, 16, 16, 0, Dtype::kF32, Dtype::kF32},
                      AttentionOf{2, 1, 16, 32, 129, Dtype::kF32, Dtype::kBf16}),
    name_of);

// Several of the reference's pieces, prefixes longer than a window.
TEST_P(LongAttentionBackwardTwins, LongSequencesMatchTheReference) {
  RowsOfSequences rows(c_.block_size);
  const int32_t prefix = rows.add(200, 0);
  rows.add(60, 200, prefix);
  rows.add(170, 200, prefix);
  rows.add(20, 200, prefix);
  expect_reference(rows, 2 * 200);
}

// The second rank has two parts of one sequence, the first of which has keys that the other takes.
TEST_P(LongAttentionBackwardTwins, SharesOfLongSequencesAreTheGradientsOfOne) {
  RowsOfSequences rows(c_.block_size);
  const int32_t prefix = rows.add(200, 0);
  rows.add(40, 200, prefix);
  rows.add(150, 200, prefix);
  rows.add(20, 200, prefix);
  const RowShares shares(rows, 2, {150, 280, 340, 410});
  expect_shares(rows, shares);
  expect_shares_in_ring(rows, shares);
}

TEST_P(AttentionBackwardTwins, RunsHaveTheSameBits) {
  RowsOfSequences rows(c_.block_size);
  const int32_t prefix = rows.add(30, 0);
  rows.add(9, 30, prefix);
  rows.add(14, 30, prefix);
  Batch first(*this, rows), second(*this, rows);
  first.run(devices_.gpu(), DeviceSide());
  second.run(devices_.gpu(), DeviceSide());
  EXPECT_EQ(first.dqkv().read_device(), second.dqkv().read_device());
  EXPECT_EQ(first.sums().read_device(), second.sums().read_device());
}

class OwnKeyBackwardTwins : public AttentionBackwardTwins {};
INSTANTIATE_TEST_SUITE_P(Shapes, OwnKeyBackwardTwins,
                         ::testing::Values(AttentionOf{2, 2, 64, 16, 1, Dtype::kBf16, Dtype::kBf16},
                                           AttentionOf{3, 3, 144, 32, 1, Dtype::kBf16,
                                                       Dtype::kBf16},
                                           AttentionOf{2, 2, 32, 16, 1, Dtype::kF32, Dtype::kF32},
                                           AttentionOf{1, 1, 256, 16, 1, Dtype::kBf16, Dtype::kF32},
                                           AttentionOf{2, 2, 128, 16, 1, Dtype::kBf16, Dtype::kBf16,
                                                       AttentionProducts::kFp32}),
                         name_of);

// A row that attends its own key alone has a score that is its log-sum-exp: the weight is 1 where
// the backward makes the score that the forward made, bit for bit, and the value's gradient is the
// output's, of which products of bf16 see the sum of two.
TEST_P(OwnKeyBackwardTwins, ScoresAreThoseOfTheForward) {
  RowsOfSequences rows(c_.block_size);
  rows.add(40, 0);
  Batch batch(*this, rows);
  // Scores of hundreds: their last bit is seen in the weight.
  batch.data().q().write(as_dtype(random_values(40 * c_.heads * c_.head_dim, 3, 40.0f), c_.dtype));
  batch.data().attend(devices_.gpu(), DeviceSide());
  batch.run(devices_.gpu(), DeviceSide());
  const std::vector<float> have = batch.dqkv().read_device();
  const int64_t size = c_.heads * c_.head_dim;
  for (int64_t row = 0; row < 40; ++row) {
    for (int64_t i = 0; i < size; ++i) {
      const float d_out = batch.d_out().host()[static_cast<size_t>(row * size + i)];
      const float high = round_to(Dtype::kBf16, d_out);
      const float want = c_.rounds_weights() ? high + round_to(Dtype::kBf16, d_out - high) : d_out;
      ASSERT_EQ(have[static_cast<size_t>(row * c_.width() + 2 * size + i)], want) << row;
    }
  }
}

}  // namespace
}  // namespace rl::testing
