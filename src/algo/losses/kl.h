// Estimators of KL(policy || reference) from the sampled token's two log-probs, with the gradient
// in the policy's log-prob. d = log_prob - ref_log_prob.
//
//   k1       d                                                   gradient 1
//   k2       d^2 / 2                                             gradient d
//   k3       exp(-d) - 1 + d                                     gradient 1 - exp(-d)
//   low_var  k3 with -d clamped to +-20, the result to +-10      gradient 0 where a clamp is active
//   abs      |d|                                                 gradient sign(d), 0 at 0
//
// A "+" after the name is the straight-through form: that estimator's value with the gradient of
// k2, which is the one whose expectation is the gradient of the KL. k1, k2, k3:
// joschu.net/blog/kl-approx.html. low_var is what verl runs under both names k3 and low_var_kl;
// OpenRLHF's k3 equals it; TRL's is the plain k3.
//
// value_clamp > 0 bounds every value to +-value_clamp (OpenRLHF: 10), with gradient 0 there unless
// the estimator is straight-through. ratio corrects for tokens sampled under old_log_prob, with
// r = exp(log_prob - old_log_prob):
//   none      no correction
//   gradient  the gradient times min(r, ratio_cap), the value unchanged (OpenRLHF, ratio_cap 10)
//   full      r times the value, differentiated through r as well (TRL use_bias_correction_kl,
//             slime use-unbiased-kl)
//
// The KL penalty inside the reward is in algo/advantages/reward.h, the coefficient over time in
// algo/advantages/kl_controller.h.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rl {

enum class KlKind : uint8_t { kK1, kK2, kK3, kLowVar, kAbs };

struct KlEstimator {
  KlKind kind = KlKind::kK3;
  bool straight_through = false;
};
std::string kl_estimator_name(KlEstimator v);           // "k3", "k3+"
KlEstimator parse_kl_estimator(std::string_view text);  // key algo.kl.estimator

struct KlTerm {
  double value;
  double gradient;  // d value / d log_prob
};
KlTerm kl_term(KlEstimator estimator, double log_prob, double ref_log_prob);

enum class KlRatio : uint8_t { kNone, kGradient, kFull };

struct KlBounds {
  double value_clamp = 0;  // 0 (off) or > 0
  KlRatio ratio = KlRatio::kNone;
  double ratio_cap = 0;  // 0 (off) or > 0; used by kGradient
};
KlTerm kl_term(KlEstimator estimator, const KlBounds& bounds, double log_prob, double ref_log_prob,
               double old_log_prob);

struct KlLossInput {
  std::span<const float> log_prob;
  std::span<const float> ref_log_prob;
  std::span<const double> weight;            // algo/losses/loss_agg.h
  double coef = 0;                           // algo.kl.coef, finite, >= 0
  std::span<const float> old_log_prob = {};  // used unless bounds.ratio is kNone
  KlBounds bounds = {};
};

struct KlLossSums {
  double loss = 0;   // sum of coef * weight * value
  double value = 0;  // sum of value, for the metric: divide by the global token count
};

// Adds coef * weight * gradient to gradient, token by token in order. A token of weight 0 is
// masked: it contributes nothing, not even to the metric.
KlLossSums kl_loss(KlEstimator estimator, const KlLossInput& in, std::span<double> gradient);

}  // namespace rl
