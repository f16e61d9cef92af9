// The algorithms on a host's arrays: what a training step computes from samples, without a model.
// The keys algo.* select the algorithm; the same functions that a step calls compute everything,
// treating all given tokens as one minibatch.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "algo/algo_arrays.h"
#include "algo/batching/balance.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

struct AlgoLoss {
  double loss = 0, policy_loss = 0, kl_loss = 0;
  double kl = 0, ppo_kl = 0, ppo_kl_k3 = 0, clip_fraction = 0, dual_clip_fraction = 0;  // means
  double ratio_max = 0;
  int64_t num_tokens = 0;    // that carry loss after rejections
  int64_t num_rejected = 0;  // by algo.correction.*
};

// Advantages of every token; 0 where there is no loss. returns, if not null: BatchAdvantages'.
std::vector<double> algo_advantages(const Settings& settings, const AlgoArrays& in,
                                    std::vector<double>* returns = nullptr);
// Policy term and KL term; the gradient is in the log-prob of each token.
AlgoLoss algo_policy_loss(const Settings& settings, const AlgoArrays& in,
                          std::vector<double>& gradient);
// Loss of a critic and its mean clipping; the gradient is in the value of each token.
AlgoLoss algo_value_loss(const Settings& settings, const AlgoArrays& in,
                         std::vector<double>& gradient);
// Entropy bonus as a loss; the gradient is in the entropy of each token.
AlgoLoss algo_entropy_loss(const Settings& settings, const AlgoArrays& in,
                           std::vector<double>& gradient);
// Distributes sequences over bins; errors name the fields of packing.
struct AlgoPacking {
  int64_t max_tokens = 0;  // 0: no budget, and min_bins bins
  int64_t min_bins = 1, divisor = 1, group_size = 1, hidden = 0;
  bool oversize_alone = false;
};
Partition algo_pack(const Settings& settings, std::span<const int32_t> lengths,
                    const AlgoPacking& packing);
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
