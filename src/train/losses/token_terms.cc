// loss = sum of w (l_policy + kl_coef * kl + distill_coef * D - entropy_coef * H).
#include "train/losses/token_terms.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "train/losses/minibatch_tokens.h"

namespace rl {

void TokenSums::add(const TokenSums& o) {
  loss += o.loss;
  pg_loss += o.pg_loss;
  kl_loss += o.kl_loss;
  distill_loss += o.distill_loss;
  entropy += o.entropy;
  neg_log_ratio += o.neg_log_ratio;
  k3 += o.k3;
  kl += o.kl;
  distill += o.distill;
  ratio_max = std::max(ratio_max, o.ratio_max);
  tokens += o.tokens;
  clipped += o.clipped;
  dual_clipped += o.dual_clipped;
}

void TokenSums::set_policy(const PolicyLossSums& policy) {
  pg_loss = policy.loss;
  neg_log_ratio = policy.neg_log_ratio;
  k3 = policy.k3;
  ratio_max = policy.ratio_max;
  tokens = policy.num_tokens;
  clipped = policy.num_clipped;
  dual_clipped = policy.num_dual_clipped;
}

void TokenTerms::clear() {
  item_.clear();
  for (auto* v : {&logprob_, &old_logprob_, &ref_logprob_, &entropy_, &advantage_}) v->clear();
  for (auto* v : {&weight_, &correction_, &policy_gradient_, &distill_}) v->clear();
}

void TokenTerms::push(const LossToken& t) {
  item_.push_back(t.item);
  logprob_.push_back(t.logprob);
  old_logprob_.push_back(t.old_logprob);
  ref_logprob_.push_back(t.ref_logprob);
  entropy_.push_back(t.entropy);
  advantage_.push_back(t.advantage);
  weight_.push_back(t.weight);
  correction_.push_back(t.correction);
  policy_gradient_.push_back(t.policy_gradient);
  distill_.push_back(t.distill);
}

TokenSums TokenTerms::sum(const TrainerOptions& o, size_t first, size_t count,
                          std::span<double> gradient) const {
  const auto part = [&](const auto& v) { return std::span(v).subspan(first, count); };
  TokenSums s;
  if (is_minibatch_loss(o)) {
    std::ranges::copy(part(policy_gradient_), gradient.begin());
  } else if (o.objective == Objective::kSft) {
    const PolicyLossParams plain{.kind = PolicyLoss::kNone};
    s.set_policy(policy_loss(
        plain, {part(logprob_), part(old_logprob_), part(advantage_), part(weight_)}, gradient));
  } else {
    s.set_policy(policy_loss(
        o.policy_loss,
        {part(logprob_), part(old_logprob_), part(advantage_), part(weight_), part(correction_)},
        gradient));
  }
  if (o.kl_in_loss) {
    const KlLossSums kl = kl_loss(o.kl_estimator,
                                  {part(logprob_), part(ref_logprob_), part(weight_), o.kl_coef,
                                   part(old_logprob_), o.kl_bounds},
                                  gradient);
    s.kl_loss = kl.loss;
    s.kl = kl.value;
  }
  double bonus = 0;
  for (size_t i = first; i < first + count; ++i) {
    if (weight_[i] == 0) continue;
    s.entropy += entropy_[i];
    bonus += weight_[i] * entropy_[i];
    s.distill += distill_[i];
    s.distill_loss += o.distill.coef * weight_[i] * distill_[i];
  }
  s.loss = s.pg_loss + s.kl_loss - o.entropy_coef * bonus + s.distill_loss;
  return s;
}

TokenSums TokenTerms::compute(const TrainerOptions& o) {
  const size_t n = item_.size();
  gradient_.assign(n, 0.0);
  const TokenSums sums = sum(o, 0, n, gradient_);
  d_logprob_.resize(n);
  d_entropy_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    d_logprob_[i] = static_cast<float>(gradient_[i]);
    d_entropy_[i] = static_cast<float>(-o.entropy_coef * weight_[i]);
  }
  return sums;
}

void TokenTerms::find_non_finite(const TrainerOptions& o, std::vector<int32_t>& items) const {
  for (size_t i = 0; i < item_.size(); ++i) {
    if (!items.empty() && items.back() == item_[i]) continue;
    std::array<double, 1> gradient{};
    const TokenSums s = sum(o, i, 1, gradient);
    if (!std::isfinite(s.loss) || !std::isfinite(gradient[0])) items.push_back(item_[i]);
  }
}

}  // namespace rl
