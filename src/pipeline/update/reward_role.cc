// A model of its own next to the policy, and its forward pass.
#include "pipeline/update/reward_role.h"

#include "pipeline/config/run_options.h"
#include "pipeline/session/role_models.h"

namespace rl {

std::unique_ptr<RewardRole> RewardRole::make(const LoadedModel& policy, const Settings& settings,
                                             const MemoryPlan& plan, std::byte* workspace) {
  if (!has_reward_model(settings)) return nullptr;
  return std::unique_ptr<RewardRole>(new RewardRole(policy, settings, plan, workspace));
}

RewardRole::RewardRole(const LoadedModel& policy, const Settings& settings, const MemoryPlan& plan,
                       std::byte* workspace)
    : model_(load_reward_model(policy, settings)),
      scorer_(*model_,
              reward_options_from(settings, plan.max_tokens, plan.max_model_len, plan.step_samples),
              workspace) {}

std::vector<float> RewardRole::score(std::span<const SamplePtr> samples) {
  std::vector<const Sample*> inputs;
  for (const SamplePtr& s : samples) inputs.push_back(s.get());
  std::vector<float> scores(inputs.size());
  scorer_.score(inputs, scores);
  return scores;
}

}  // namespace rl
