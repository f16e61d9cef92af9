#include "algo/sampling/sampling.h"

#include <numeric>

#include "algo/wide.h"
#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;

// fp32 exponentials of exact inputs: the golden data's bound for fp32.
constexpr double kProbTolerance = 1e-6;
// A draw this near to a step of the CDF may fall on either side of it.
constexpr double kStepDistance = 1e-6;
// fp32 rounding of the tempered logit, relative to its size.
constexpr double kLogProbTolerance = 1e-6;

SamplingParams params_of(const Json& p) {
  SamplingParams s;
  s.temperature = p.value("temperature", 1.0f);
  s.top_k = p.value("top_k", 0);
  s.top_p = p.value("top_p", 1.0f);
  s.min_p = p.value("min_p", 0.0f);
  s.repetition_penalty = p.value("repetition_penalty", 1.0f);
  validate(s);
  return s;
}

std::vector<int32_t> kept_ids(const Json& c, size_t vocab) {
  if (!c["kept"].is_string()) return c["kept"].get<std::vector<int32_t>>();
  std::vector<int32_t> all(vocab);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void expect_distribution(const TokenDistribution& d, const Json& c, size_t vocab) {
  const std::vector<int32_t> ids = kept_ids(c, vocab);
  ASSERT_EQ(d.kept().size(), ids.size()) << c["id"];
  for (size_t i = 0; i < ids.size(); ++i) {
    const TokenDistribution::Entry& e = d.kept()[i];
    EXPECT_EQ(e.id, ids[i]) << c["id"];
    EXPECT_NEAR(d.probability(e), golden::number(c["probs"][i]), kProbTolerance) << c["id"];
    golden::expect_close(d.log_prob(e), golden::number(c["logprobs"][i]), kLogProbTolerance,
                         c["id"]);
  }
}

TEST(Sampling, MatchesEveryFilteredDistributionAndDraw) {
  const Json data = golden::load("sampling/sampling.json");
  TokenDistribution d(256);
  int compared = 0;
  int draws = 0;
  for (const Json& c : data["cases"]) {
    const std::vector<float> logits =
        golden::floats(golden::numbers(data["logits"][c["logits"].get<std::string>()]));
    const auto previous = c["previous_ids"].get<std::vector<int32_t>>();
    d.assign(params_of(c["params"]), {.logits = logits, .previous_ids = previous});
    expect_distribution(d, c, logits.size());
    for (const Json& draw : c["inverse_cdf"]) {
      if (golden::number(draw[2]) < kStepDistance) continue;
      EXPECT_EQ(d.sample(golden::number(draw[0])).id, draw[1].get<int32_t>()) << c["id"] << draw;
      ++draws;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 112);
  EXPECT_GE(draws, 700);
}

TEST(Sampling, ADrawOnAStepOfTheCdfTakesTheNextId) {
  TokenDistribution d(2);
  d.assign({}, {std::vector<float>{0.5f, 0.5f}});
  EXPECT_EQ(d.sample(0.5).id, 1);
  EXPECT_EQ(d.sample(std::nextafter(0.5, 0.0)).id, 0);
}

TEST(Sampling, AForbiddenTokenIsNeverSampledNorKept) {
  const std::vector<float> logits{-HUGE_VALF, 0.0f, -HUGE_VALF, 0.0f};
  TokenDistribution d(4);
  d.assign({}, {logits});
  EXPECT_EQ(d.kept().size(), 2u);
  d.assign({.top_k = 3}, {logits});
  EXPECT_EQ(d.kept().size(), 2u);
  EXPECT_EQ(d.sample(0.0).id, 1);
  EXPECT_EQ(d.sample(0.9999).id, 3);
}

TEST(Sampling, GreedyTakesTheLowestIdOfATie) {
  const std::vector<float> logits{1.0f, 4.0f, 4.0f, 2.0f};
  EXPECT_EQ(greedy_token(logits), 1);
  TokenDistribution d(4);
  d.assign({.temperature = 0.0f}, {logits});
  EXPECT_EQ(d.sample(0.999).id, 1);
  EXPECT_EQ(d.sample(0.0).log_prob, 0.0f);
  const std::vector<int32_t> previous{1};
  d.assign({.temperature = 0.0f, .repetition_penalty = 2.0f},
           {.logits = logits, .previous_ids = previous});
  EXPECT_EQ(d.sample(0.5).id, 2);
}

TEST(Sampling, TopPOfEqualLogitsKeepsLowIds) {
  const std::vector<float> logits(10, 1.0f);
  TokenDistribution d(10);
  d.assign({.top_p = 0.35f}, {logits});
  ASSERT_EQ(d.kept().size(), 4u);
  for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(d.kept()[static_cast<size_t>(i)].id, i);
}

TEST(Sampling, RefusesRowsThatAreNotFinite) {
  TokenDistribution d(3);
  const float inf = HUGE_VALF;
  for (const std::vector<float>& row :
       {std::vector<float>{0, NAN, 1}, {0, inf, 1}, {-inf, -inf, -inf}}) {
    expect_error(Code::kNonFinite, [&] { d.assign({}, {row}); });
    expect_error(Code::kNonFinite, [&] { greedy_token(row); });
  }
}

TEST(Sampling, RefusesIdsOutsideTheRow) {
  TokenDistribution d(3);
  const std::vector<float> fine{0, 0, 0};
  for (const int32_t id : {3, -1, INT32_MAX}) {
    const std::vector<int32_t> outside{0, id};
    const auto key = [&](const SamplingParams& p, const SamplingRow& row) {
      return expect_error(Code::kOutOfRange, [&] { d.assign(p, row); }).key;
    };
    EXPECT_EQ(key({.presence_penalty = 1}, {.logits = fine, .previous_ids = outside}),
              "previous_ids");
    EXPECT_EQ(key({}, {.logits = fine, .forbidden_ids = outside}), "forbidden_ids");
    EXPECT_EQ(key({.allowed_token_ids = outside}, {fine}), "allowed_token_ids");
    EXPECT_EQ(key({.logit_bias = {{id, 1.0f}}}, {fine}), "logit_bias");
  }
}

TEST(Sampling, ValidateNamesTheOptionAndTheRange) {
  const auto error_of = [](const SamplingParams& p) {
    return expect_error(Code::kOutOfRange, [&] { validate(p); });
  };
  EXPECT_EQ(error_of({.temperature = NAN}).key, "sampling.temperature");
  EXPECT_EQ(error_of({.temperature = -1}).key, "sampling.temperature");
  EXPECT_EQ(error_of({.temperature = HUGE_VALF}).key, "sampling.temperature");
  EXPECT_EQ(error_of({.top_p = 0}).key, "sampling.top_p");
  EXPECT_EQ(error_of({.top_p = NAN}).expected, "above 0, at most 1");
  EXPECT_EQ(error_of({.min_p = 1.5f}).key, "sampling.min_p");
  EXPECT_EQ(error_of({.repetition_penalty = 0}).key, "sampling.repetition_penalty");
  EXPECT_TRUE(contains(error_of({.top_k = -2}).message, "-2"));
  EXPECT_EQ(error_of({.presence_penalty = 2.5f}).key, "sampling.presence_penalty");
  EXPECT_EQ(error_of({.presence_penalty = NAN}).expected, "-2..2");
  EXPECT_EQ(error_of({.frequency_penalty = -2.5f}).key, "sampling.frequency_penalty");
  EXPECT_EQ(error_of({.top_logprobs = 21}).key, "sampling.logprobs");
  EXPECT_EQ(error_of({.top_logprobs = -1}).expected, "0..20");
  EXPECT_EQ(error_of({.logit_bias = {{-1, 0}}}).key, "sampling.logit_bias");
  EXPECT_EQ(error_of({.logit_bias = {{1, 100.5f}}}).expected, "a bias of -100..100");
  EXPECT_EQ(error_of({.logit_bias = {{1, NAN}}}).key, "sampling.logit_bias");
  EXPECT_EQ(error_of({.allowed_token_ids = {0, -4}}).key, "sampling.allowed_token_ids");
  const Error twice = expect_error(Code::kInvalidArgument, [] {
    validate(SamplingParams{.logit_bias = {{7, 1}, {3, 1}, {7, 2}}});
  });
  EXPECT_EQ(twice.key, "sampling.logit_bias");
  EXPECT_TRUE(contains(twice.message, "token id 7 twice"));
  validate(SamplingParams{.presence_penalty = -2, .frequency_penalty = 2, .top_logprobs = 20});
  validate(SamplingParams{.logit_bias = {{0, -100}, {1, 100}}, .allowed_token_ids = {4, 4, 0}});
  validate(SamplingParams{});
  EXPECT_TRUE(is_plain({}));
  EXPECT_FALSE(is_plain({.temperature = 0}));
  EXPECT_TRUE(is_plain({.top_logprobs = 20}));
  for (const SamplingParams& p : {SamplingParams{.repetition_penalty = 1.1f},
                                  {.presence_penalty = 0.1f},
                                  {.frequency_penalty = -0.1f},
                                  {.logit_bias = {{1, 1.0f}}},
                                  {.allowed_token_ids = {1}}}) {
    EXPECT_TRUE(has_logit_rules(p));
    EXPECT_FALSE(is_plain(p));
  }
}

void exp_all(const std::vector<float>& in, std::vector<float>& out, int form) {
  const auto loop = [&]() RL_WIDE_INLINE {
    for (size_t i = 0; i < in.size(); ++i) out[i] = wide::exp(in[i]);
  };
#if defined(__x86_64__)
  if (form == 1 && __builtin_cpu_supports("avx2")) return wide::run_avx2(loop);
  if (form == 2 && __builtin_cpu_supports("avx512vl")) return wide::run_avx512(loop);
#endif
  if (form == 3) return wide::run(loop);
  loop();
}

TEST(WideExp, IsWithinTwoUlpAndTheSameInEveryForm) {
  std::vector<float> in;
  for (float x = -86.9f; x < 88.0f; x += 0.00917f) in.push_back(x);
  std::vector<float> out(in.size());
  std::vector<float> other(in.size());
  exp_all(in, out, 0);
  for (size_t i = 0; i < in.size(); ++i) {
    const double exact = std::exp(static_cast<double>(in[i]));
    // An fp32 ulp is at most 2^-23 of the value.
    EXPECT_NEAR(out[i], exact, exact * std::ldexp(2.0, -23)) << in[i];
  }
  for (int form = 1; form <= 3; ++form) {
    exp_all(in, other, form);
    EXPECT_EQ(out, other) << form;
  }
  EXPECT_EQ(wide::exp(0.0f), 1.0f);
  EXPECT_EQ(wide::exp(-0.0f), 1.0f);
  EXPECT_EQ(wide::exp(-HUGE_VALF), 0.0f);
  EXPECT_EQ(wide::exp(-88.0f), 0.0f);
  EXPECT_TRUE(std::isnan(wide::exp(NAN)));
}

}  // namespace
}  // namespace rl
