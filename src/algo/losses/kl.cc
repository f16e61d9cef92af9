// Token formulas in double.
#include "algo/losses/kl.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr double kExponentLimit = 20.0;
constexpr double kValueLimit = 10.0;

constexpr std::array<Choice<KlKind>, 5> kKinds{{
    {KlKind::kK1, "k1"},
    {KlKind::kK2, "k2"},
    {KlKind::kK3, "k3"},
    {KlKind::kLowVar, "low_var"},
    {KlKind::kAbs, "abs"},
}};

KlTerm low_var(double d) {
  const double x = std::clamp(-d, -kExponentLimit, kExponentLimit);
  const double value = std::exp(x) - x - 1;
  const bool active = x != -d || value > kValueLimit;
  return {std::min(value, kValueLimit), active ? 0.0 : 1 - std::exp(x)};
}

KlTerm plain_term(KlKind kind, double d) {
  switch (kind) {
    case KlKind::kK1:
      return {d, 1};
    case KlKind::kK2:
      return {d * d / 2, d};
    case KlKind::kK3:
      return {std::exp(-d) - 1 + d, 1 - std::exp(-d)};
    case KlKind::kLowVar:
      return low_var(d);
    case KlKind::kAbs:
      return {std::abs(d), static_cast<double>((d > 0) - (d < 0))};
  }
  RL_CHECK(false && "unknown KlKind");
  return {};
}

}  // namespace

std::string kl_estimator_name(KlEstimator v) {
  return std::string(choice_name(kKinds, v.kind)) + (v.straight_through ? "+" : "");
}

KlEstimator parse_kl_estimator(std::string_view text) {
  const bool straight_through = text.ends_with('+');
  const std::string_view kind = straight_through ? text.substr(0, text.size() - 1) : text;
  return {parse_choice("algo.kl.estimator", kKinds, kind), straight_through};
}

KlTerm kl_term(KlEstimator estimator, double log_prob, double ref_log_prob) {
  const double d = log_prob - ref_log_prob;
  KlTerm term = plain_term(estimator.kind, d);
  if (estimator.straight_through) term.gradient = d;
  return term;
}

KlTerm kl_term(KlEstimator estimator, const KlBounds& bounds, double log_prob, double ref_log_prob,
               double old_log_prob) {
  KlTerm term = kl_term(estimator, log_prob, ref_log_prob);
  if (bounds.value_clamp > 0 && std::abs(term.value) > bounds.value_clamp) {
    term.value = std::copysign(bounds.value_clamp, term.value);
    if (!estimator.straight_through) term.gradient = 0;
  }
  if (bounds.ratio == KlRatio::kNone) return term;
  const double ratio = std::exp(log_prob - old_log_prob);
  if (bounds.ratio == KlRatio::kFull) {
    return {ratio * term.value, ratio * (term.gradient + term.value)};
  }
  const bool capped = bounds.ratio_cap > 0 && ratio > bounds.ratio_cap;
  term.gradient *= capped ? bounds.ratio_cap : ratio;
  return term;
}

KlLossSums kl_loss(KlEstimator estimator, const KlLossInput& in, std::span<double> gradient) {
  const size_t n = in.log_prob.size();
  require_value(in.coef >= 0 && std::isfinite(in.coef), "algo.kl.coef", in.coef,
                "a finite value of at least 0");
  require_same_size("ref_log_prob", in.ref_log_prob.size(), n);
  require_same_size("weight", in.weight.size(), n);
  require_same_size("gradient", gradient.size(), n);
  require_value(in.bounds.value_clamp >= 0, "value_clamp", in.bounds.value_clamp, "at least 0");
  require_value(in.bounds.ratio_cap >= 0, "ratio_cap", in.bounds.ratio_cap, "at least 0");
  const bool with_old = in.bounds.ratio != KlRatio::kNone;
  if (with_old) require_same_size("old_log_prob", in.old_log_prob.size(), n);
  KlLossSums sums;
  for (size_t i = 0; i < n; ++i) {
    if (in.weight[i] == 0) continue;
    const KlTerm term = kl_term(estimator, in.bounds, in.log_prob[i], in.ref_log_prob[i],
                                with_old ? in.old_log_prob[i] : 0.0f);
    const double scale = in.coef * in.weight[i];
    sums.loss += scale * term.value;
    sums.value += term.value;
    gradient[i] += scale * term.gradient;
  }
  return sums;
}

}  // namespace rl
