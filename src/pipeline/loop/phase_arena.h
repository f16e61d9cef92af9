// The memory that the phases of a run compute in: the engine, the policy update and the reward
// model. A run that generates while it trains has an arena for the engine and one for the others.
// In other runs all share one arena, one at a time, and update and reward model overwrite keys and
// values: their caller calls EngineSet::forget_kv() first.
#pragma once
#include <functional>
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
  bool trains() const { return update_ != nullptr; }
  PolicyUpdate& update() const;  // of a run that trains
  // An engine as at the beginning, which has seen nothing.
  void renew_engine();
  bool share_bytes() const { return engine_arena_.bytes() == 0; }

 private:
  void reserve(LoadedModel& model, const Settings& settings, const MemoryPlan& plan);

  std::function<std::unique_ptr<EngineSet>()> make_engine_;
  Arena arena_, engine_arena_;
  std::unique_ptr<EngineSet> engine_;
  std::unique_ptr<PolicyUpdate> update_;
  std::unique_ptr<RewardRole> reward_;
  std::unique_ptr<Prefault> prefault_;
};

}  // namespace rl
