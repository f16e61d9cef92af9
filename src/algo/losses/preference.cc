// Formulas in double; log sigmoid is written so that neither tail overflows.
#include "algo/losses/preference.h"

#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

double log_sigmoid(double x) {
  return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
}

double sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

}  // namespace

void validate(const DpoParams& p) {
  require_value(p.beta > 0 && std::isfinite(p.beta), "algo.dpo.beta", p.beta,
                "a finite value above 0");
  require_value(p.label_smoothing >= 0 && p.label_smoothing <= 0.5, "algo.dpo.label_smoothing",
                p.label_smoothing, "0..0.5");
  require_value(!p.ipo || p.label_smoothing == 0, "algo.dpo.label_smoothing", p.label_smoothing,
                "0 with algo.dpo.ipo");
  require_value(p.nll_coef >= 0 && std::isfinite(p.nll_coef), "algo.dpo.nll_coef", p.nll_coef,
                "a finite value of at least 0");
}

PairLoss dpo_loss(const DpoParams& p, const PreferencePair& pair) {
  const double d = (pair.chosen - pair.rejected) - (pair.ref_chosen - pair.ref_rejected);
  double value, slope;  // slope = d value / d D
  if (p.ipo) {
    const double gap = d - 1 / (2 * p.beta);
    value = gap * gap;
    slope = 2 * gap;
  } else {
    const double x = p.beta * d;
    const double s = p.label_smoothing;
    value = -(1 - s) * log_sigmoid(x) - s * log_sigmoid(-x);
    slope = p.beta * (s * sigmoid(x) - (1 - s) * sigmoid(-x));
  }
  PairLoss loss{.value = value,
                .d_chosen = slope,
                .d_rejected = -slope,
                .reward_chosen = p.beta * (pair.chosen - pair.ref_chosen),
                .reward_rejected = p.beta * (pair.rejected - pair.ref_rejected)};
  if (p.nll_coef == 0) return loss;
  require_value(pair.chosen_tokens >= 1, "chosen_tokens", pair.chosen_tokens, "at least 1");
  loss.value -= p.nll_coef * pair.chosen / pair.chosen_tokens;
  loss.d_chosen -= p.nll_coef / pair.chosen_tokens;
  return loss;
}

PairLoss reward_pair_loss(double chosen, double rejected, double margin) {
  require_value(std::isfinite(margin), "margin", margin, "a finite value");
  const double x = chosen - rejected - margin;
  const double slope = -sigmoid(-x);
  return {.value = -log_sigmoid(x),
          .d_chosen = slope,
          .d_rejected = -slope,
          .reward_chosen = chosen,
          .reward_rejected = rejected};
}

DpoSums dpo_loss(const DpoParams& params, const DpoInput& in, const DpoGradient& gradient) {
  validate(params);
  require_same_size("weight", in.weight.size(), in.pairs.size());
  require_same_size("chosen gradient", gradient.chosen.size(), in.pairs.size());
  require_same_size("rejected gradient", gradient.rejected.size(), in.pairs.size());
  DpoSums sums;
  for (size_t i = 0; i < in.pairs.size(); ++i) {
    if (in.weight[i] == 0) continue;
    const PairLoss l = dpo_loss(params, in.pairs[i]);
    sums.loss += in.weight[i] * l.value;
    sums.num_pairs += 1;
    sums.num_right += l.reward_chosen > l.reward_rejected;
    sums.margin += l.reward_chosen - l.reward_rejected;
    gradient.chosen[i] += in.weight[i] * l.d_chosen;
    gradient.rejected[i] += in.weight[i] * l.d_rejected;
  }
  return sums;
}

}  // namespace rl
