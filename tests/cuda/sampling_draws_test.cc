// Sampling on the GPU against the rules on the host: a uniform number in the
// middle of an id's share must draw that id, with the log-prob of the host's
// distribution.
//
// Tolerance: both sides compute exponentials in fp32, within 2^-22 of each
// other; a share is drawn in its middle if it is above 1e-5, which is far more
// than such errors sum to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory_resource>

#include "cuda/device_data.h"
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/kernels/head/head_logprob.h"
#include "ops/sample_ops.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

constexpr double kLeastShare = 1e-5;

class Sampling : public ::testing::Test {
 protected:
  // Tempered logits of some rows with their statistics.
  struct Rows {
    Rows(const std::vector<float>& values, int64_t vocab, int64_t width)
        : values(values),
          vocab(vocab),
          width(width),
          count(static_cast<int64_t>(values.size()) / vocab),
          z(std::span<const float>(values)),
          tiles(count * ((vocab + width - 1) / width)),
          stats(count) {
      const std::vector<float> ones(static_cast<size_t>(count), 1.0f);
      const DeviceArray<float> scale{std::span<const float>(ones)};
      cuda::measure_tiles(nullptr, {z.data(), scale.data(), tiles.data(), count, vocab, width});
      cuda::combine_tiles(nullptr, {tiles.data(), stats.data(), count, tiles.count() / count});
      host_stats = stats.read();
      host_tiles = tiles.read();
    }
    std::span<const float> row(int64_t r) const {
      return std::span(values).subspan(static_cast<size_t>(r * vocab), static_cast<size_t>(vocab));
    }
    std::vector<float> values;
    int64_t vocab, width, count;
    DeviceArray<float> z;
    DeviceArray<TileStats> tiles;
    DeviceArray<RowStats> stats;
    std::vector<RowStats> host_stats;
    std::vector<TileStats> host_tiles;
  };

  std::vector<TokenChoice> choose(const Rows& rows, const std::vector<SampleRow>& requests) {
    return choose(devices_.gpu(), rows, requests);
  }
  static std::vector<TokenChoice> choose(Compute& gpu, const Rows& rows,
                                         const std::vector<SampleRow>& requests) {
    std::vector<TokenChoice> choices(requests.size());
    sample_rows(gpu, {requests, rows.z.data(), rows.tiles.data(), rows.stats.data(), rows.vocab,
                      rows.width, nullptr, choices});
    return choices;
  }
  static SampleRow request(const SamplingParams& params, double u, int64_t row = 0) {
    return {row, &params, u, {}, 0, {}, 0};
  }

  // Draws up to some 12 ids, evenly over the row, of those that the host keeps.
  // The log-probs say whether the others are kept too: they contain the sum of
  // all masses.
  void expect_shares(const Rows& rows, const SampleRow& like) {
    TokenDistribution distribution(static_cast<size_t>(rows.vocab));
    distribution.assign(*like.params, {.logits = rows.row(like.row),
                                       .tempered = true,
                                       .previous_ids = like.previous_ids,
                                       .num_generated = like.num_generated,
                                       .forbidden_ids = like.forbidden_ids});
    std::vector<SampleRow> requests;
    std::vector<TokenDistribution::Entry> wanted;
    const size_t step = (distribution.kept().size() + 11) / 12;
    double before = 0;
    size_t skip = 0;
    for (const auto& entry : distribution.kept()) {
      const double share = distribution.probability(entry);
      if (skip > 0) --skip;
      if (share > kLeastShare && skip == 0) {
        skip = step;
        requests.push_back(like);
        requests.back().u = before + share / 2;
        wanted.push_back(entry);
      }
      before += share;
    }
    ASSERT_FALSE(requests.empty());
    const std::vector<TokenChoice> got = choose(rows, requests);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(got[i].finite);
      ASSERT_EQ(got[i].id, wanted[i].id) << "at " << requests[i].u;
      EXPECT_NEAR(got[i].logprob_sampled, distribution.log_prob(wanted[i]), 2e-6);
      EXPECT_EQ(got[i].logprob, log_prob(rows.row(like.row)[static_cast<size_t>(got[i].id)],
                                         rows.host_stats[static_cast<size_t>(like.row)]));
    }
  }

  TwoDevices devices_{Dtype::kF32};
};

// Several logits of a row are equal, in one tile and in several.
std::vector<float> with_ties(int64_t count, unsigned seed) {
  std::vector<float> out = random_values(count, seed, 2.0f);
  for (float& z : out) z = std::round(z * 4) / 4;
  return out;
}

TEST_F(Sampling, EveryIdHasItsShareOfAPlainRow) {
  const SamplingParams plain;
  const Rows rows(random_values(3 * 150, 1, 2.0f), 150, 64), one_tile(random_values(40, 2), 40, 40);
  for (const int64_t row : {0, 2}) expect_shares(rows, request(plain, 0, row));
  expect_shares(one_tile, request(plain, 0));
}

TEST_F(Sampling, TheEndsOfTheUnitIntervalDrawTheFirstAndTheLastIdWithMass) {
  const SamplingParams plain, filtered{.top_p = 0.999f};
  std::vector<float> z = random_values(200, 3);
  for (const int i : {0, 1, 198, 199}) z[static_cast<size_t>(i)] = -200;
  const Rows rows(z, 200, 64);
  const double last = std::nextafter(1.0, 0.0);
  for (const SamplingParams* params : {&plain, &filtered}) {
    const std::vector<TokenChoice> got =
        choose(rows, {request(*params, 0.0), request(*params, last)});
    EXPECT_EQ(got[0].id, 2);
    EXPECT_EQ(got[1].id, 197);
  }
}

TEST_F(Sampling, GreedyTakesTheLowestOfTheLargest) {
  const SamplingParams greedy{.temperature = 0}, ruled{.temperature = 0, .logit_bias = {{5, 1}}};
  std::vector<float> z = random_values(2 * 300, 4);
  for (const int i : {70, 90, 130, 299}) z[static_cast<size_t>(i)] = 9;
  z[300 + 299] = 8;
  const Rows rows(z, 300, 64);
  const std::vector<TokenChoice> got =
      choose(rows, {request(greedy, 0.5), request(greedy, 0.5, 1), request(ruled, 0.5)});
  EXPECT_EQ(got[0].id, 70);
  EXPECT_EQ(got[1].id, 299);
  EXPECT_EQ(got[2].id, 70);
  for (const TokenChoice& choice : got) {
    EXPECT_TRUE(choice.finite);
    EXPECT_EQ(choice.logprob_sampled, 0);
    EXPECT_LT(choice.logprob, 0);
  }
}

TEST_F(Sampling, FiltersKeepWhatTheHostKeeps) {
  const Rows rows(with_ties(130, 5), 130, 64), smooth(random_values(130, 6, 2.0f), 130, 64);
  for (const SamplingParams& params :
       {SamplingParams{.top_k = 1}, SamplingParams{.top_k = 7}, SamplingParams{.top_k = 129},
        SamplingParams{.top_k = 500}, SamplingParams{.top_p = 0.9f}, SamplingParams{.top_p = 0.31f},
        SamplingParams{.top_p = 1e-30f}, SamplingParams{.min_p = 0.1f},
        SamplingParams{.min_p = 1.0f}, SamplingParams{.top_p = 0.8f, .min_p = 0.05f, .top_k = 20},
        SamplingParams{.temperature = 0.5f, .top_p = 0.95f, .top_k = 50}}) {
    SCOPED_TRACE(str("k ", params.top_k, " p ", params.top_p, " min ", params.min_p));
    expect_shares(rows, request(params, 0));
    expect_shares(smooth, request(params, 0));
  }
}

TEST_F(Sampling, RulesChangeLogitsAsOnTheHost) {
  const Rows rows(random_values(130, 7, 2.0f), 130, 64);
  const std::vector<int32_t> previous{3, 9, 3, 77, 129, 9, 9, 3}, forbidden{0, 77, 100};
  SamplingParams params{.temperature = 0.7f,
                        .top_p = 0.97f,
                        .repetition_penalty = 1.3f,
                        .presence_penalty = 0.5f,
                        .frequency_penalty = 0.25f,
                        .logit_bias = {{9, 2.5f}, {100, 50}, {5, -3}}};
  SampleRow row = request(params, 0);
  row.previous_ids = previous;
  row.num_generated = 3;
  expect_shares(rows, row);
  row.forbidden_ids = forbidden;
  expect_shares(rows, row);
  params.allowed_token_ids = {129, 3, 9, 77, 9, 60, 61};
  expect_shares(rows, row);
  // Forbidden ids alone, of a row that is plain or greedy otherwise.
  for (const float temperature : {1.0f, 0.0f}) {
    const SamplingParams bare{.temperature = temperature};
    SampleRow other = request(bare, 0);
    other.forbidden_ids = forbidden;
    expect_shares(rows, other);
  }
}

TEST_F(Sampling, TopIdsAreTheHosts) {
  const SamplingParams plain;
  const Rows rows(with_ties(2 * 300, 8), 300, 64), few(with_ties(7, 9), 7, 7);
  std::vector<SampleRow> requests{request(plain, 0.3), request(plain, 0.3, 1), request(plain, 0.3)};
  requests[0].top_logprobs = 20;
  requests[2].top_logprobs = 3;
  const std::vector<TokenChoice> got = choose(rows, requests);
  std::array<int32_t, 20> want{};
  top_ids({rows.values.data(), 300, 64, rows.host_tiles.data()}, want);
  EXPECT_EQ(got[0].top_ids, want);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[0].top_logprobs[i],
              log_prob(rows.values[static_cast<size_t>(want[i])], rows.host_stats[0]));
  }
  EXPECT_EQ(got[1].top_ids, TokenChoice().top_ids);
  EXPECT_TRUE(std::equal(want.begin(), want.begin() + 3, got[2].top_ids.begin()));
  EXPECT_EQ(got[2].top_ids[3], 0);
  // All ids of a small vocabulary.
  SampleRow all = request(plain, 0.3);
  all.top_logprobs = 7;
  std::array<int32_t, 7> of_few{};
  top_ids({few.values.data(), 7, 7, few.host_tiles.data()}, of_few);
  const TokenChoice choice = choose(few, {all})[0];
  EXPECT_TRUE(std::equal(of_few.begin(), of_few.end(), choice.top_ids.begin()));
}

TEST_F(Sampling, ARowThatIsNotFiniteHasNoChoice) {
  std::vector<float> z = random_values(4 * 100, 10);
  z[150] = std::numeric_limits<float>::quiet_NaN();
  z[250] = std::numeric_limits<float>::infinity();
  z[301] = std::numeric_limits<float>::max();
  const Rows rows(z, 100, 64);
  const SamplingParams plain, greedy{.temperature = 0}, filtered{.top_k = 5},
      penalised{.repetition_penalty = 0.5f};
  const std::vector<int32_t> previous{1};
  std::vector<SampleRow> requests;
  for (const int64_t row : {0, 1, 2})
    for (const SamplingParams* params : {&plain, &greedy, &filtered})
      requests.push_back(request(*params, 0.5, row));
  // A finite row that a penalty makes infinite.
  requests.push_back(request(penalised, 0.5, 3));
  requests.back().previous_ids = previous;
  for (SampleRow& row : requests) row.top_logprobs = 2;
  const std::vector<TokenChoice> got = choose(rows, requests);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].finite, i < 3) << i;
    EXPECT_EQ(got[i].id >= 0, i < 3) << i;
  }
}

// N1: the choice of a request is its own.
TEST_F(Sampling, RequestsDoNotDependOnEachOther) {
  const Rows rows(random_values(5 * 140, 11, 2.0f), 140, 64);
  const SamplingParams plain, greedy{.temperature = 0}, filtered{.top_p = 0.8f, .top_k = 30};
  const std::vector<int32_t> forbidden{1, 2, 3};
  std::vector<SampleRow> requests;
  for (int64_t i = 0; i < 15; ++i) {
    const SamplingParams& params = i % 3 == 0 ? plain : i % 3 == 1 ? greedy : filtered;
    requests.push_back(request(params, static_cast<double>(i) / 15, i % 5));
    if (i % 2 == 0) requests.back().forbidden_ids = forbidden;
    requests.back().top_logprobs = static_cast<int32_t>(i % 4);
  }
  const std::vector<TokenChoice> together = choose(rows, requests);
  const auto expect_same = [&](const TokenChoice& got, const TokenChoice& want) {
    EXPECT_EQ(got.id, want.id);
    EXPECT_EQ(got.logprob, want.logprob);
    EXPECT_EQ(got.logprob_sampled, want.logprob_sampled);
    EXPECT_EQ(got.top_ids, want.top_ids);
    EXPECT_EQ(got.top_logprobs, want.top_logprobs);
  };
  for (size_t i = 0; i < requests.size(); ++i)
    expect_same(choose(rows, {requests[i]})[0], together[i]);
  // Scratch for a few filtered rows at a time.
  TwoDevices little(Dtype::kF32, {.scratch_bytes = 6 << 10, .staging_bytes = 1 << 20});
  const std::vector<TokenChoice> in_parts = choose(little.gpu(), rows, requests);
  for (size_t i = 0; i < requests.size(); ++i) expect_same(in_parts[i], together[i]);
}

TEST_F(Sampling, IdsOutsideTheVocabularyAreNamed) {
  const Rows rows(random_values(50, 12), 50, 50);
  const std::vector<int32_t> outside{3, 50};
  const SamplingParams allowed{.allowed_token_ids = {1, -1}}, biased{.logit_bias = {{77, 1}}},
      penalised{.repetition_penalty = 2}, plain;
  SampleRow previous = request(penalised, 0), forbidden = request(plain, 0);
  previous.previous_ids = outside;
  forbidden.forbidden_ids = outside;
  for (const auto& [row, key] : {std::pair{request(allowed, 0), "allowed_token_ids"},
                                 {request(biased, 0), "logit_bias"},
                                 {previous, "previous_ids"},
                                 {forbidden, "forbidden_ids"}}) {
    const Error error = expect_error(Code::kOutOfRange, [&, row = row] { choose(rows, {row}); });
    EXPECT_EQ(error.key, key);
  }
}

}  // namespace
}  // namespace rl::testing
