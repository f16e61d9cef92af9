#include "algo/policy_loss.h"

#include <algorithm>
#include <set>

#include "algo/kl.h"
#include "algo/loss_agg.h"
#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using golden::Json;
using golden::Rows;

// librl computes in double like the goldens, on inputs exact in fp32; verl and OpenRLHF add 1e-8 to
// some counts.
constexpr double kTolerance = 2e-8;

struct Tokens {
  std::vector<float> log_prob, old_log_prob, ref_log_prob, advantage;
  std::vector<double> weight, gradient;

  PolicyLossInput input() const { return {log_prob, old_log_prob, advantage, weight}; }
};

Tokens tokens_of(const Json& c, const Json& batch) {
  const Rows rows(batch);
  Tokens t;
  t.log_prob = golden::floats(rows.packed(batch["log_prob"]));
  t.old_log_prob = golden::floats(rows.packed(batch["old_log_prob"]));
  t.ref_log_prob = golden::floats(rows.packed(batch["ref_log_prob"]));
  t.advantage = golden::floats(c["advantages"] == "adv_token"
                                   ? rows.packed(batch["adv_token"])
                                   : rows.spread(golden::numbers(batch["adv_seq"])));
  t.weight.resize(t.log_prob.size());
  t.gradient.assign(t.log_prob.size(), 0);
  return t;
}

void multiply(std::vector<double>& weights, const std::vector<double>& by) {
  for (size_t i = 0; i < weights.size(); ++i) weights[i] *= by[i];
}

void multiply(std::vector<double>& weights, double by) {
  for (double& w : weights) w *= by;
}

LossDenominators denominators_of(const Json& info, const Json& batch) {
  const std::vector<int32_t> lengths = Rows(batch).lengths();
  LossDenominators d{golden::count(lengths), golden::count_non_empty(lengths), batch["T"]};
  if (info.contains("batch_num_tokens")) d.num_tokens = info["batch_num_tokens"];
  if (info.contains("global_batch_size")) d.num_sequences = info["global_batch_size"];
  if (info.contains("loss_scale_factor")) d.scale_factor = info["loss_scale_factor"];
  return d;
}

LossAgg agg_of(std::string mode) {
  std::replace(mode.begin(), mode.end(), '-', '_');
  return parse_loss_agg(mode);
}

void expect_gradient(const Tokens& t, const Json& c, const Json& batch) {
  golden::expect_close(t.gradient, Rows(batch).packed(c["grad_log_prob"]), kTolerance, c["id"]);
}

// A fraction as verl reports it: over the number of tokens plus 1e-8.
void expect_fraction(double sum, const PolicyLossSums& s, const Json& expected,
                     const std::string& what) {
  golden::expect_close(sum / static_cast<double>(s.num_tokens), golden::number(expected),
                       kTolerance, what);
}

TEST(PolicyLoss, MatchesEveryVerlVanillaCase) {
  const Json data = golden::load("rl/policy_losses.json");
  int compared = 0;
  int clipped = 0;
  int dual_clipped = 0;
  std::set<std::string> modes;
  for (const Json& c : data["cases"]) {
    if (c["source"] != "verl" || c["loss_name"] != "vanilla") continue;
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    const Json& p = c["params"];
    const Json& info = p["global_batch_info"];
    const PolicyLossParams params{.clip_low = p.value("clip_ratio_low", 0.2),
                                  .clip_high = p.value("clip_ratio_high", 0.2),
                                  .dual_clip = p.value("clip_ratio_c", 3.0)};
    Tokens t = tokens_of(c, batch);
    modes.insert(p["agg"]);
    token_weights(agg_of(p["agg"]), denominators_of(info, batch), Rows(batch).lengths(), t.weight);
    // verl multiplies by dp_size to undo an averaging over ranks that librl does not do.
    multiply(t.weight, info.value("dp_size", 1.0));
    if (p["is_weights"].get<bool>()) multiply(t.weight, Rows(batch).packed(batch["is_weights"]));
    const PolicyLossSums s = policy_loss(params, t.input(), t.gradient);
    golden::expect_close(s.loss, golden::number(c["loss"]), kTolerance, c["id"]);
    expect_gradient(t, c, batch);
    expect_fraction(static_cast<double>(s.num_clipped), s, c["metrics"]["actor/pg_clipfrac"],
                    c["id"]);
    expect_fraction(static_cast<double>(s.num_dual_clipped), s,
                    c["metrics"]["actor/pg_clipfrac_lower"], c["id"]);
    expect_fraction(s.neg_log_ratio, s, c["metrics"]["actor/ppo_kl"], c["id"]);
    clipped += s.num_clipped > 0;
    dual_clipped += s.num_dual_clipped > 0;
    ++compared;
  }
  EXPECT_EQ(compared, 29);
  EXPECT_EQ(modes.size(), 5u);
  EXPECT_GE(clipped, 20);
  EXPECT_GE(dual_clipped, 5);
}

TEST(PolicyLoss, MatchesVerlGpgWithPlainLogProb) {
  const Json data = golden::load("rl/policy_losses.json");
  int compared = 0;
  for (const Json& c : data["cases"]) {
    if (c["source"] != "verl" || c["loss_name"] != "gpg") continue;
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    Tokens t = tokens_of(c, batch);
    token_weights(agg_of(c["params"]["agg"]), denominators_of({}, batch), Rows(batch).lengths(),
                  t.weight);
    const PolicyLossSums s = policy_loss({.kind = PolicyLoss::kNone}, t.input(), t.gradient);
    golden::expect_close(s.loss, golden::number(c["loss"]), kTolerance, c["id"]);
    expect_gradient(t, c, batch);
    ++compared;
  }
  EXPECT_EQ(compared, 6);
}

// OpenRLHF ppo without its importance-sampling corrections.
TEST(PolicyLoss, MatchesOpenRlhfPpo) {
  const Json data = golden::load("rl/policy_losses.json");
  int compared = 0;
  for (const Json& c : data["cases"]) {
    const Json& p = c["params"];
    if (c["source"] != "openrlhf" || c["loss_name"] != "ppo" || p.contains("is_correction_level"))
      continue;
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    const PolicyLossParams params{.clip_low = p.value("clip_eps_low", 0.2),
                                  .clip_high = p.value("clip_eps_high", 0.2),
                                  .dual_clip = p.value("dual_clip", 0.0)};
    Tokens t = tokens_of(c, batch);
    const LossAgg agg =
        p.value("token_level_loss", true) ? LossAgg::kTokenMean : LossAgg::kSeqMeanTokenMean;
    token_weights(agg, denominators_of(p["totals"], batch), Rows(batch).lengths(), t.weight);
    multiply(t.weight, p["totals"].value("dp_size", 1.0));
    const PolicyLossSums s = policy_loss(params, t.input(), t.gradient);
    golden::expect_close(s.loss, golden::number(c["loss"]), kTolerance, c["id"]);
    expect_gradient(t, c, batch);
    ++compared;
  }
  EXPECT_EQ(compared, 13);
}

struct TrlAgg {
  LossAgg agg;
  LossDenominators denominators;
};

// TRL's loss types as aggregations; grpo's and dr_grpo's B counts empty sequences.
TrlAgg trl_agg(const std::string& loss_type, const Json& params, const Json& batch) {
  const std::vector<int32_t> lengths = Rows(batch).lengths();
  const auto rows = static_cast<double>(lengths.size());
  const LossDenominators d{golden::count(lengths), rows, params["max_completion_length"]};
  if (loss_type == "grpo") return {LossAgg::kSeqMeanTokenMean, d};
  if (loss_type == "dr_grpo") return {LossAgg::kSeqMeanTokenSumNorm, d};
  return {LossAgg::kTokenMean, d};
}

bool trl_in_scope(const Json& c) {
  const std::set<std::string> types{"grpo", "bnpo", "dr_grpo", "dapo"};
  const Json& p = c["params"];
  return c["source"] == "trl" && types.contains(c["loss_name"]) && p["level"] == "token" &&
         p["delta"].is_null() && p["off_policy_mask_threshold"].is_null() &&
         !p["use_bias_correction_kl"].get<bool>();
}

// Token-level TRL losses, with beta through the plain k3; no ratio clamp.
TEST(PolicyLoss, MatchesTrlTokenLevelLossesWithK3) {
  const Json data = golden::load("rl/policy_losses.json");
  int compared = 0;
  int with_kl = 0;
  for (const Json& c : data["cases"]) {
    if (!trl_in_scope(c)) continue;
    const Json& batch = data["batches"][c["batch"].get<std::string>()];
    const Json& p = c["params"];
    const PolicyLossParams params{
        .clip_low = p["eps_low"], .clip_high = p["eps_high"], .ratio_log_clamp = 0};
    Tokens t = tokens_of(c, batch);
    const TrlAgg a = trl_agg(c["loss_name"], p, batch);
    token_weights(a.agg, a.denominators, Rows(batch).lengths(), t.weight);
    multiply(t.weight, 1.0 / p["grad_accum"].get<double>());
    const PolicyLossSums s = policy_loss(params, t.input(), t.gradient);
    const KlLossSums kl =
        kl_loss({KlKind::kK3}, {t.log_prob, t.ref_log_prob, t.weight, p["beta"]}, t.gradient);
    golden::expect_close(s.loss + kl.loss, golden::number(c["loss"]), kTolerance, c["id"]);
    expect_gradient(t, c, batch);
    if (c["metrics"].contains("kl")) {
      golden::expect_close(kl.value / static_cast<double>(s.num_tokens),
                           golden::number(c["metrics"]["kl"]), kTolerance, c["id"]);
      ++with_kl;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 15);
  EXPECT_EQ(with_kl, 2);
}

TEST(PolicyLoss, FirstStepAfterSamplingHasRatioExactlyOne) {
  for (const float lp : {-0.1f, -3.7f, -21.0f}) {
    const TokenLoss t = token_policy_loss({}, lp, lp, 0.3);
    EXPECT_EQ(t.value, -0.3);
    EXPECT_EQ(t.gradient, -0.3);
    EXPECT_FALSE(t.clipped);
  }
}

TEST(PolicyLoss, AClampedLogRatioHasNoGradient) {
  const TokenLoss above = token_policy_loss({}, 21.0, 0.0, -1.0);
  EXPECT_EQ(above.value, std::exp(20.0));
  EXPECT_EQ(above.gradient, 0.0);
  const TokenLoss open = token_policy_loss({.ratio_log_clamp = 0}, 21.0, 0.0, -1.0);
  EXPECT_EQ(open.gradient, std::exp(21.0));
}

TEST(PolicyLoss, GradientIsTheDerivativeOfTheValue) {
  const PolicyLossParams params{.clip_low = 0.2, .clip_high = 0.28, .dual_clip = 3.0};
  for (const double x : {-21.0, -1.0, -0.1, 0.05, 0.2, 0.5, 1.5, 21.0}) {
    for (const double advantage : {-1.5, 0.75}) {
      const double h = 1e-6;
      const double up = token_policy_loss(params, x + h, 0, advantage).value;
      const double down = token_policy_loss(params, x - h, 0, advantage).value;
      // Central difference: error h^2 times a third derivative below 10, plus rounding 1e-15 / h.
      EXPECT_NEAR(token_policy_loss(params, x, 0, advantage).gradient, (up - down) / (2 * h), 1e-7)
          << x;
    }
  }
}

TEST(PolicyLoss, RefusesBadParametersAndSizes) {
  const auto key_of = [](const PolicyLossParams& p) {
    return expect_error(Code::kOutOfRange, [&] { validate(p); }).key;
  };
  EXPECT_EQ(key_of({.clip_low = 1.5}), "algo.clip_low");
  EXPECT_EQ(key_of({.clip_high = std::nan("")}), "algo.clip_high");
  EXPECT_EQ(key_of({.dual_clip = 1.0}), "algo.dual_clip");
  EXPECT_EQ(key_of({.ratio_log_clamp = -1}), "algo.ratio_log_clamp");
  const std::vector<float> two(2), one(1);
  const std::vector<double> weight(2);
  std::vector<double> gradient(2);
  EXPECT_EQ(expect_error(Code::kInvalidArgument,
                         [&] {
                           policy_loss({}, {two, one, two, weight}, gradient);
                         })
                .key,
            "old_log_prob");
  EXPECT_EQ(parse_policy_loss("none"), PolicyLoss::kNone);
  EXPECT_EQ(policy_loss_name(PolicyLoss::kPpoClip), "ppo_clip");
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [] { parse_policy_loss("ppo"); }).key,
            "algo.policy_loss");
}

}  // namespace
}  // namespace rl
