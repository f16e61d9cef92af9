// The backward of attention against a double oracle: rows and keys in pieces of any size, prefixes
// of other sequences, windows, grouped heads, head sizes up to 256, products in fp32 and of bf16
// pairs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "support/attention_case.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

struct BackwardShape {
  int64_t heads, kv_heads, head_dim, block_size, length, window;
};

class BackwardCase : public AttentionCase {
 public:
  BackwardCase(const BackwardShape& s, const AttentionTypes& t)
      : AttentionCase({s.heads, s.kv_heads, s.head_dim, s.block_size, t.q, t.kv}, s.length,
                      s.window, t.products),
        d_out_(random_values(length_ * shape_.heads * shape_.head_dim, 9)) {
    attend(kAttentionMaxRows);
  }

  // Gradients of all rows: the first `prefix` rows as one sequence, the others as another that
  // follows it; rows and keys in chunks of so many positions, counted from the beginning of either.
  std::vector<float> gradients(int64_t prefix, int64_t chunk, AttentionProducts products) const {
    const int64_t shared = 2 * shape_.kv_heads * shape_.head_dim;
    std::vector<float> dqkv(length_ * width_, std::nanf("")), d_prefix(prefix * shared);
    std::vector<float> scratch(attention_backward_scratch_floats(shape_), std::nanf(""));
    const AttentionBackwardArgs args{shape_,        rule_,       q_.data(),
                                     pool_.data(),  out_.data(), lse_.data(),
                                     d_out_.data(), dqkv.data(), products};
    const auto run = [&](AttentionBackwardPiece piece) {
      for (int64_t g = 0; g < shape_.kv_heads; ++g)
        attention_backward(args, piece, g, scratch.data());
    };
    const auto run_rows = [&](int64_t first, int64_t end, int64_t own, bool overwrite) {
      for (int64_t row = first; row < end; row += chunk) {
        const AttentionRows rows{row, std::min(chunk, end - row), row, blocks_.data()};
        for (int64_t key = first; key <= row; key += chunk) {
          if ((key == row) == overwrite)
            run({rows, key, std::min(key + chunk, end), own, nullptr, overwrite});
        }
        for (int64_t key = 0; key < first && !overwrite; key += chunk)
          run({rows, key, std::min(key + chunk, first), own, d_prefix.data()});
      }
    };
    for (const bool overwrite : {true, false}) {
      run_rows(0, prefix, 0, overwrite);
      run_rows(prefix, length_, prefix, overwrite);
    }
    for (int64_t p = 0; p < prefix; ++p) {
      for (int64_t i = 0; i < shared; ++i)
        dqkv[(p + 1) * width_ - shared + i] += d_prefix[p * shared + i];
    }
    return dqkv;
  }

  std::vector<double> oracle() const {
    const int64_t D = shape_.head_dim, H = shape_.heads, KH = shape_.kv_heads;
    std::vector<double> want(length_ * width_, 0.0);
    for (int64_t p = 0; p < length_; ++p) {
      for (int64_t h = 0; h < H; ++h) {
        const int64_t g = h / shape_.group();
        const auto w = weights(p, h);
        const float* go = d_out_.data() + (p * H + h) * D;
        std::vector<double> dw(p + 1, 0.0);
        double delta = 0;
        for (int64_t j = 0; j <= p; ++j) {
          for (int64_t i = 0; i < D; ++i) dw[j] += go[i] * value(g, j, i);
          delta += w[j] * dw[j];
        }
        for (int64_t j = 0; j <= p; ++j) {
          const double ds = w[j] * (dw[j] - delta) * rule_.scale;
          for (int64_t i = 0; i < D; ++i) {
            want[p * width_ + h * D + i] += ds * key(g, j, i);
            want[j * width_ + (H + g) * D + i] += ds * query(p, h, i);
            want[j * width_ + (H + KH + g) * D + i] += w[j] * go[i];
          }
        }
      }
    }
    return want;
  }

  // delta is taken from the rounded output: in bf16 its error is 2^-9 of the output times the
  // gradient. Rounded weights are off by as much.
  void expect_near(const std::vector<float>& have, const std::vector<double>& want) const {
    const double tolerance = shape_.dtype == Dtype::kBf16 ? 0.03 : 2e-5;
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(have[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i;
  }

  std::vector<float> d_out_;
};

using Case = std::tuple<AttentionTypes, int64_t /*D*/, int64_t /*P*/, int64_t /*length*/,
                        int64_t /*window*/>;

class AttentionBackward : public ::testing::TestWithParam<Case> {
 protected:
  static BackwardShape shape() {
    const auto& [types, D, P, length, window] = GetParam();
    return {4, 2, D, P, length, window};
  }
};

TEST_P(AttentionBackward, MatchesTheOracleBehindAnyPrefix) {
  const AttentionTypes types = std::get<0>(GetParam());
  const BackwardCase c(shape(), types);
  const auto want = c.oracle();
  for (const int64_t prefix : {int64_t{0}, int64_t{1}, c.length_ / 2, int64_t{16}, c.length_ - 1}) {
    if (prefix >= c.length_) continue;
    SCOPED_TRACE(::testing::Message() << "prefix " << prefix);
    c.expect_near(c.gradients(prefix, kAttentionBackwardChunk, types.products), want);
  }
}

TEST_P(AttentionBackward, MatchesTheOracleInSmallPieces) {
  const AttentionTypes types = std::get<0>(GetParam());
  const BackwardCase c(shape(), types);
  c.expect_near(c.gradients(c.length_ / 3, 7, types.products), c.oracle());
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionBackward,
                         ::testing::Combine(::testing::ValuesIn(kAttentionTypes),
                                            ::testing::Values<int64_t>(16, 24, 64),
                                            ::testing::Values<int64_t>(16, 32),
                                            ::testing::Values<int64_t>(1, 16, 17, 50),
                                            ::testing::Values<int64_t>(0, 1, 6, 16, 17, 31, 200)));

// Several chunks of rows and keys, groups of one to five heads, large heads, blocks as long as a
// chunk.
class LongBackward : public ::testing::TestWithParam<std::tuple<AttentionTypes, BackwardShape>> {};

TEST_P(LongBackward, MatchesTheOracle) {
  const auto& [types, shape] = GetParam();
  const BackwardCase c(shape, types);
  const auto want = c.oracle();
  for (const int64_t prefix : {int64_t{0}, shape.length / 3}) {
    SCOPED_TRACE(::testing::Message() << "prefix " << prefix);
    c.expect_near(c.gradients(prefix, kAttentionBackwardChunk, types.products), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LongBackward,
                         ::testing::Combine(::testing::ValuesIn(kAttentionTypes),
                                            ::testing::Values(BackwardShape{3, 1, 90, 16, 150, 0},
                                                              BackwardShape{2, 2, 256, 32, 67, 40},
                                                              BackwardShape{3, 3, 64, 32, 261, 0},
                                                              BackwardShape{5, 1, 128, 128, 131, 0},
                                                              BackwardShape{4, 4, 16, 64, 260,
                                                                            129})));

// A row that attends its own key alone has a score that is its log-sum-exp: the weight is 1 where
// the backward makes the score that the forward made, bit for bit, and the value's gradient is the
// output's.
TEST(AttentionBackwardScores, AreThoseOfTheForward) {
  for (const AttentionTypes& types : kAttentionTypes) {
    BackwardCase c({2, 2, 64, 16, 40, 1}, types);
    auto q = random_values(40 * 2 * 64, 3,
                           40.0f);  // scores of hundreds: their last bit is seen in the weight
    c.q_ = as_dtype(q, types.q);
    c.attend(kAttentionMaxRows);
    const auto have = c.gradients(0, kAttentionBackwardChunk, types.products);
    for (int64_t p = 0; p < c.length_; ++p) {
      for (int64_t i = 0; i < 2 * 64; ++i) {
        const float d_out = c.d_out_[p * 2 * 64 + i], high = round_to(Dtype::kBf16, d_out);
        const float want = types.products == AttentionProducts::kBf16Dot
                               ? high + round_to(Dtype::kBf16, d_out - high)
                               : d_out;
        ASSERT_EQ(have[p * c.width_ + 4 * 64 + i], want) << p << ", " << i;
      }
    }
  }
}

// Relative distance of the bf16 that the next product gets from the oracle.
double error_of(const std::vector<float>& have, const std::vector<double>& want, int64_t width,
                int64_t first, int64_t end) {
  double off = 0, all = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % width;
    if (column < first || column >= end) continue;
    const double d = round_to(Dtype::kBf16, have[i]) - want[i];
    off += d * d;
    all += want[i] * want[i];
  }
  return std::sqrt(off / all);
}

TEST(AttentionBackwardPairs, AreRefusedWhereSomethingIsFp32) {
  for (const auto& [q, kv] : {std::pair{Dtype::kF32, Dtype::kF32},
                              {Dtype::kF32, Dtype::kBf16},
                              {Dtype::kBf16, Dtype::kF32}}) {
    const BackwardCase c({4, 2, 32, 16, 20, 0}, {q, kv});
    expect_error(Code::kInternal,
                 [&] { c.gradients(0, kAttentionBackwardChunk, AttentionProducts::kBf16Dot); });
  }
}

TEST(AttentionBackwardPairs, AreAtMostOneAndAHalfTimesAsFarFromTheOracleAsFp32) {
  for (const BackwardShape& shape :
       {BackwardShape{6, 2, 64, 32, 150, 0}, BackwardShape{2, 1, 128, 32, 150, 0},
        BackwardShape{4, 4, 32, 16, 40, 0}, BackwardShape{4, 1, 16, 16, 150, 50}}) {
    const BackwardCase c(shape, {Dtype::kBf16, Dtype::kBf16, AttentionProducts::kBf16Dot});
    const auto want = c.oracle();
    const auto wide = c.gradients(0, kAttentionBackwardChunk, AttentionProducts::kFp32);
    const auto pairs = c.gradients(0, kAttentionBackwardChunk, AttentionProducts::kBf16Dot);
    const int64_t q = shape.heads * shape.head_dim, k = shape.kv_heads * shape.head_dim;
    for (const auto& [name, first, end] :
         {std::tuple{"dq", int64_t{0}, q}, std::tuple{"dk", q, q + k},
          std::tuple{"dv", q + k, q + 2 * k}}) {
      const double before = error_of(wide, want, c.width_, first, end);
      const double after = error_of(pairs, want, c.width_, first, end);
      EXPECT_LE(after, 1.5 * before)
          << name << " of head size " << shape.head_dim << ": " << before << ", " << after;
      EXPECT_NE(after, before) << name;
    }
  }
}

}  // namespace
}  // namespace rl::testing
