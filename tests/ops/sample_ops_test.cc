// Sampling from rows filled by hand: against the goldens of the filters, and the plain and greedy
// paths.
#include "ops/sample_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/arena.h"
#include "device/cpu/executors.h"
#include "support/head_row.h"

namespace rl::testing {
namespace {

TokenChoice choose(const std::vector<float>& logits, const SamplingParams& params,
                   const std::vector<int32_t>& previous, double u,
                   const std::vector<int32_t>& forbidden = {}) {
  const auto executor = make_thread_executor(1);
  const auto compute = make_cpu_compute(*executor, Dtype::kF32);
  const HeadRow row(logits, inv_temperature(params));
  const auto vocab = static_cast<int64_t>(logits.size());
  const Arena scratch("test scratch", sample_scratch_bytes(vocab, 1));
  std::memset(scratch.data(), 0x7f, scratch.bytes());  // as other ops leave it
  return row.choose(*compute,
                    {0, &params, u, previous, previous.size(), forbidden, params.top_logprobs},
                    scratch.data());
}

// A deterministic row that spans several tiles and ends inside one.
std::vector<float> long_row() {
  std::vector<float> x(512 * 3 + 77);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7919) % 1009) / 128.0f;
  return x;
}

nlohmann::json sampling_golden() {
  return nlohmann::json::parse(std::ifstream(std::string(RL_FIXTURES) + "/sampling/sampling.json"));
}

std::vector<float> logits_of(const nlohmann::json& golden, const std::string& name) {
  std::vector<float> logits;
  for (const auto& v : golden.at("logits").at(name)) {
    logits.push_back(v.is_string() ? -HUGE_VALF : v.get<float>());
  }
  return logits;
}

TEST(SampleRows, DrawsAndLogprobsMatchTheGoldens) {
  const auto golden = sampling_golden();
  int filtered = 0, plain = 0;
  for (const auto& item : golden.at("cases")) {
    SCOPED_TRACE(item.at("id").get<std::string>());
    const auto& p = item.at("params");
    SamplingParams params;
    params.temperature = p.value("temperature", 1.0f);
    params.top_k = p.value("top_k", 0);
    params.top_p = p.value("top_p", 1.0f);
    params.min_p = p.value("min_p", 0.0f);
    params.repetition_penalty = p.value("repetition_penalty", 1.0f);
    const auto logits = logits_of(golden, item.at("logits"));
    const auto previous = item.at("previous_ids").get<std::vector<int32_t>>();
    const auto& kept = item.at("kept");
    for (const auto& draw : item.at("inverse_cdf")) {
      if (draw.at(2).get<double>() < 1e-6) continue;  // fp32 cannot tell the side of the step
      const TokenChoice c = choose(logits, params, previous, draw.at(0));
      ASSERT_TRUE(c.finite);
      EXPECT_EQ(c.id, draw.at(1).get<int32_t>()) << "u " << draw.at(0);
      size_t at = static_cast<size_t>(c.id);
      if (kept.is_array()) {
        at = static_cast<size_t>(std::find(kept.begin(), kept.end(), c.id) - kept.begin());
      }
      // Log-probs of fp32 sums; the goldens are double.
      EXPECT_NEAR(c.logprob_sampled, item.at("logprobs").at(at).get<double>(), 2e-5);
      (is_plain(params) ? plain : filtered)++;
    }
  }
  EXPECT_GT(filtered, 100);
  EXPECT_GT(plain, 10);
}

TEST(SampleRows, StoredLogprobIsThatOfTheWholeTemperedSoftmax) {
  const std::vector<float> logits = {1.0f, 2.5f, -0.5f, 2.0f};
  SamplingParams params;
  params.temperature = 0.5f;
  params.top_k = 2;
  const TokenChoice c = choose(logits, params, {}, 0.0);
  ASSERT_EQ(c.id, 1);
  double sum = 0;
  for (const float v : logits) sum += std::exp(2.0 * v);
  EXPECT_NEAR(c.logprob, 5.0 - std::log(sum), 1e-6);
  EXPECT_NEAR(c.logprob_sampled, -std::log1p(std::exp(-1.0)), 1e-6);
}

TEST(SampleRows, PlainAndFilteredPathsAgreeOnLongRows) {
  const std::vector<float> logits = long_row();
  SamplingParams plain, filtered;
  filtered.logit_bias = {{0, 0.0f}};
  int equal = 0;
  for (int k = 0; k < 400; ++k) {
    const TokenChoice a = choose(logits, plain, {}, k / 400.0);
    const TokenChoice b = choose(logits, filtered, {}, k / 400.0);
    equal += a.id == b.id;
    // Both are sums of 1613 fp32 exponentials.
    if (a.id == b.id) {
      EXPECT_NEAR(a.logprob_sampled, b.logprob_sampled, 1e-5);
    }
  }
  // A draw within 1e-7 of one of the 1613 steps may differ.
  EXPECT_GE(equal, 399);
}

TEST(SampleRows, RulesShapeSamplingButNotTheStoredLogprob) {
  const std::vector<float> logits = {1.0f, 2.0f, 3.0f, 2.0f};
  const auto stored = [&](int32_t id, double scale) {
    double sum = 0;
    for (const float v : logits) sum += std::exp(scale * v);
    return scale * logits[static_cast<size_t>(id)] - std::log(sum);
  };
  SamplingParams params;
  params.temperature = 0.5f;
  params.allowed_token_ids = {3, 1};
  params.logit_bias = {{1, 1.0f}};
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  // Both are 2; id 1 gets + 1 and id 3 loses 0.5 + 2 * 0.25, at half the temperature.
  const TokenChoice low = choose(logits, params, {3, 3}, 0.0);
  const TokenChoice high = choose(logits, params, {3, 3}, 0.999);
  ASSERT_EQ(low.id, 1);
  ASSERT_EQ(high.id, 3);
  EXPECT_NEAR(low.logprob_sampled, -std::log1p(std::exp(-4.0)), 1e-6);
  EXPECT_NEAR(high.logprob_sampled, -4 - std::log1p(std::exp(-4.0)), 1e-6);
  EXPECT_NEAR(low.logprob, stored(1, 2), 1e-6);
  EXPECT_NEAR(high.logprob, stored(3, 2), 1e-6);
}

TEST(SampleRows, ForbiddenIdsAreNotChosenByAnyPath) {
  const std::vector<float> logits = {1.0f, 9.0f, 3.0f};
  SamplingParams plain, greedy, filtered;
  greedy.temperature = 0;
  filtered.top_p = 0.5f;
  for (const SamplingParams& params : {plain, greedy, filtered}) {
    EXPECT_EQ(choose(logits, params, {}, 0.99).id, 1);
    const TokenChoice c = choose(logits, params, {}, 0.99, {1});
    EXPECT_EQ(c.id, 2);
    EXPECT_NEAR(c.logprob, -6 - std::log1p(std::exp(-6.0) + std::exp(-8.0)), 1e-5);
  }
}

TEST(SampleRows, TheMostProbableIdsComeWithTheLogprobsOfTheWholeSoftmax) {
  const std::vector<float> logits = long_row();
  SamplingParams plain, greedy, ruled;
  greedy.temperature = 0;
  ruled.temperature = 0.5f;
  ruled.top_k = 1;
  ruled.allowed_token_ids = {4};
  for (SamplingParams params : {plain, greedy, ruled}) {
    params.top_logprobs = 20;
    const HeadRow row(logits, inv_temperature(params));
    const TokenChoice c = choose(logits, params, {}, 0.3);
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(c.top_logprobs[i], row.logprob(c.top_ids[i]));
      if (i == 0) continue;
      const auto a = static_cast<size_t>(c.top_ids[i - 1]), b = static_cast<size_t>(c.top_ids[i]);
      EXPECT_TRUE(logits[a] > logits[b] || (logits[a] == logits[b] && a < b));
    }
    EXPECT_EQ(logits[static_cast<size_t>(c.top_ids[0])],
              *std::max_element(logits.begin(), logits.end()));
    params.top_logprobs = 0;
    const TokenChoice without = choose(logits, params, {}, 0.3);
    EXPECT_EQ(c.id, without.id);
    EXPECT_EQ(c.logprob, without.logprob);
    EXPECT_EQ(c.logprob_sampled, without.logprob_sampled);
  }
}

TEST(SampleRows, GreedyTakesTheLowestOfEqualIdsAtTemperatureOne) {
  SamplingParams params;
  params.temperature = 0;
  const TokenChoice c = choose({0.0f, 3.0f, 3.0f, 1.0f}, params, {}, 0.9);
  EXPECT_EQ(c.id, 1);
  EXPECT_EQ(c.logprob_sampled, 0.0f);
  EXPECT_NEAR(c.logprob, 3 - std::log(1 + 2 * std::exp(3.0) + std::exp(1.0)), 1e-6);
}

TEST(SampleRows, GreedyFollowsTheRepetitionPenalty) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 2.0f;
  const TokenChoice c = choose({0.0f, 3.0f, 2.0f}, params, {1, 1}, 0.9);
  EXPECT_EQ(c.id, 2);
  EXPECT_EQ(c.logprob_sampled, 0.0f);
}

TEST(SampleRows, RowsWithALogitThatIsNotFiniteAreNotSampled) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = HUGE_VALF;
  SamplingParams plain, greedy, filtered, overflow;
  greedy.temperature = 0;
  filtered.top_k = 2;
  overflow.repetition_penalty = 1e-38f;
  for (const SamplingParams& params : {plain, greedy, filtered}) {
    EXPECT_FALSE(choose({1.0f, nan, 0.0f}, params, {}, 0.5).finite);
    EXPECT_FALSE(choose({1.0f, inf, 0.0f}, params, {}, 0.5).finite);
    EXPECT_FALSE(choose({-inf, -inf, -inf}, params, {}, 0.5).finite);
    EXPECT_FALSE(choose({1.0f, -inf, 0.0f}, params, {}, 0.5).finite);
    std::vector<float> wide(1300, 0.25f);
    EXPECT_TRUE(choose(wide, params, {}, 0.5).finite);
    for (const size_t at : {size_t{0}, size_t{600}, size_t{1299}}) {
      wide[at] = nan;
      EXPECT_FALSE(choose(wide, params, {}, 0.5).finite) << at;
      wide[at] = 0.25f;
    }
  }
  EXPECT_FALSE(choose({100.0f, 1.0f, 0.0f}, overflow, {0}, 0.5).finite);
}

// Rows of several temperatures and rules, on two threads, some of the same row of the head.
TEST(SampleRows, AChoiceDoesNotDependOnTheOtherRowsOrOnThreads) {
  constexpr int64_t kVocab = 1613, kHeadRows = 3, kRows = 24;
  const ColumnSlices slices = slices_of_width(kVocab, kTileWidth);
  std::vector<float> z;
  std::vector<TileStats> tiles;
  std::vector<RowStats> stats;
  for (int64_t row = 0; row < kHeadRows; ++row) {
    const std::vector<float> logits = long_row();
    z.insert(z.end(), logits.begin(), logits.end());
    z[static_cast<size_t>(row * kVocab + row)] = 9.0f;
    for (int64_t tile = 0; tile < slices.count(); ++tile) {
      tiles.push_back(
          scale_and_measure(z.data() + row * kVocab + slices.first(tile), slices.size(tile), 1.0f));
    }
    stats.push_back(
        combine_tiles(&tiles[static_cast<size_t>(row * slices.count())], slices.count()));
  }
  SamplingParams all[3];
  all[1].top_p = 0.7f;
  all[2].repetition_penalty = 1.3f;
  const std::vector<int32_t> previous = {0, 1, 2, 900};
  std::vector<SampleRow> rows;
  for (int64_t i = 0; i < kRows; ++i)
    rows.push_back({i % kHeadRows,
                    &all[i / 2 % 3],
                    static_cast<double>(i) / kRows,
                    previous,
                    2,
                    {},
                    static_cast<int32_t>(i % 4)});
  const auto choices = [&](int threads, size_t at_a_time) {
    const auto executor = make_thread_executor(threads);
    const auto compute = make_cpu_compute(*executor, Dtype::kF32);
    const Arena scratch("test scratch", sample_scratch_bytes(kVocab, threads));
    std::vector<TokenChoice> out(rows.size());
    for (size_t i = 0; i < rows.size(); i += at_a_time) {
      sample_rows(*compute,
                  {std::span(rows).subspan(i, at_a_time), z.data(), tiles.data(), stats.data(),
                   kVocab, slices.width, scratch.data(), std::span(out).subspan(i, at_a_time)});
    }
    return out;
  };
  const std::vector<TokenChoice> together = choices(2, rows.size()), alone = choices(1, 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(together[i].id, alone[i].id) << i;
    EXPECT_EQ(together[i].logprob, alone[i].logprob) << i;
    EXPECT_EQ(together[i].logprob_sampled, alone[i].logprob_sampled) << i;
    EXPECT_EQ(together[i].top_ids, alone[i].top_ids) << i;
  }
}

}  // namespace
}  // namespace rl::testing
