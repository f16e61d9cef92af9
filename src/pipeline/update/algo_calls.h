// The algorithms on a host's arrays: what a training step computes from samples, without a model.
// The keys algo.* select the algorithm; the same functions that a step calls compute everything,
// treating all given tokens as one minibatch.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "algo/algo_arrays.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

struct AlgoLoss {
  double loss = 0, policy_loss = 0, kl_loss = 0;
  double kl = 0, ppo_kl = 0, ppo_kl_k3 = 0, clip_fraction = 0, dual_clip_fraction = 0;  // means
  double ratio_max = 0;
  int64_t num_tokens = 0;    // that carry loss after rejections
  int64_t num_rejected = 0;  // by algo.correction.*
};

// Advantages of every token; 0 where there is no loss.
std::vector<double> algo_advantages(const Settings& settings, const AlgoArrays& in);
// Policy term and KL term; the gradient is in the log-prob of each token.
AlgoLoss algo_policy_loss(const Settings& settings, const AlgoArrays& in,
                          std::vector<double>& gradient);
// Factor of each token's loss and whether the token is kept; 0 for masked tokens.
struct AlgoCorrections {
  std::vector<double> weights;
  std::vector<uint8_t> keep;
};
AlgoCorrections algo_corrections(const Settings& settings, const AlgoArrays& in);
// The weight of each token under algo.loss_agg.
std::vector<double> algo_weights(const Settings& settings, const AlgoArrays& in);
// algo.kl.estimator of each token, and its derivative in the log-prob.
struct AlgoKl {
  std::vector<double> values, gradient;
};
AlgoKl algo_kl(const Settings& settings, const AlgoArrays& in);

}  // namespace rl
