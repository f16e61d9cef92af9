// The loss of a chunk of tokens: policy term, KL to the reference, entropy bonus, and their
// gradients in log-prob and entropy. The divergence from a teacher is included in the sums; its
// gradient is over whole rows (train/passes/row_teacher.h). Tokens are processed in order; sums of
// several chunks are added in the order of the chunks. The policy term of a minibatch loss
// (train/losses/minibatch_tokens.h) is not part of these sums; its gradients come with the tokens.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "train/options/trainer_options.h"

namespace rl {

struct TokenSums {
  double loss = 0;          // all terms, weighted
  double pg_loss = 0;       // policy term, weighted
  double kl_loss = 0;       // with its coefficient, weighted
  double distill_loss = 0;  // the same for the divergence from a teacher
  // Plain sums over tokens.
  double entropy = 0, neg_log_ratio = 0, k3 = 0, kl = 0, distill = 0;
  double ratio_max = 0;
  int64_t tokens = 0, clipped = 0, dual_clipped = 0;

  void add(const TokenSums& other);
  // Sets the policy part from the sums of its loss.
  void set_policy(const PolicyLossSums& policy);
};

// A token as the loss sees it.
struct LossToken {
  int32_t item;  // number of its sample
  float logprob, old_logprob, ref_logprob, entropy, advantage;
  double weight;  // 0: masked, contributes nothing and is not counted
  double correction = 1;
  // Gradient of the policy term, if that is a loss of the whole minibatch.
  double policy_gradient = 0;
  double distill = 0;  // divergence of its row from the teacher's
};

class TokenTerms {
 public:
  void clear();
  void push(const LossToken& token);
  // Fills d_logprob and d_entropy of the tokens pushed since clear().
  TokenSums compute(const TrainerOptions& options);
  std::span<const float> d_logprob() const { return d_logprob_; }
  std::span<const float> d_entropy() const { return d_entropy_; }
  // Appends the numbers of samples one of whose tokens has a loss that is not finite.
  void find_non_finite(const TrainerOptions& options, std::vector<int32_t>& items) const;

 private:
  TokenSums sum(const TrainerOptions& options, size_t first, size_t count,
                std::span<double> gradient) const;

  std::vector<int32_t> item_;
  std::vector<float> logprob_, old_logprob_, ref_logprob_, entropy_, advantage_;
  std::vector<double> weight_, correction_, policy_gradient_, distill_;
  std::vector<double> gradient_;
  std::vector<float> d_logprob_, d_entropy_;
};

}  // namespace rl
