// What a run minimises.
//
//   rl       a policy loss over advantages of rewards (algo/losses/policy_loss.h)
//   sft      -log p of the tokens of given responses (algo/losses/loss_agg.h for weights)
//   distill  as rl, with advantages or a loss from a teacher (algo/losses/distill.h)
//   dpo      a preference loss over pairs of given responses (algo/losses/preference.h)
//   reward_model  a loss over the scores of such pairs (reward_pair_loss there); the trained model
//                 has a scalar head
#pragma once
#include <cstdint>
#include <string_view>

namespace rl {

enum class Objective : uint8_t { kRl, kSft, kDpo, kDistill, kRewardModel };
std::string_view objective_name(Objective v);
Objective parse_objective(std::string_view text);  // key algo.objective

// Whether responses are sampled from the policy, and their rewards and old log-probs are used.
// False: responses are given.
constexpr bool is_rl(Objective v) { return v == Objective::kRl || v == Objective::kDistill; }

// Whether a prompt has two given responses: a chosen and a rejected one.
constexpr bool is_pairs(Objective v) {
  return v == Objective::kDpo || v == Objective::kRewardModel;
}

// Samples of one prompt that must stay together: the two responses of a pair.
constexpr int64_t samples_together(Objective v) { return is_pairs(v) ? 2 : 1; }

}  // namespace rl
