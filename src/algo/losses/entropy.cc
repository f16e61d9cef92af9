// Plain loops in double, in id order.
#include "algo/losses/entropy.h"

#include <algorithm>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

void check_temperature(double temperature) {
  require_value(temperature > 0 && std::isfinite(temperature), "temperature", temperature,
                "a finite value above 0");
}

// p log p, with its limit 0 at p = 0.
double p_log_p(double log_p) { return std::isinf(log_p) ? 0.0 : std::exp(log_p) * log_p; }

}  // namespace

RowReference row_reference(std::span<const float> logits, double temperature) {
  check_temperature(temperature);
  if (logits.empty()) throw Error(Code::kInvalidArgument, "logits are empty").with_key("logits");
  double top = -HUGE_VAL;
  for (const float v : logits) top = std::max(top, v / temperature);
  double sum = 0;
  for (const float v : logits) sum += std::exp(v / temperature - top);
  const double log_sum = top + std::log(sum);
  if (!std::isfinite(log_sum)) {
    throw Error(Code::kNonFinite, "log-sum-exp of the logits is not finite").with_key("logits");
  }
  RowReference row;
  row.log_probs.reserve(logits.size());
  for (const float v : logits) {
    const double log_p = v / temperature - log_sum;
    row.log_probs.push_back(log_p);
    row.entropy -= p_log_p(log_p);
    row.sum_squares += std::exp(2 * log_p);
  }
  return row;
}

void add_log_prob_gradient(const RowReference& row, double temperature, int32_t label, double scale,
                           std::span<double> gradient) {
  check_temperature(temperature);
  require_same_size("gradient", gradient.size(), row.log_probs.size());
  require_value(label >= 0 && static_cast<size_t>(label) < gradient.size(), "label", label,
                "an id of the row");
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double hit = static_cast<size_t>(label) == i ? 1.0 : 0.0;
    gradient[i] += scale * (hit - std::exp(row.log_probs[i])) / temperature;
  }
}

void add_entropy_gradient(const RowReference& row, double temperature, double scale,
                          std::span<double> gradient) {
  check_temperature(temperature);
  require_same_size("gradient", gradient.size(), row.log_probs.size());
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double p = std::exp(row.log_probs[i]);
    gradient[i] -= scale * (p_log_p(row.log_probs[i]) + p * row.entropy) / temperature;
  }
}

double entropy_bonus(double coef, std::span<const double> weight, std::span<const float> entropy,
                     std::span<double> gradient) {
  require_value(coef >= 0 && std::isfinite(coef), "algo.entropy_coef", coef,
                "a finite value of at least 0");
  require_same_size("entropy", entropy.size(), weight.size());
  require_same_size("gradient", gradient.size(), weight.size());
  double sum = 0;
  for (size_t i = 0; i < weight.size(); ++i) {
    if (weight[i] == 0) continue;
    sum += weight[i] * entropy[i];
    gradient[i] -= coef * weight[i];
  }
  return -coef * sum;
}

}  // namespace rl
