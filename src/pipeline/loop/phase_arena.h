// The arena that the phases of a run share, and what computes in it: the engine, the policy update
// and the reward model, one at a time. Update and reward model overwrite keys and values: their
// caller calls EngineSet::forget_kv() first.
#pragma once
#include <memory>

#include "core/arena.h"
#include "core/prefault.h"
#include "pipeline/update/policy_update.h"
#include "pipeline/update/reward_role.h"
#include "rollout/engine_set.h"

namespace rl {

class PhaseArena {
 public:
  // Takes the compute lease while it reserves memory and loads the models of the roles.
  PhaseArena(LoadedModel& model, const Settings& settings, const MemoryPlan& plan);

  EngineSet* engine() const { return engine_.get(); }   // null: nothing is ever generated
  RewardRole* reward() const { return reward_.get(); }  // null: the host scores
  PolicyUpdate& update() const { return *update_; }

 private:
  void reserve(LoadedModel& model, const Settings& settings, const MemoryPlan& plan);

  Arena arena_;
  std::unique_ptr<EngineSet> engine_;
  std::unique_ptr<PolicyUpdate> update_;
  std::unique_ptr<RewardRole> reward_;
  std::unique_ptr<Prefault> prefault_;
};

}  // namespace rl
