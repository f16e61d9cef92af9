// Rules that change logits before they become a distribution: by hand, and against a plain double
// precision account of the order that algo/sampling/sampling.h states.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "algo/sampling/sampling.h"

namespace rl {
namespace {

using Ids = std::vector<int32_t>;

// The changed logits relative to that of id 0, which the cases leave alone.
std::vector<double> changed(const SamplingParams& params, const SamplingRow& row) {
  TokenDistribution d(row.logits.size());
  d.assign(params, row);
  std::vector<double> out(row.logits.size(), -HUGE_VAL);
  for (const TokenDistribution::Entry& e : d.kept()) out[static_cast<size_t>(e.id)] = e.x;
  const double zero = out[0];
  for (double& x : out) x += row.logits[0] - zero;
  return out;
}

TEST(LogitRules, PresenceCountsOnceAndFrequencyEveryTimeOfWhatWasGenerated) {
  const std::vector<float> logits(6, 0.0f);
  const Ids ids = {5, 1, 5, 2, 2, 3, 2};  // the prompt is 5, 1, 5
  const SamplingRow row{.logits = logits, .previous_ids = ids, .num_generated = 4};
  const auto presence = changed({.presence_penalty = 0.5f}, row);
  EXPECT_EQ(presence, (std::vector<double>{0, 0, -0.5, -0.5, 0, 0}));
  const auto frequency = changed({.frequency_penalty = 0.5f}, row);
  EXPECT_EQ(frequency, (std::vector<double>{0, 0, -1.5, -0.5, 0, 0}));
  const auto both = changed({.presence_penalty = -0.25f, .frequency_penalty = 0.5f}, row);
  EXPECT_EQ(both, (std::vector<double>{0, 0, -1.25, -0.25, 0, 0}));
}

TEST(LogitRules, RepetitionReachesThePromptToo) {
  const std::vector<float> logits{0, 1, -1, 4};
  const Ids ids = {1, 2, 1, 3};
  EXPECT_EQ(changed({.repetition_penalty = 2.0f},
                    {.logits = logits, .previous_ids = ids, .num_generated = 1}),
            (std::vector<double>{0, 0.5, -2, 2}));
}

TEST(LogitRules, BiasGoesBeforeRepetitionAndFrequencyAfterIt) {
  const std::vector<float> logits{0, -1, 1};
  const Ids ids = {1, 2};
  const SamplingRow row{.logits = logits, .previous_ids = ids, .num_generated = 2};
  EXPECT_EQ(changed({.repetition_penalty = 2.0f, .logit_bias = {{1, 2.0f}}}, row)[1], 0.5);
  EXPECT_EQ(changed({.repetition_penalty = 2.0f, .frequency_penalty = 1.0f}, row)[2], -0.5);
}

TEST(LogitRules, ABiasBringsBackNoIdThatIsNotAllowed) {
  const std::vector<float> logits{0, 1, 2, 3};
  const Ids forbidden = {2};
  const SamplingParams params{.logit_bias = {{2, 100.0f}, {3, 100.0f}},
                              .allowed_token_ids = {2, 0, 1, 0}};
  TokenDistribution d(4);
  d.assign(params, {.logits = logits, .forbidden_ids = forbidden});
  ASSERT_EQ(d.kept().size(), 2u);
  EXPECT_EQ(d.kept()[0].id, 0);
  EXPECT_EQ(d.kept()[1].id, 1);
}

TEST(LogitRules, GreedyFollowsEveryRule) {
  const std::vector<float> logits{0, 1, 2, 3};
  const Ids ids = {3};
  const auto greedy = [&](SamplingParams p, const Ids& forbidden = {}) {
    p.temperature = 0;
    TokenDistribution d(4);
    d.assign(
        p, {.logits = logits, .previous_ids = ids, .num_generated = 1, .forbidden_ids = forbidden});
    return d.sample(0.5).id;
  };
  EXPECT_EQ(greedy({}), 3);
  EXPECT_EQ(greedy({.presence_penalty = 1.5f}), 2);
  EXPECT_EQ(greedy({.frequency_penalty = 1.5f}), 2);
  EXPECT_EQ(greedy({.logit_bias = {{0, 4.0f}}}), 0);
  EXPECT_EQ(greedy({.allowed_token_ids = {0, 1}}), 1);
  EXPECT_EQ(greedy({}, {3, 2}), 1);
}

struct Case {
  SamplingParams params;
  std::vector<float> logits;
  Ids ids, forbidden;
  size_t num_generated;
};

Case random_case(std::mt19937& rng) {
  const auto below = [&rng](int32_t n) {
    return static_cast<int32_t>(rng() % static_cast<unsigned>(n));
  };
  const auto real = [&](float low, float high) {
    return low + (high - low) * static_cast<float>(below(1 << 20)) / (1 << 20);
  };
  Case c;
  const int32_t vocab = 2 + below(60);
  for (int32_t i = 0; i < vocab; ++i) c.logits.push_back(real(-8, 8));
  for (int32_t i = below(40); i > 0; --i) c.ids.push_back(below(vocab));
  c.num_generated = static_cast<size_t>(below(static_cast<int32_t>(c.ids.size()) + 1));
  c.params.temperature = real(0.5f, 2.0f);
  if (below(2)) c.params.repetition_penalty = real(0.5f, 2.0f);
  if (below(2)) c.params.presence_penalty = real(-2, 2);
  if (below(2)) c.params.frequency_penalty = real(-2, 2);
  if (below(2)) {
    for (int32_t id = below(5); id < vocab; id += 1 + below(9)) {
      c.params.logit_bias.push_back({id, real(-5, 5)});
    }
  }
  if (below(2)) {
    for (int32_t i = below(20); i >= 0; --i) c.params.allowed_token_ids.push_back(below(vocab));
  }
  if (below(3) == 0) c.forbidden.push_back(below(vocab));
  return c;
}

// Probabilities by id, of the order in the header, in double; empty when no id is left.
std::vector<double> account(const Case& c) {
  const SamplingParams& p = c.params;
  std::map<int32_t, double> rows;
  for (size_t i = 0; i < c.logits.size(); ++i) rows[static_cast<int32_t>(i)] = c.logits[i];
  const auto has = [](const Ids& ids, int32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  std::erase_if(rows, [&](const auto& entry) {
    if (has(c.forbidden, entry.first)) return true;
    return !p.allowed_token_ids.empty() && !has(p.allowed_token_ids, entry.first);
  });
  double total = 0;
  for (auto& [id, x] : rows) {
    for (const LogitBias& b : p.logit_bias) x += b.id == id ? b.bias : 0.0;
    if (has(c.ids, id)) x = x > 0 ? x / p.repetition_penalty : x * p.repetition_penalty;
    const auto first = c.ids.end() - static_cast<ptrdiff_t>(c.num_generated);
    const auto count = std::count(first, c.ids.end(), id);
    x -= p.frequency_penalty * static_cast<double>(count) + (count > 0 ? p.presence_penalty : 0.0);
    total += std::exp(x / p.temperature);
  }
  if (rows.empty()) return {};
  std::vector<double> out(c.logits.size(), 0);
  for (const auto& [id, x] : rows) {
    out[static_cast<size_t>(id)] = std::exp(x / p.temperature) / total;
  }
  return out;
}

TEST(LogitRules, RandomRowsMatchThePlainAccount) {
  std::mt19937 rng(7);
  TokenDistribution d(64);
  int compared = 0;
  for (int round = 0; round < 1000; ++round) {
    const Case c = random_case(rng);
    const std::vector<double> want = account(c);
    if (want.empty()) continue;
    std::vector<float> tempered = c.logits;
    for (float& x : tempered) x *= 1.0f / c.params.temperature;
    for (const bool is_tempered : {false, true}) {
      d.assign(c.params, {is_tempered ? tempered : c.logits, is_tempered, c.ids, c.num_generated,
                          c.forbidden});
      std::vector<double> seen(want.size(), 0);
      for (const auto& e : d.kept()) seen[static_cast<size_t>(e.id)] = d.probability(e);
      for (size_t i = 0; i < want.size(); ++i) {
        // Logits reach 120 in fp32, whose rounding of 4e-6 is that of the probability's exponent.
        ASSERT_NEAR(seen[i], want[i], 2e-5) << "round " << round << " id " << i;
      }
    }
    ++compared;
  }
  EXPECT_GT(compared, 900);
}

TEST(LogitRules, ARowLeavesNothingBehindForTheNext) {
  const std::vector<float> logits{0, 1, 2, 3};
  const Ids ids = {1, 1, 2};
  const SamplingRow row{.logits = logits, .previous_ids = ids, .num_generated = 3};
  TokenDistribution used(4), fresh(4);
  used.assign({.frequency_penalty = 1.0f, .allowed_token_ids = {1}}, row);
  used.assign({.presence_penalty = 0.5f}, row);
  fresh.assign({.presence_penalty = 0.5f}, row);
  ASSERT_EQ(used.kept().size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(used.kept()[i].x, fresh.kept()[i].x) << i;
}

}  // namespace
}  // namespace rl
