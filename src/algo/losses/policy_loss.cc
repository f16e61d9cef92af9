// Names, checks, and the token loop that all token losses share.
#include "algo/losses/policy_loss.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "algo/choice.h"
#include "algo/losses/sequence_loss.h"

namespace rl {
namespace {

constexpr std::array<Choice<PolicyLoss>, 13> kPolicyLosses{{
    {PolicyLoss::kPpoClip, "ppo_clip"},
    {PolicyLoss::kNone, "none"},
    {PolicyLoss::kGspo, "gspo"},
    {PolicyLoss::kCispo, "cispo"},
    {PolicyLoss::kSapo, "sapo"},
    {PolicyLoss::kGmpo, "gmpo"},
    {PolicyLoss::kGpg, "gpg"},
    {PolicyLoss::kDppoTv, "dppo_tv"},
    {PolicyLoss::kDppoKl, "dppo_kl"},
    {PolicyLoss::kClipCov, "clip_cov"},
    {PolicyLoss::kKlCov, "kl_cov"},
    {PolicyLoss::kDro, "dro"},
    {PolicyLoss::kCustom, "custom"},
}};

void require_positive(std::string_view key, double value) {
  require_value(value > 0 && std::isfinite(value), key, value, "a finite value above 0");
}

void check_input(const PolicyLossParams& params, const PolicyLossInput& in, size_t gradient_size) {
  const size_t n = in.log_prob.size();
  require_same_size("old_log_prob", in.old_log_prob.size(), n);
  require_same_size("advantage", in.advantage.size(), n);
  require_same_size("weight", in.weight.size(), n);
  require_same_size("gradient", gradient_size, n);
  if (!in.correction.empty()) require_same_size("correction", in.correction.size(), n);
  if (needs_selection(params.kind)) require_same_size("selected", in.selected.size(), n);
  if (!is_sequence_loss(params.kind)) return;
  size_t sum = 0;
  for (const int32_t length : in.lengths) {
    require_value(length >= 0, "lengths", length, "at least 0");
    sum += static_cast<size_t>(length);
  }
  require_same_size("lengths (summed)", sum, n);
}

}  // namespace

std::string_view policy_loss_name(PolicyLoss v) { return choice_name(kPolicyLosses, v); }
PolicyLoss parse_policy_loss(std::string_view text) {
  return parse_choice("algo.policy_loss", kPolicyLosses, text);
}

bool is_sequence_loss(PolicyLoss kind) {
  return kind == PolicyLoss::kGspo || kind == PolicyLoss::kGmpo;
}

bool needs_selection(PolicyLoss kind) {
  return kind == PolicyLoss::kClipCov || kind == PolicyLoss::kKlCov;
}

void validate(const PolicyLossParams& p) {
  require_value(p.clip_low >= 0 && p.clip_low <= 1, "algo.clip_low", p.clip_low, "0..1");
  require_value(p.clip_high >= 0 && std::isfinite(p.clip_high), "algo.clip_high", p.clip_high,
                "a finite value of at least 0");
  require_value(p.dual_clip == 0 || (p.dual_clip > 1 && std::isfinite(p.dual_clip)),
                "algo.dual_clip", p.dual_clip, "0 (off) or a finite value above 1");
  require_value(p.ratio_log_clamp >= 0 && std::isfinite(p.ratio_log_clamp), "algo.ratio_log_clamp",
                p.ratio_log_clamp, "0 (off) or a finite value above 0");
  require_value(p.ratio_cap == 0 || (p.ratio_cap >= 1 && std::isfinite(p.ratio_cap)),
                "algo.ratio_cap", p.ratio_cap, "0 (off) or a finite value of at least 1");
  require_positive("algo.sapo_tau_pos", p.sapo_tau_pos);
  require_positive("algo.sapo_tau_neg", p.sapo_tau_neg);
  require_positive("algo.dro_beta", p.dro_beta);
  require_value(p.kl_cov_coef >= 0 && std::isfinite(p.kl_cov_coef), "algo.kl_cov_coef",
                p.kl_cov_coef, "a finite value of at least 0");
}

void PolicyLossSums::count(const TokenLoss& t) {
  const double ratio = std::exp(t.log_ratio);
  ++num_tokens;
  num_clipped += t.clipped;
  num_dual_clipped += t.dual_clipped;
  neg_log_ratio -= t.log_ratio;
  k3 += ratio - 1 - t.log_ratio;
  ratio_max = std::max(ratio_max, ratio);
  abs_log_ratio += std::abs(t.log_ratio);
}

PolicyLossSums policy_loss(const PolicyLossParams& params, const PolicyLossInput& in,
                           std::span<double> gradient) {
  validate(params);
  check_input(params, in, gradient.size());
  if (is_sequence_loss(params.kind)) return sequence_policy_loss(params, in, gradient);
  const bool select = needs_selection(params.kind);
  PolicyLossSums sums;
  for (size_t i = 0; i < in.log_prob.size(); ++i) {
    if (in.weight[i] == 0) continue;
    const TokenLoss t = token_policy_loss(params, in.log_prob[i], in.old_log_prob[i],
                                          in.advantage[i], select && in.selected[i] != 0);
    sums.count(t);
    const double scale = in.correction.empty() ? in.weight[i] : in.weight[i] * in.correction[i];
    if (scale == 0) continue;
    sums.loss += scale * t.value;
    gradient[i] += scale * t.gradient;
  }
  return sums;
}

}  // namespace rl
