// What a run minimises.
//
//   rl       a policy loss over advantages of rewards (algo/policy_loss.h)
//   sft      -log p of the tokens of given answers (algo/loss_agg.h for weights)
//   distill  as rl, with advantages or a loss that follow a teacher (algo/distill.h)
//   dpo      a preference loss over pairs of given answers (algo/preference.h)
#pragma once
#include <cstdint>
#include <string_view>

namespace rl {

enum class Objective : uint8_t { kRl, kSft, kDpo, kDistill };
std::string_view objective_name(Objective v);
Objective parse_objective(std::string_view text);  // key algo.objective

// Answers are drawn from the policy, and their rewards and old log-probs are read. False: answers
// are given.
constexpr bool is_rl(Objective v) { return v == Objective::kRl || v == Objective::kDistill; }

// Samples of one prompt that nothing may part: the chosen and the rejected answer of dpo.
constexpr int64_t samples_together(Objective v) { return v == Objective::kDpo ? 2 : 1; }

}  // namespace rl
