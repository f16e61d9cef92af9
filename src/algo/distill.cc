// Plain loops in double, in id order.
#include "algo/distill.h"

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

// sum a (log a - log b), with 0 log 0 = 0.
double kl(std::span<const double> log_a, std::span<const double> log_b) {
  double sum = 0;
  for (size_t i = 0; i < log_a.size(); ++i) {
    if (!std::isinf(log_a[i])) sum += std::exp(log_a[i]) * (log_a[i] - log_b[i]);
  }
  return sum;
}

// Log-probs of the mixture; -inf where both are.
double log_mixture(double beta, double log_p, double log_q) {
  return std::log(beta * std::exp(log_q) + (1 - beta) * std::exp(log_p));
}

double mixed(double beta, std::span<const double> log_p, std::span<const double> log_q,
             double scale, std::span<double> gradient) {
  double from_p = 0;
  double from_q = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double log_m = log_mixture(beta, log_p[i], log_q[i]);
    if (!std::isinf(log_p[i])) from_p += std::exp(log_p[i]) * (log_p[i] - log_m);
    if (!std::isinf(log_q[i])) from_q += std::exp(log_q[i]) * (log_q[i] - log_m);
  }
  for (size_t i = 0; i < log_p.size(); ++i) {
    if (std::isinf(log_p[i])) continue;
    const double log_m = log_mixture(beta, log_p[i], log_q[i]);
    gradient[i] += scale * (1 - beta) * std::exp(log_p[i]) * (log_p[i] - log_m - from_p);
  }
  return beta * from_q + (1 - beta) * from_p;
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
  if (params.kind == DistillKl::kMixed) return mixed(params.beta, log_p, log_q, scale, gradient);
  const bool forward = params.kind == DistillKl::kForward;
  const double value = forward ? kl(log_q, log_p) : kl(log_p, log_q);
  if (!std::isfinite(value)) {
    throw Error(Code::kNonFinite, str("the ", distill_kl_name(params.kind),
                                      " KL of student and teacher is not finite"))
        .with_key("algo.distill.kl");
  }
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double p = std::exp(log_p[i]);
    if (forward) {
      gradient[i] += scale * (p - std::exp(log_q[i]));
    } else if (p > 0) {
      gradient[i] += scale * p * (log_p[i] - log_q[i] - value);
    }
  }
  return value;
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
