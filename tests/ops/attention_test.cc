// Rope, KV writes and attention against a double oracle: shuffled block tables, lengths and windows
// around block borders, grouped heads, rows in any chunking.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "support/attention_case.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

// Of the rotation of component i of a head of D at a position, with the base of the cases.
double angle_of(double position, int64_t i, int64_t D) {
  return position * std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(D));
}

using Case = std::tuple<AttentionTypes, int64_t /*D*/, int64_t /*P*/, int64_t /*length*/,
                        int64_t /*window*/>;

class Attention : public ::testing::TestWithParam<Case>, protected AttentionCase {
 protected:
  Attention()
      : AttentionCase({4, 2, std::get<1>(GetParam()), std::get<2>(GetParam()),
                       std::get<0>(GetParam()).q, std::get<0>(GetParam()).kv},
                      std::get<3>(GetParam()), std::get<4>(GetParam()),
                      std::get<0>(GetParam()).products) {}
};

TEST_P(Attention, RopeTurnsPairsByPositionTimesFrequency) {
  const int64_t D = shape_.head_dim, half = D / 2;
  for (int64_t p = 0; p < length_; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = angle_of(static_cast<double>(p), i, D);
      const float* x = qkv_.data() + p * width_;
      const double a = x[4 * D + i], b = x[4 * D + half + i];  // first key head
      const double tolerance = shape_.kv_dtype == Dtype::kBf16 ? 0.02 : 1e-6;
      ASSERT_NEAR(key(0, p, i), a * std::cos(angle) - b * std::sin(angle), tolerance);
      ASSERT_NEAR(key(0, p, half + i), b * std::cos(angle) + a * std::sin(angle), tolerance);
      ASSERT_EQ(value(1, p, i), round_to(shape_.kv_dtype, x[7 * D + i]));
    }
  }
}

TEST_P(Attention, HeadsArePaddedWithZeros) {
  for (int64_t p = 0; p < length_; ++p) {
    for (int64_t i = shape_.head_dim; i < shape_.padded_dim(); ++i) {
      for (int64_t h = 0; h < shape_.heads; ++h) ASSERT_EQ(query(p, h, i), 0.0);
      for (int64_t g = 0; g < shape_.kv_heads; ++g) {
        ASSERT_EQ(key(g, p, i), 0.0);
        ASSERT_EQ(value(g, p, i), 0.0);
      }
    }
  }
}

TEST_P(Attention, HeadsInRangesAreThoseOfWholeRows) {
  const int64_t D = shape_.head_dim, heads = shape_.heads + 2 * shape_.kv_heads;
  const auto keys_and_values = [&] {
    std::vector<double> all;
    for (int64_t p = 0; p < length_; ++p)
      for (int64_t g = 0; g < shape_.kv_heads; ++g)
        for (int64_t i = 0; i < D; ++i) all.insert(all.end(), {key(g, p, i), value(g, p, i)});
    return all;
  };
  const auto q = q_;
  const std::vector<double> kv = keys_and_values();
  const auto clear = [&] {
    std::fill(q_.begin(), q_.end(), std::byte{0});
    std::fill(pool_.begin(), pool_.end(), std::byte{0});
  };
  const RopeKvArgs rows{shape_,  qkv_.data(), nullptr,      nullptr, places_.data(),
                        &table_, q_.data(),   pool_.data(), length_};
  clear();
  for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 3}, {3, 6}, {6, heads}}) {
    std::vector<float> tile(length_ * (end - first) * D);
    for (int64_t p = 0; p < length_; ++p)
      std::copy_n(&qkv_[p * width_ + first * D], (end - first) * D, &tile[p * (end - first) * D]);
    RopeKvArgs part = rows;
    part.qkv = tile.data();
    part.first_head = first;
    part.end_head = end;
    part.stride = (end - first) * D;
    rope_and_write_kv(part);
  }
  EXPECT_EQ(q_, q);
  EXPECT_EQ(keys_and_values(), kv);
  clear();
  for (int64_t g = 0; g < shape_.kv_heads; ++g) rope_and_write_kv(rows, g);
  EXPECT_EQ(q_, q);
  EXPECT_EQ(keys_and_values(), kv);
}

TEST_P(Attention, CopiedKeysAndValuesStandWhereTheyStood) {
  const int64_t last = length_ - 1, begin = last / shape_.block_size * shape_.block_size;
  const int32_t from = blocks_.back();
  copy_kv({shape_, pool_.data(), from, 0, length_ - begin});
  std::vector<double> want;
  for (int64_t p = begin; p < length_; ++p)
    for (int64_t g = 0; g < shape_.kv_heads; ++g)
      for (int64_t i = 0; i < shape_.head_dim; ++i)
        want.insert(want.end(), {key(g, p, i), value(g, p, i)});
  blocks_.back() = 0;
  size_t at = 0;
  for (int64_t p = begin; p < length_; ++p)
    for (int64_t g = 0; g < shape_.kv_heads; ++g)
      for (int64_t i = 0; i < shape_.head_dim; ++i) {
        ASSERT_EQ(key(g, p, i), want[at++]);
        ASSERT_EQ(value(g, p, i), want[at++]);
      }
}

// Keys may end within a block, and some rows attend none of a call's.
TEST_P(Attention, KeysOfSeveralCallsAreMerged) {
  attend(kAttentionMaxRows);
  const int64_t a = length_ / 3, b = length_ - length_ / 4;
  const auto run = [&](int64_t first, int64_t end) {
    return KeyRun{first, end, blocks_.data(), 0};
  };
  const std::vector<std::vector<KeyRun>> calls = {{run(a, b)}, {run(0, a), run(b, length_)}};
  std::vector<float> lse(lse_.size(), std::nanf("")), scratch(attention_scratch_floats(shape_));
  std::vector<float> partial(static_cast<size_t>(length_ * shape_.heads * shape_.head_dim),
                             std::nanf(""));
  AttentionArgs some = args();
  some.out = nullptr;
  some.lse = lse.data();
  some.partial = partial.data();
  for (const std::vector<KeyRun>& runs : calls) {
    if (std::ranges::any_of(runs, [](const KeyRun& r) { return r.first == r.end; })) return;
    for (int64_t p = 0; p < length_; p += kAttentionMaxRows) {
      const AttentionRows rows{p, std::min(kAttentionMaxRows, length_ - p), p, nullptr, runs};
      attention(some, rows, {0, shape_.kv_heads}, scratch.data());
    }
    some.merges = true;
  }
  // bf16: the output is rounded once, and weights of another maximum are rounded otherwise.
  const double tolerance = shape_.dtype == Dtype::kBf16 ? 0.02 : 2e-6;
  for (size_t i = 0; i < partial.size(); ++i)
    ASSERT_NEAR(partial[i], element(out_.data(), shape_.dtype, static_cast<int64_t>(i)), tolerance);
  for (size_t i = 0; i < lse.size(); ++i) ASSERT_NEAR(lse[i], lse_[i], 1e-5);
}

TEST_P(Attention, SharedBlocksReadOnceGiveTheBitsOfEachRowAlone) {
  rule_.window = 0;  // rows with a window are never taken together
  attend(1);
  const std::vector<std::byte> out = out_;
  const std::vector<float> lse = lse_;
  std::vector<float> scratch(attention_scratch_floats(shape_), std::nanf(""));
  for (int64_t first = 0; first < length_; first += 7) {
    std::vector<SharedRow> rows;
    for (int64_t p = first; p < std::min(length_, first + kAttentionMaxRows); ++p)
      rows.push_back({p, blocks_.data()});
    for (const int64_t shared :
         {int64_t{0}, first / shape_.block_size / 2, first / shape_.block_size}) {
      out_.assign(out_.size(), std::byte{0});
      lse_.assign(lse_.size(), 0.0f);
      for (int64_t g = 0; g < shape_.kv_heads; ++g)
        attention_shared(args(), {first, rows, shared}, g, scratch.data());
      const int64_t count = static_cast<int64_t>(rows.size()),
                    row_bytes = static_cast<int64_t>(out.size()) / length_;
      ASSERT_EQ(std::memcmp(out_.data() + first * row_bytes, out.data() + first * row_bytes,
                            count * row_bytes),
                0);
      ASSERT_EQ(std::memcmp(lse_.data() + first * shape_.heads, lse.data() + first * shape_.heads,
                            count * shape_.heads * sizeof(float)),
                0);
    }
  }
}

TEST_P(Attention, MatchesOracle) {
  attend(kAttentionMaxRows);
  for (int64_t p = 0; p < length_; ++p) {
    for (int64_t h = 0; h < shape_.heads; ++h) {
      double lse = 0;
      const auto w = weights(p, h, &lse);
      EXPECT_NEAR(lse_[p * shape_.heads + h], lse, 1e-5);
      for (int64_t i = 0; i < shape_.head_dim; ++i) {
        double want = 0, terms = 0;
        for (int64_t j = 0; j <= p; ++j) {
          const double v = value(h / shape_.group(), j, i);
          want += w[j] * v;
          terms += w[j] * std::abs(v);
        }
        // Half a unit in the last place of bf16, at most 2^-8 of the value: of the result, and of
        // every weight of a pair product.
        const double tolerance = shape_.dtype == Dtype::kF32 ? 3e-6 : std::abs(want) / 256 + 3e-6;
        ASSERT_NEAR(
            element(out_.data(), shape_.dtype, (p * shape_.heads + h) * shape_.head_dim + i), want,
            tolerance + (rounds_weights() ? terms / 256 : 0));
      }
    }
  }
}

TEST_P(Attention, RowsHaveTheSameBitsInEveryChunking) {
  attend(kAttentionMaxRows);
  const auto out = out_;
  const auto lse = lse_;
  for (const int64_t chunk : {1, 5, 16}) {
    std::fill(out_.begin(), out_.end(), std::byte{0});
    attend(chunk);
    EXPECT_EQ(out_, out) << "chunk " << chunk;
    EXPECT_EQ(std::memcmp(lse_.data(), lse.data(), lse.size() * sizeof(float)), 0);
  }
}

TEST_P(Attention, HeadsTogetherHaveTheBitsOfEachAlone) {
  for (const int64_t chunk : {1, 5}) {
    attend(chunk);
    const auto out = std::exchange(out_, std::vector<std::byte>(out_.size()));
    const auto lse = std::exchange(lse_, std::vector<float>(lse_.size()));
    std::vector<float> scratch(attention_scratch_floats(shape_), std::nanf(""));
    ASSERT_LE(shape_.kv_heads, max_kv_heads_per_call(chunk));
    for (int64_t p = 0; p < length_; p += chunk)
      attention(args(), {p, std::min(chunk, length_ - p), p, blocks_.data()}, {0, shape_.kv_heads},
                scratch.data());
    EXPECT_EQ(out_, out) << "chunk " << chunk;
    EXPECT_EQ(std::memcmp(lse_.data(), lse.data(), lse.size() * sizeof(float)), 0);
  }
}

TEST_P(Attention, BlocksOutsideEveryWindowAreNotRead) {
  const int64_t P = shape_.block_size, last = length_ - 1, first_block = rule_.first_key(last) / P;
  attend(1);
  const auto out = out_;
  for (int64_t b = 0; b < first_block; ++b) {
    std::byte* block = pool_.data() + blocks_[b] * shape_.block_bytes();
    std::fill_n(block, shape_.block_bytes(), std::byte{0xff});  // NaN in both types
  }
  std::vector<float> scratch(attention_scratch_floats(shape_), std::nanf(""));
  for (int64_t g = 0; g < shape_.kv_heads; ++g)
    attention(args(), {last, 1, last, blocks_.data()}, {g, g + 1}, scratch.data());
  EXPECT_EQ(out_, out);
}

TEST_P(Attention, AWindowThatReachesTheStartChangesNoBit) {
  rule_.window = 0;
  attend(kAttentionMaxRows);
  const auto out = out_;
  rule_.window = length_;
  attend(kAttentionMaxRows);
  EXPECT_EQ(out_, out);
}

TEST_P(Attention, RopeBackwardUndoesTheRotation) {
  std::vector<float> d = random_values(length_ * width_, 11), original = d;
  std::vector<std::byte> rounded(d.size() * dtype_bytes(shape_.dtype));
  rope_backward({shape_, d.data(), places_.data(), &table_, rounded.data(), length_, nullptr,
                 nullptr, nullptr});
  const int64_t D = shape_.head_dim, half = D / 2;
  for (int64_t p = 0; p < length_; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = angle_of(static_cast<double>(p), i, D);
      const double a = original[p * width_ + i], b = original[p * width_ + half + i];
      ASSERT_NEAR(d[p * width_ + i], a * std::cos(angle) + b * std::sin(angle), 1e-5);
    }
    for (int64_t i = 0; i < D; ++i)
      ASSERT_EQ(d[p * width_ + 7 * D + i], original[p * width_ + 7 * D + i]);
  }
  EXPECT_EQ(element(rounded.data(), shape_.dtype, 3), round_to(shape_.dtype, d[3]));
}

// What is fp32 is never rounded to bf16 for the sake of its products.
TEST(AttentionPairs, AreRefusedWhereQueriesKeysOrValuesAreFp32) {
  for (const auto& [q, kv] : {std::pair{Dtype::kF32, Dtype::kF32},
                              {Dtype::kF32, Dtype::kBf16},
                              {Dtype::kBf16, Dtype::kF32}}) {
    AttentionCase c({4, 2, 32, 16, q, kv}, 20, 0, AttentionProducts::kBf16Dot);
    expect_error(Code::kInternal, [&] { c.attend(1); });
    std::vector<float> scratch(attention_scratch_floats(c.shape_));
    const SharedRow row{19, c.blocks_.data()};
    expect_error(Code::kInternal, [&] {
      attention_shared(c.args(), {19, {&row, 1}, 1}, 0, scratch.data());
    });
  }
}

// Norm and rotation of one head in double.
std::vector<double> norm_and_rotate(const std::vector<double>& x, const std::vector<double>& w,
                                    double eps, double p) {
  const int64_t D = static_cast<int64_t>(x.size()), half = D / 2;
  double sum = 0;
  for (const double v : x) sum += v * v;
  const double inv = 1.0 / std::sqrt(sum / static_cast<double>(D) + eps);
  std::vector<double> out(D);
  for (int64_t i = 0; i < half; ++i) {
    const double angle = angle_of(p, i, D);
    const double a = x[i] * inv * w[i], b = x[half + i] * inv * w[half + i];
    out[i] = a * std::cos(angle) - b * std::sin(angle);
    out[half + i] = b * std::cos(angle) + a * std::sin(angle);
  }
  return out;
}

class HeadNorms : public ::testing::TestWithParam<std::tuple<int64_t, NormWeight>> {
 protected:
  static constexpr int64_t kHeads = 3, kRows = 4;
  static constexpr float kEps = 1e-5f;
  HeadNorms()
      : D(std::get<0>(GetParam())),
        shape_{kHeads, 1, D, 16, Dtype::kF32},
        width_((kHeads + 2) * D),
        qkv_(random_values(kRows * width_, 1)),
        w_(random_values(2 * D, 2)),
        table_(make_rope_table(D, 20, {.theta = 1e4})),
        norm_{w_.data(), w_.data() + D, kEps, std::get<1>(GetParam())} {
    for (int32_t r = 0; r < kRows; ++r) places_.push_back({3 * r + 1, 0});
  }
  std::vector<double> weights(int64_t head) const {
    std::vector<double> out;
    for (int64_t i = 0; i < D; ++i)
      out.push_back(w_[(head < kHeads ? 0 : D) + i] +
                    (norm_.weight == NormWeight::kMinusOne ? 1.0 : 0.0));
    return out;
  }
  std::vector<double> input(int64_t row, int64_t head) const {
    const float* x = qkv_.data() + row * width_ + head * D;
    return {x, x + D};
  }

  int64_t D;
  AttentionShape shape_;
  int64_t width_;
  std::vector<float> qkv_, w_;
  RopeTable table_;
  HeadNorm norm_;
  std::vector<RowPlace> places_;
};

TEST_P(HeadNorms, QueriesAndKeysAreNormedBeforeTheyTurnAndValuesAreNot) {
  const int64_t W = shape_.padded_dim();
  std::vector<float> q(kRows * kHeads * W), pool(2 * W * 16);
  rope_and_write_kv({shape_, qkv_.data(), nullptr, &norm_, places_.data(), &table_, q.data(),
                     reinterpret_cast<std::byte*>(pool.data()), kRows});
  for (int64_t r = 0; r < kRows; ++r) {
    const int64_t p = places_[r].position;
    for (int64_t h = 0; h <= kHeads; ++h) {
      const auto want = norm_and_rotate(input(r, h), weights(h), kEps, static_cast<double>(p));
      for (int64_t i = 0; i < D; ++i) {
        const float have = h < kHeads ? q[(r * kHeads + h) * W + i] : pool[i * 16 + p];
        ASSERT_NEAR(have, want[i], 3e-6 * (1 + std::abs(want[i])));
      }
    }
    for (int64_t i = 0; i < D; ++i)
      ASSERT_EQ(pool[W * 16 + p * W + i], qkv_[r * width_ + (kHeads + 1) * D + i]);
  }
}

TEST_P(HeadNorms, BackwardMatchesDifferences) {
  const auto dy = random_values(kRows * width_, 3);
  auto d = dy;
  std::vector<float> rounded(d.size()), d_norm(2 * D, 0.5f);
  rope_backward({shape_, d.data(), places_.data(), &table_, rounded.data(), kRows, &norm_,
                 qkv_.data(), d_norm.data()});
  EXPECT_EQ(rounded, d);
  std::vector<double> want_w(2 * D, 0.5);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t h = 0; h <= kHeads; ++h) {
      const auto loss = [&](const std::vector<double>& x, const std::vector<double>& w) {
        const auto y = norm_and_rotate(x, w, kEps, static_cast<double>(places_[r].position));
        double sum = 0;
        for (int64_t i = 0; i < D; ++i) sum += y[i] * dy[r * width_ + h * D + i];
        return sum;
      };
      const auto x = input(r, h), w = weights(h);
      for (int64_t i = 0; i < D; ++i) {
        auto up = x, down = x, w_up = w, w_down = w;
        up[i] += 1e-6, down[i] -= 1e-6, w_up[i] += 1e-6, w_down[i] -= 1e-6;
        ASSERT_NEAR(d[r * width_ + h * D + i], (loss(up, w) - loss(down, w)) / 2e-6, 3e-5);
        want_w[(h < kHeads ? 0 : D) + i] += (loss(x, w_up) - loss(x, w_down)) / 2e-6;
      }
    }
    for (int64_t i = 0; i < D; ++i)
      ASSERT_EQ(d[r * width_ + (kHeads + 1) * D + i], dy[r * width_ + (kHeads + 1) * D + i]);
  }
  for (int64_t i = 0; i < 2 * D; ++i)
    EXPECT_NEAR(d_norm[i], want_w[i], 3e-5 * (1 + std::abs(want_w[i])));
}

INSTANTIATE_TEST_SUITE_P(Sizes, HeadNorms,
                         ::testing::Combine(::testing::Values<int64_t>(6, 16, 24, 64, 90, 256),
                                            ::testing::Values(NormWeight::kPlain,
                                                              NormWeight::kMinusOne)));

INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         ::testing::Combine(::testing::ValuesIn(kAttentionTypes),
                                            ::testing::Values<int64_t>(2, 16, 24, 64, 90),
                                            ::testing::Values<int64_t>(16, 32),
                                            ::testing::Values<int64_t>(1, 16, 17, 50),
                                            ::testing::Values<int64_t>(0, 1, 6, 16, 17, 31, 200)));

}  // namespace
}  // namespace rl::testing
