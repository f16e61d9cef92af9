// Plain loops in double, in id order.
#include "algo/losses/distill.h"

#include <array>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<DistillKl>, 3> kKls{{
    {DistillKl::kForward, "forward"},
    {DistillKl::kReverse, "reverse"},
    {DistillKl::kMixed, "mixed"},
}};

// log m - log p and log m - log q of the mixture m = beta q + (1 - beta) p. Both are 0 exactly
// where p is q, and no exponential overflows.
struct Mixture {
  double over_p, over_q;
};
Mixture mixture(double beta, double log_p, double log_q) {
  const double gap = log_q - log_p;
  const double less = std::expm1(-std::abs(gap));
  if (gap > 0) {
    const double over_q = std::log1p((1 - beta) * less);
    return {over_q + gap, over_q};
  }
  const double over_p = std::log1p(beta * less);
  return {over_p, over_p - gap};
}

struct RowSums {
  double value;  // of the loss
  double own;    // sum p (log p - log b), b = q or m, subtracted in the derivative
};

// log_p and log_q are functions of the id. NaN propagates; probability 0 adds nothing.
template <typename P, typename Q>
RowSums row_sums(const DistillParams& params, size_t n, const P& log_p, const Q& log_q) {
  double from_p = 0, from_q = 0;
  for (size_t i = 0; i < n; ++i) {
    const double lp = log_p(i), lq = log_q(i);
    if (params.kind == DistillKl::kForward) {
      const double q = std::exp(lq);
      if (q != 0) from_q += q * (lq - lp);
      continue;
    }
    const double p = std::exp(lp);
    if (params.kind == DistillKl::kReverse) {
      if (p != 0) from_p += p * (lp - lq);
      continue;
    }
    const Mixture m = mixture(params.beta, lp, lq);
    const double q = std::exp(lq);
    if (p != 0) from_p -= p * m.over_p;
    if (q != 0) from_q -= q * m.over_q;
  }
  switch (params.kind) {
    case DistillKl::kForward:
      return {from_q, 0};
    case DistillKl::kReverse:
      return {from_p, from_p};
    case DistillKl::kMixed:
      break;
  }
  return {params.beta * from_q + (1 - params.beta) * from_p, from_p};
}

double derivative(const DistillParams& params, double own, double log_p, double log_q) {
  const double p = std::exp(log_p);
  if (params.kind == DistillKl::kForward) return p - std::exp(log_q);
  if (p == 0) return 0;
  if (params.kind == DistillKl::kReverse) return p * (log_p - log_q - own);
  return (1 - params.beta) * p * (-mixture(params.beta, log_p, log_q).over_p - own);
}

}  // namespace

std::string_view distill_kl_name(DistillKl v) { return choice_name(kKls, v); }
DistillKl parse_distill_kl(std::string_view text) {
  return parse_choice("algo.distill.kl", kKls, text);
}

void validate(const DistillParams& p) {
  if (p.kind != DistillKl::kMixed) return;
  require_value(p.beta > 0 && p.beta < 1, "algo.distill.beta", p.beta, "above 0, below 1");
}

double distill_row(const DistillParams& params, std::span<const double> log_p,
                   std::span<const double> log_q, double scale, std::span<double> gradient) {
  validate(params);
  require_same_size("teacher_log_probs", log_q.size(), log_p.size());
  require_same_size("gradient", gradient.size(), log_p.size());
  const auto p = [&](size_t i) { return log_p[i]; };
  const auto q = [&](size_t i) { return log_q[i]; };
  const RowSums sums = row_sums(params, log_p.size(), p, q);
  if (!std::isfinite(sums.value)) {
    throw Error(Code::kNonFinite, str("the ", distill_kl_name(params.kind),
                                      " KL of student and teacher is not finite"))
        .with_key("algo.distill.kl");
  }
  for (size_t i = 0; i < log_p.size(); ++i) {
    gradient[i] += scale * derivative(params, sums.own, log_p[i], log_q[i]);
  }
  return sums.value;
}

double distill_logits(const DistillParams& params, const DistillLogits& rows, double scale) {
  require_same_size("teacher", rows.teacher.size(), rows.student.size());
  const auto log_prob = [](float z, const DistillNorm& n) { return (z - n.max) - n.log_sum; };
  const auto p = [&](size_t i) -> double { return log_prob(rows.student[i], rows.student_norm); };
  const auto q = [&](size_t i) -> double { return log_prob(rows.teacher[i], rows.teacher_norm); };
  const RowSums sums = row_sums(params, rows.student.size(), p, q);
  for (size_t i = 0; i < rows.student.size(); ++i) {
    rows.teacher[i] = static_cast<float>(scale * derivative(params, sums.own, p(i), q(i)));
  }
  return sums.value;
}

double distill_top(std::span<const float> log_p, std::span<const float> log_q, double scale,
                   std::span<double> gradient) {
  require_same_size("teacher_log_probs", log_q.size(), log_p.size());
  require_same_size("gradient", gradient.size(), log_p.size());
  double value = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    if (std::isinf(log_q[i])) continue;
    const double q = std::exp(static_cast<double>(log_q[i]));
    value += q * (static_cast<double>(log_q[i]) - log_p[i]);
    gradient[i] -= scale * q;
  }
  return value;
}

void add_distill_advantage(double coef, const DistillTokens& in, std::span<double> advantage) {
  require_value(coef >= 0 && std::isfinite(coef), "algo.distill.coef", coef,
                "a finite value of at least 0");
  const size_t n = advantage.size();
  require_same_size("student_log_prob", in.student_log_prob.size(), n);
  require_same_size("teacher_log_prob", in.teacher_log_prob.size(), n);
  require_same_size("mask", in.mask.size(), n);
  for (size_t t = 0; t < n; ++t) {
    if (in.mask[t] == 0) continue;
    advantage[t] -= coef * (static_cast<double>(in.student_log_prob[t]) - in.teacher_log_prob[t]);
  }
}

}  // namespace rl
