// Reference functions for one row of logits, in double: log-prob of a token, entropy, and their
// gradients. They are the specification that fast implementations are compared with. p =
// softmax(logits / T); d is the derivative in logits_i.
//
//   log_prob(y)  logits_y / T - log sum exp(logits / T)   d = ((i == y) - p_i) / T
//   entropy      -sum p log p, in nats                    d = -p_i (log p_i + entropy) / T
//   sum_squares  sum p^2
//
// The entropy bonus is a term -coef * weight * entropy in the loss of a token, with the weight of
// algo/losses/loss_agg.h, as in verl, TRL and slime. Entropy and log-prob use the same
// temperature.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rl {

struct RowReference {
  std::vector<double> log_probs;  // log p of every id
  double entropy = 0;
  double sum_squares = 0;
};

// temperature > 0 and at least one logit, else Error. A logit of -inf has probability 0.
RowReference row_reference(std::span<const float> logits, double temperature);

// Adds scale * d log_prob(label) / d logits to gradient.
void add_log_prob_gradient(const RowReference& row, double temperature, int32_t label, double scale,
                           std::span<double> gradient);

// Adds scale * d entropy / d logits to gradient.
void add_entropy_gradient(const RowReference& row, double temperature, double scale,
                          std::span<double> gradient);

// Returns -coef * sum of weight * entropy and adds its derivative, -coef * weight, to gradient. A
// token of weight 0 is not read. coef finite, >= 0, else Error(kOutOfRange) naming
// algo.entropy_coef.
double entropy_bonus(double coef, std::span<const double> weight, std::span<const float> entropy,
                     std::span<double> gradient);

}  // namespace rl
