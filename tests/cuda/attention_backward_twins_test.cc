// The backward of attention on the GPU against the reference device: sequences alone and behind
// shared prefixes, windows, every type and head size. The reference takes the work's pieces, the
// GPU does not; sums of shared prefixes are compared too.
//
// Tolerances are those of the CPU's tests: delta is taken from the rounded output, so in bf16 its
// error is 2^-9 of the output times the gradient, and rounded weights are off by as much. What a
// key receives is a sum over rows, which adds up such errors: in bf16 up to a few hundred of them,
// with random signs. Over all elements, two roundings to bf16, each of which is off by 2^-9 /
// sqrt(3) of a weight on average, give a relative distance of 1.6e-3. Gradients of
// queries and keys are zero where a window holds one key.
#include <gtest/gtest.h>

#include <cstring>

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
    void run(Compute& compute, const At& at) {
      const AttentionArgs forward = data_.args(at);
      BackwardWork work(rows_.rows(), test_.sum_width());
      work.cut(rows_.all(), at(sums_));
      attend_backward(compute, {{forward.shape, forward.rule, forward.q, forward.pool, forward.out,
                                 forward.lse, at(d_out_), at(dqkv_), forward.products},
                                work,
                                nullptr});
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

  // Relative distance of some columns.
  void expect_close(const OnBoth<float>& dqkv, int64_t first, int64_t count) {
    const std::vector<float> got = dqkv.read_device();
    double off = 0, all = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const int64_t column = static_cast<int64_t>(i) % c_.width() - first;
      if (column < 0 || column >= count) continue;
      off += std::pow(static_cast<double>(got[i]) - dqkv.host()[i], 2);
      all += std::pow(static_cast<double>(dqkv.host()[i]), 2);
    }
    EXPECT_LE(std::sqrt(off), (c_.rounds_weights() ? 2e-3 : 1e-6) * std::sqrt(all) + 1e-3)
        << "columns from " << first << " on: " << std::sqrt(off / all);
  }

  // Positions of shared prefixes, once for each part: that many rows of sums are used.
  void expect_reference(const RowsOfSequences& rows, int64_t summed_rows) {
    Batch batch(*this, rows);
    devices_.run([&](Compute& compute, auto at) { batch.run(compute, at); });
    const double tolerance = c_.dtype == Dtype::kBf16 ? 0.03 : 2e-5;
    expect_near(batch.dqkv(), {tolerance, tolerance});
    expect_close(batch.dqkv(), 0, c_.heads * c_.head_dim);
    expect_close(batch.dqkv(), c_.heads * c_.head_dim, sum_width() / 2);
    expect_close(batch.dqkv(), c_.heads * c_.head_dim + sum_width() / 2, sum_width() / 2);
    const auto used = static_cast<size_t>(summed_rows * sum_width());
    std::vector<float> got = batch.sums().read_device(), want = batch.sums().host();
    got.resize(used);
    want.resize(used);
    expect_near(got, want, {tolerance, tolerance});
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
