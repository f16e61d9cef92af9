// The table of names.
#include "algo/losses/objective.h"

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<Objective>, 5> kObjectives{{
    {Objective::kRl, "rl"},
    {Objective::kSft, "sft"},
    {Objective::kDpo, "dpo"},
    {Objective::kDistill, "distill"},
    {Objective::kRewardModel, "reward_model"},
}};

}  // namespace

std::string_view objective_name(Objective v) { return choice_name(kObjectives, v); }
Objective parse_objective(std::string_view text) {
  return parse_choice("algo.objective", kObjectives, text);
}

}  // namespace rl
