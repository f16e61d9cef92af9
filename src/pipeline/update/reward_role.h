// The reward model of a run (model.reward_path): it scores in the host's place, so no sample
// becomes a score event. One owner; not thread-safe.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "pipeline/session/loaded_model.h"
#include "train/roles/reward_model.h"

namespace rl {

class RewardRole {
 public:
  // Null without model.reward_path. workspace: plan.train_workspace_bytes, shared with the trainer.
  // The caller holds the compute lease.
  static std::unique_ptr<RewardRole> make(const LoadedModel& policy, const Settings& settings,
                                          const MemoryPlan& plan, std::byte* workspace);

  // One score per sample.
  std::vector<float> score(std::span<const SamplePtr> samples);

 private:
  RewardRole(const LoadedModel& policy, const Settings& settings, const MemoryPlan& plan,
             std::byte* workspace);

  std::unique_ptr<Model> model_;
  RewardModel scorer_;
};

}  // namespace rl
