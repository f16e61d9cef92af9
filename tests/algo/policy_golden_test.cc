// Every case of rl/policy_losses.json: loss and gradient of verl, OpenRLHF and TRL.
#include <algorithm>
#include <limits>
#include <map>

#include "algo/losses/correction.h"
#include "algo/losses/covariance.h"
#include "algo/losses/kl.h"
#include "algo/losses/loss_agg.h"
#include "algo/losses/policy_loss.h"
#include "algo/moments.h"
#include "golden.h"

namespace rl {
namespace {

using golden::Json;
using golden::Rows;
using Floats = std::vector<float>;
using Values = std::vector<double>;

// librl computes in double like the goldens, on inputs exact in fp32; verl and OpenRLHF add 1e-8 to
// some counts.
constexpr double kTolerance = 2e-8;

struct Tokens {
  const Json& c;
  const Json& batch;
  Rows rows;
  std::vector<int32_t> lengths;
  std::vector<uint8_t> mask, selected;
  Floats log_prob, old_log_prob, ref_log_prob, rollout_log_prob, advantage;
  Values weight, correction, gradient;

  Tokens(const Json& golden_case, const Json& b) : c(golden_case), batch(b), rows(b) {
    lengths = rows.lengths();
    log_prob = golden::floats(rows.packed(b["log_prob"]));
    old_log_prob = golden::floats(rows.packed(b["old_log_prob"]));
    ref_log_prob = golden::floats(rows.packed(b["ref_log_prob"]));
    rollout_log_prob = golden::floats(rows.packed(b["rollout_log_prob"]));
    const bool per_token = c["advantages"] == "adv_token";
    advantage = golden::floats(per_token ? rows.packed(b["adv_token"])
                                         : rows.spread(golden::numbers(b["adv_seq"])));
    mask.assign(log_prob.size(), 1);
    weight.resize(log_prob.size());
    gradient.assign(log_prob.size(), 0);
  }
  PolicyLossInput input() const {
    return {log_prob, old_log_prob, advantage, weight, correction, lengths, selected};
  }
  ResponseShape shape() const { return {lengths, mask}; }
  MismatchInput sampling_mismatch() const { return {shape(), old_log_prob, rollout_log_prob}; }

  void set_weights(LossAgg agg, const LossDenominators& d, double factor) {
    token_weights(agg, d, lengths, weight);
    for (double& w : weight) w *= factor;
  }
  void expect(double loss) const {
    golden::expect_close(loss, golden::number(c["loss"]), kTolerance, c["id"]);
    golden::expect_close(gradient, rows.packed(c["grad_log_prob"]), kTolerance, c["id"]);
  }
  // A metric that is a sum over tokens divided by their number.
  void expect_mean(const char* metric, double sum, double count) const {
    if (!c["metrics"].contains(metric)) return;
    golden::expect_close(sum / count, golden::number(c["metrics"][metric]), kTolerance,
                         c["id"].get<std::string>() + " " + metric);
  }
};

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

PolicyLossParams verl_params(const std::string& name, const Json& p) {
  const std::map<std::string, PolicyLoss> kinds{
      {"vanilla", PolicyLoss::kPpoClip}, {"gspo", PolicyLoss::kGspo},
      {"cispo", PolicyLoss::kCispo},     {"geo_mean", PolicyLoss::kGmpo},
      {"sapo", PolicyLoss::kSapo},       {"gpg", PolicyLoss::kGpg},
      {"dppo_tv", PolicyLoss::kDppoTv},  {"dppo_kl", PolicyLoss::kDppoKl},
      {"dro", PolicyLoss::kDro},         {"clip_cov", PolicyLoss::kClipCov},
      {"kl_cov", PolicyLoss::kKlCov},
  };
  PolicyLossParams q{.kind = kinds.at(name),
                     .clip_low = p.value("clip_ratio_low", 0.2),
                     .clip_high = p.value("clip_ratio_high", 0.2)};
  if (name == "vanilla") q.dual_clip = p.value("clip_ratio_c", 3.0);
  if (name == "gspo") q.ratio_log_clamp = 10;
  if (name == "clip_cov" || name == "kl_cov") q.ratio_log_clamp = 0;
  if (name == "dppo_tv" || name == "dppo_kl") q.ratio_cap = p.value("clip_ratio_c", 3.0);
  q.sapo_tau_pos = p.value("tau_pos", 1.0);
  q.sapo_tau_neg = p.value("tau_neg", 1.05);
  q.dro_beta = p.value("dro_beta", 0.1);
  q.kl_cov_coef = p.value("ppo_kl_coef", 1.0);
  return q;
}

double mean_of(const Floats& v) { return moments_of(Values(v.begin(), v.end()), {}).mean; }

void select_tokens(const PolicyLossParams& q, const Json& p, Tokens& t) {
  const size_t n = t.log_prob.size();
  Values cov(n);
  token_covariances({mean_of(t.advantage), mean_of(t.log_prob)}, t.advantage, t.log_prob, cov);
  t.selected.assign(n, 0);
  if (q.kind == PolicyLoss::kKlCov) return select_largest(p["kl_cov_ratio"], cov, t.selected);
  PolicyLossParams ppo = q;
  ppo.kind = PolicyLoss::kPpoClip;
  std::vector<uint8_t> clipped(n);
  for (size_t i = 0; i < n; ++i) {
    const TokenLoss l = token_policy_loss(ppo, t.log_prob[i], t.old_log_prob[i], t.advantage[i]);
    clipped[i] = l.clipped;
  }
  const ClipCovParams c{p["clip_cov_ratio"], p["clip_cov_lb"], p["clip_cov_ub"]};
  select_between(c, {cov, clipped, Values(n, 0.5)}, t.selected);
}

// verl's losses with their own aggregation: sapo ignores the option, geo_mean takes a mean
// over all sequences.
void set_verl_weights(const std::string& name, const Json& p, Tokens& t) {
  const Json& info = p["global_batch_info"];
  LossDenominators d = denominators_of(info, t.batch);
  LossAgg agg = agg_of(p["agg"]);
  if (name == "sapo" || name == "geo_mean") agg = LossAgg::kSeqMeanTokenMean;
  if (name == "geo_mean") d.num_sequences = static_cast<double>(t.lengths.size());
  // verl multiplies by dp_size to undo an averaging over ranks that librl does not do.
  t.set_weights(agg, d, info.value("dp_size", 1.0));
}

void run_verl(const std::string& name, Tokens& t) {
  const Json& p = t.c["params"];
  const PolicyLossParams q = verl_params(name, p);
  set_verl_weights(name, p, t);
  if (p["is_weights"].get<bool>()) t.correction = t.rows.packed(t.batch["is_weights"]);
  if (needs_selection(q.kind)) select_tokens(q, p, t);
  const PolicyLossSums s = policy_loss(q, t.input(), t.gradient);
  t.expect(s.loss);
  const auto n = static_cast<double>(s.num_tokens);
  t.expect_mean("actor/pg_clipfrac", static_cast<double>(s.num_clipped), n);
  t.expect_mean("actor/pg_clipfrac_lower", static_cast<double>(s.num_dual_clipped), n);
  t.expect_mean("actor/ppo_kl", name == "kl_cov" ? s.abs_log_ratio : s.neg_log_ratio, n);
}

// "lo_hi" as two numbers; one number u as 0 and u.
std::pair<double, double> bounds_of(const Json& text) {
  if (!text.is_string()) return {0.0, text.get<double>()};
  const auto s = text.get<std::string>();
  const size_t cut = s.find('_');
  if (cut == std::string::npos) return {0.0, std::stod(s)};
  return {std::stod(s.substr(0, cut)), std::stod(s.substr(cut + 1))};
}

void drop_rejected(const std::vector<uint8_t>& keep, LossAgg agg, Tokens& t) {
  std::vector<int32_t> kept(t.lengths.size());
  size_t next = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    for (int32_t j = 0; j < t.lengths[i]; ++j) kept[i] += keep[next++];
  }
  const LossDenominators d{golden::count(kept), golden::count_non_empty(kept), t.batch["T"]};
  next = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    for (int32_t j = 0; j < t.lengths[i]; ++j, ++next) {
      t.weight[next] = keep[next] ? token_weight(agg, d, kept[i]) : 0.0;
    }
  }
}

// The current policy against the rollout's: old_log_prob plays the rollout's part.
void run_bypass(Tokens& t) {
  const Json& p = t.c["params"];
  const Json& rc = p["rollout_correction"];
  const MismatchInput in{t.shape(), t.log_prob, t.old_log_prob};
  CorrectionParams cp;
  cp.level = parse_correction_level(rc["rollout_is"].get<std::string>());
  cp.high = rc["rollout_is_threshold"];
  Values w(t.log_prob.size());
  const CorrectionSums sums = correction_weights(cp, in, w);
  if (rc.value("rollout_is_batch_normalize", false)) {
    for (double& v : w) v /= correction_mean(cp.level, sums);
  }
  std::vector<uint8_t> keep = t.mask;
  if (rc.contains("rollout_rs")) {
    Rejection r = parse_rejection(rc["rollout_rs"].get<std::string>());
    std::tie(r.low, r.high) = bounds_of(rc["rollout_rs_threshold"]);
    reject(std::vector<Rejection>{r}, in, keep);
  }
  drop_rejected(keep, agg_of(p["agg"]), t);
  PolicyLossParams q{.dual_clip = 3.0};
  if (rc["loss_type"] == "reinforce") {
    q.kind = PolicyLoss::kNone;
    t.correction = w;
  }
  const PolicyLossSums s = policy_loss(q, t.input(), t.gradient);
  t.expect(s.loss);
  t.expect_mean("actor/ppo_kl", s.neg_log_ratio, static_cast<double>(s.num_tokens));
}

void run_reinforce(Tokens& t) {
  t.old_log_prob = t.rollout_log_prob;
  t.set_weights(agg_of(t.c["params"]["agg"]), denominators_of(Json::object(), t.batch), 1.0);
  t.correction = t.rows.packed(t.batch["is_weights"]);
  const PolicyLossSums s = policy_loss({.kind = PolicyLoss::kNone}, t.input(), t.gradient);
  t.expect(s.loss);
  t.expect_mean("actor/ppo_kl", s.neg_log_ratio, static_cast<double>(s.num_tokens));
}

// OpenRLHF's correction: level x mode x gating. A gate keeps the token's own ratio unbounded.
void set_openrlhf_correction(const Json& p, Tokens& t) {
  const double low = p["is_correction_threshold"][0];
  const double high = p["is_correction_threshold"][1];
  const bool whole = p["is_correction_level"] == "seq";
  const bool by_ratio = p["is_correction_gating"] == "ratio";
  const auto n = static_cast<double>(t.log_prob.size());
  t.correction.resize(t.log_prob.size());
  CorrectionParams cp{.level = CorrectionLevel::kToken, .low = low, .high = high};
  if (by_ratio && !whole) {
    if (p["is_correction_mode"] == "mask") cp.mode = CorrectionMode::kIcepop;
    const CorrectionSums s = correction_weights(cp, t.sampling_mismatch(), t.correction);
    return t.expect_mean("is_filter_ratio", s.num_below + s.num_above, n);
  }
  cp.low = 0;
  cp.high = std::numeric_limits<double>::infinity();
  correction_weights(cp, t.sampling_mismatch(), t.correction);
  Rejection r{.level = whole ? RejectLevel::kSeqMean : RejectLevel::kToken, .high = high};
  // Bounds of k1 are those of the inverse ratio.
  if (by_ratio) r = {.level = r.level, .low = 1 / high, .high = 1 / low};
  if (p["is_correction_gating"] == "binary_kl") r.statistic = RejectStatistic::kBinaryKl;
  if (p["is_correction_gating"] == "tv") r.statistic = RejectStatistic::kTv;
  std::vector<uint8_t> keep(t.log_prob.size());
  const RejectionSums s = reject(std::vector<Rejection>{r}, t.sampling_mismatch(), keep);
  for (size_t i = 0; i < keep.size(); ++i) t.correction[i] *= keep[i];
  t.expect_mean("is_filter_ratio", whole ? s.num_touched : s.num_rejected,
                whole ? s.num_sequences : n);
}

void run_openrlhf(Tokens& t) {
  const Json& p = t.c["params"];
  const bool gspo = p.value("policy_loss_type", "ppo") == "gspo";
  PolicyLossParams q{.clip_low = p.value("clip_eps_low", 0.2),
                     .clip_high = p.value("clip_eps_high", 0.2),
                     .dual_clip = p.value("dual_clip", 0.0)};
  if (gspo) {
    q.kind = PolicyLoss::kGspo;
    q.ratio_log_clamp = 0;
    q.gspo_gradient = GspoGradient::kSequence;
  }
  const bool token_level = !gspo && p.value("token_level_loss", true);
  t.set_weights(token_level ? LossAgg::kTokenMean : LossAgg::kSeqMeanTokenMean,
                denominators_of(p["totals"], t.batch), p["totals"].value("dp_size", 1.0));
  if (p.contains("is_correction_level")) set_openrlhf_correction(p, t);
  const PolicyLossSums s = policy_loss(q, t.input(), t.gradient);
  t.expect(s.loss);
  const auto n = static_cast<double>(s.num_tokens);
  t.expect_mean("clip_ratio", static_cast<double>(s.num_clipped), n);
  // OpenRLHF's metric takes the log-ratio without the clamp of its loss, which "extreme" reaches.
  if (t.c["batch"] != "extreme") t.expect_mean("ppo_kl", s.neg_log_ratio, n);
  if (p.contains("is_correction_level")) {
    t.expect_mean("vllm_kl", mismatch(t.sampling_mismatch()).neg_log_ratio, n);
  }
}

// TRL's loss types as aggregations; its sequence means count empty sequences. luspo weights a
// sequence's loss by its length, which is a sum over its tokens.
LossAgg trl_agg(const std::string& name) {
  if (name == "grpo" || name == "sapo") return LossAgg::kSeqMeanTokenMean;
  if (name == "luspo") return LossAgg::kSeqMeanTokenSum;
  if (name == "dr_grpo") return LossAgg::kSeqMeanTokenSumNorm;
  return LossAgg::kTokenMean;
}

PolicyLossParams trl_params(const std::string& name, const Json& p) {
  PolicyLossParams q{.clip_low = p["eps_low"], .clip_high = p["eps_high"], .ratio_log_clamp = 0};
  if (!p["delta"].is_null()) q.ratio_cap = p["delta"];
  if (p["level"] == "sequence") {
    q.kind = PolicyLoss::kGspo;
    q.gspo_gradient = GspoGradient::kSequence;
  }
  if (name == "cispo") {  // an upper bound only, and the number is the bound
    q.kind = PolicyLoss::kCispo;
    q.clip_low = 1;
    q.clip_high = p["eps_high"].get<double>() - 1;
  }
  if (name == "sapo") {
    q.kind = PolicyLoss::kSapo;
    q.sapo_tau_pos = p["tau_pos"].get<float>();  // TRL keeps them in fp32
    q.sapo_tau_neg = p["tau_neg"].get<float>();
  }
  return q;
}

void apply_opsm(const Json& p, Tokens& t) {
  std::vector<uint8_t> keep(t.log_prob.size());
  opsm(p["off_policy_mask_threshold"],
       {t.shape(), t.rollout_log_prob, t.log_prob, golden::numbers(t.batch["adv_seq"])}, keep);
  if (t.correction.empty()) t.correction.assign(keep.size(), 1.0);
  for (size_t i = 0; i < keep.size(); ++i) t.correction[i] *= keep[i];
}

void run_trl(const std::string& name, Tokens& t) {
  const Json& p = t.c["params"];
  const LossDenominators d{golden::count(t.lengths), static_cast<double>(t.lengths.size()),
                           p["max_completion_length"]};
  t.set_weights(trl_agg(name), d, 1.0 / p["grad_accum"].get<double>());
  if (p["is_weights"].get<bool>()) t.correction = t.rows.packed(t.batch["is_weights"]);
  if (!p["off_policy_mask_threshold"].is_null()) apply_opsm(p, t);
  const PolicyLossSums s = policy_loss(trl_params(name, p), t.input(), t.gradient);
  KlLossInput kl_in{t.log_prob, t.ref_log_prob, t.weight, p["beta"], t.old_log_prob, {}};
  if (p["use_bias_correction_kl"].get<bool>()) kl_in.bounds.ratio = KlRatio::kFull;
  const KlLossSums kl = kl_loss({KlKind::kK3}, kl_in, t.gradient);
  t.expect(s.loss + kl.loss);
  const auto n = static_cast<double>(s.num_tokens);
  t.expect_mean("kl", kl.value, n);
  if (p["level"] == "token" && p["delta"].is_null()) {
    t.expect_mean("clip_ratio/region_mean", static_cast<double>(s.num_clipped), n);
  }
}

TEST(PolicyGolden, LossAndGradientOfEveryCaseMatch) {
  const Json data = golden::load("rl/policy_losses.json");
  golden::Tally tally("rl/policy_losses.json", data["cases"].size());
  for (const Json& c : data["cases"]) {
    const auto name = c["loss_name"].get<std::string>();
    if (name == "vespo") {
      tally.leave_out("vespo (TRL): no value of algo.policy_loss");
      continue;
    }
    Tokens t(c, data["batches"][c["batch"].get<std::string>()]);
    if (name == "bypass_mode") {
      run_bypass(t);
    } else if (name == "reinforce") {
      run_reinforce(t);
    } else if (c["source"] == "verl") {
      run_verl(name, t);
    } else if (c["source"] == "openrlhf") {
      run_openrlhf(t);
    } else {
      run_trl(name, t);
    }
    tally.done();
  }
}

}  // namespace
}  // namespace rl
