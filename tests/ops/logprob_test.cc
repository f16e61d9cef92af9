// Log-sum-exp, entropy, draws and logit gradients against double oracles.
#include "ops/logprob.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/random_values.h"

namespace rl::testing {
namespace {

struct Row {
  Row(int64_t vocab, int64_t width, float temperature, float spread, float offset = 0)
      : width(width), inv(1.0f / temperature), z(random_values(vocab, 3, spread)) {
    for (float& v : z) v += offset;
    for (const float v : z) tempered.push_back(static_cast<double>(v * inv));
    for (int64_t i = 0; i < vocab; i += width)
      tiles.push_back(scale_and_measure(&z[i], std::min(width, vocab - i), inv));
    stats = combine_tiles(tiles.data(), static_cast<int64_t>(tiles.size()));
    double max = -INFINITY, sum = 0;
    for (const double v : tempered) max = std::max(max, v);
    for (const double v : tempered) sum += std::exp(v - max);
    lse = max + std::log(sum);
  }
  double p(int64_t i) const { return std::exp(tempered[i] - lse); }
  int64_t width;
  float inv;
  std::vector<float> z;
  std::vector<double> tempered;
  std::vector<TileStats> tiles;
  RowStats stats;
  double lse;
};

class Logprob : public ::testing::TestWithParam<std::tuple<int64_t, float, float>> {
 protected:
  Row row_{std::get<0>(GetParam()), 128, std::get<1>(GetParam()), std::get<2>(GetParam())};
  int64_t vocab() const { return static_cast<int64_t>(row_.z.size()); }
};

TEST_P(Logprob, LogSumExpAndEntropyMatchOracle) {
  EXPECT_NEAR(row_.stats.max + double{row_.stats.log_sum}, row_.lse,
              1e-6 * (1 + row_.stats.log_sum));
  double entropy = 0;
  for (int64_t i = 0; i < vocab(); ++i) entropy -= row_.p(i) * (row_.tempered[i] - row_.lse);
  EXPECT_NEAR(row_.stats.entropy, entropy, 1e-5 * (1 + entropy));
}

TEST_P(Logprob, DrawsFollowTheInverseCdfInIdOrder) {
  std::vector<double> cdf;
  double sum = 0;
  for (int64_t i = 0; i < vocab(); ++i) cdf.push_back(sum += row_.p(i));
  int checked = 0;
  for (double u = 0.0; u < 1.0; u += 0.0137) {
    const int64_t id =
        sample_token({row_.z.data(), vocab(), row_.width, row_.tiles.data(), row_.stats, u});
    const int64_t want = std::upper_bound(cdf.begin(), cdf.end(), u * sum) - cdf.begin();
    const double below = want ? cdf[want - 1] : 0.0;
    if (std::min(std::abs(u * sum - below), std::abs(cdf[want] - u * sum)) < 1e-6)
      continue;  // on a step
    EXPECT_EQ(id, want) << "u " << u;
    ++checked;
  }
  EXPECT_GT(checked, 40);
  const int64_t last = sample_token({row_.z.data(), vocab(), row_.width, row_.tiles.data(),
                                     row_.stats, std::nextafter(1.0, 0.0)});
  EXPECT_LT(last, vocab());
  EXPECT_GT(row_.p(last), 0.0);
}

TEST_P(Logprob, TopIdsAreTheLargestInOrder) {
  std::vector<int32_t> sorted(static_cast<size_t>(vocab()));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int32_t a, int32_t b) { return row_.z[a] > row_.z[b]; });
  for (const int64_t count : {0, 1, 5, 20}) {
    std::vector<int32_t> ids(static_cast<size_t>(std::min(count, vocab())), -1);
    top_ids({row_.z.data(), vocab(), row_.width, row_.tiles.data()}, ids);
    EXPECT_EQ(ids, std::vector<int32_t>(sorted.begin(),
                                        sorted.begin() + static_cast<int64_t>(ids.size())));
  }
}

TEST_P(Logprob, LogitGradientsMatchOracle) {
  const int64_t id = vocab() / 3;
  std::vector<float> d(vocab());
  logits_backward(
      {row_.z.data(), vocab(), row_.stats, id, 0.7f, -0.3f, row_.inv, d.data(), Dtype::kF32});
  double entropy = 0;
  for (int64_t i = 0; i < vocab(); ++i) entropy -= row_.p(i) * (row_.tempered[i] - row_.lse);
  for (int64_t i = 0; i < vocab(); ++i) {
    const double p = row_.p(i), log_p = row_.tempered[i] - row_.lse;
    const double want =
        row_.inv * (0.7 * ((i == id ? 1.0 : 0.0) - p) - -0.3 * p * (log_p + entropy));
    ASSERT_NEAR(d[i], want, 3e-6) << i;
  }
}

TEST_P(Logprob, APartOfARowHasTheGradientsOfTheWhole) {
  const int64_t id = vocab() / 3;
  std::vector<float> whole(vocab()), parts(vocab(), -1.0f);
  LogitsBackwardArgs args{row_.z.data(), vocab(),  row_.stats,   id,         0.7f,
                          -0.3f,         row_.inv, whole.data(), Dtype::kF32};
  logits_backward(args);
  constexpr int64_t kPart = 48;
  for (int64_t first = 0; first < vocab(); first += kPart) {
    args.z = row_.z.data() + first;
    args.n = std::min(kPart, vocab() - first);
    args.id = id - first;
    args.d_logits = parts.data() + first;
    logits_backward(args);
  }
  EXPECT_EQ(parts, whole);
}

TEST_P(Logprob, AGivenGradientOfTheTemperedRowIsAdded) {
  const int64_t id = vocab() / 3;
  const std::vector<float> more = random_values(vocab(), 9);
  std::vector<float> alone(vocab()), both(vocab());
  LogitsBackwardArgs args{row_.z.data(), vocab(),  row_.stats,   id,         0.7f,
                          -0.3f,         row_.inv, alone.data(), Dtype::kF32};
  logits_backward(args);
  args.d_logits = both.data();
  args.more = more.data();
  logits_backward(args);
  // One rounding of a sum of two values below 4.
  for (int64_t i = 0; i < vocab(); ++i)
    ASSERT_NEAR(both[i], alone[i] + double{row_.inv} * more[i], 1e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(Rows, Logprob,
                         ::testing::Combine(::testing::Values<int64_t>(7, 128, 300, 1000),
                                            ::testing::Values(1.0f, 0.7f),
                                            ::testing::Values(1.0f, 8.0f)));

// How far the logits lie from 0 says nothing about their log-probs: three roundings of values up to
// -log p, and the sum.
TEST(LargeLogits, LogprobsAndGradientsAreAsCloseAsThoseNearZero) {
  for (const float offset : {0.0f, 300.0f, -300.0f, 3000.0f}) {
    const Row row(1000, 128, 1.0f, 4.0f, offset);
    double farthest = 0, slope = 0, entropy = 0;
    for (int64_t i = 0; i < 1000; ++i) entropy -= row.p(i) * (row.tempered[i] - row.lse);
    std::vector<float> d(1000);
    logits_backward({row.z.data(), 1000, row.stats, 400, 0.7f, -0.3f, 1.0f, d.data(), Dtype::kF32});
    for (int64_t i = 0; i < 1000; ++i) {
      const double want = row.tempered[i] - row.lse, p = row.p(i);
      farthest = std::max(farthest, std::abs(log_prob(row.z[i], row.stats) - want) / (1 - want));
      slope = std::max(slope, std::abs(d[i] - (0.7 * ((i == 400 ? 1.0 : 0.0) - p) +
                                               0.3 * p * (want + entropy))));
    }
    EXPECT_LE(farthest, 2e-7) << offset;
    EXPECT_LE(slope, 3e-7) << offset;
    EXPECT_NEAR(row.stats.entropy, entropy, 3e-6 * (1 + entropy)) << offset;
  }
}

TEST(ScaledTile, IsTheSameElsewhereAndInPlace) {
  const std::vector<float> from = random_values(83, 6);
  std::vector<float> in_place = from, elsewhere(from.size());
  const TileStats want = scale_and_measure(in_place.data(), 83, 0.7f),
                  got = scale_and_measure({from.data(), 83, 0.7f, elsewhere.data()});
  EXPECT_EQ(elsewhere, in_place);
  EXPECT_EQ(got.max, want.max);
  EXPECT_EQ(got.sum, want.sum);
  EXPECT_EQ(got.weighted, want.weighted);
}

TEST(NanLogit, MakesTheWholeRowNan) {
  std::vector<float> z = random_values(100, 5);
  z[40] = std::nanf("");
  const TileStats tiles[] = {scale_and_measure(z.data(), 64, 1.0f),
                             scale_and_measure(z.data() + 64, 36, 1.0f)};
  const RowStats stats = combine_tiles(tiles, 2);
  EXPECT_TRUE(std::isnan(stats.log_sum));
  EXPECT_TRUE(std::isnan(stats.entropy));
}

TEST(Draw, OnAStepOfTheCdfTheNextIdIsTaken) {
  const std::vector<float> z = {0.5f, 0.5f};
  const TileStats tile{0.5f, 2.0f, 0.0f};
  const RowStats stats = combine_tiles(&tile, 1);
  EXPECT_EQ(sample_token({z.data(), 2, 2, &tile, stats, 0.5}), 1);
  EXPECT_EQ(sample_token({z.data(), 2, 2, &tile, stats, std::nextafter(0.5, 0.0)}), 0);
}

TEST(TopIds, OfEqualLogitsTheLowerIdsComeFirst) {
  std::vector<float> z(300, 1.0f);
  z[250] = 2.0f;
  std::vector<TileStats> tiles;
  for (size_t i = 0; i < 300; i += 100) tiles.push_back(scale_and_measure(&z[i], 100, 1.0f));
  std::vector<int32_t> ids(4);
  top_ids({z.data(), 300, 100, tiles.data()}, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{250, 0, 1, 2}));
}

TEST(Argmax, TakesTheLowestIdOnTies) {
  const std::vector<float> z = {0.5f, 2.0f, 2.0f, -1.0f};
  EXPECT_EQ(argmax(z.data(), 4), 1);
}

}  // namespace
}  // namespace rl::testing
