// Rollout comes first, so memory that only training writes is prefaulted meanwhile.
#include "pipeline/loop/phase_arena.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace rl {

PhaseArena::PhaseArena(LoadedModel& model, const Settings& settings, const MemoryPlan& plan) {
  Runtime& runtime = model.runtime();
  const ComputeLease lease(runtime, "making a pipeline");
  with_knobs(plan, [&] { reserve(model, settings, plan); });
  if (runtime.compute().has_own_memory()) return;
  std::vector<std::span<std::byte>> memory = update_->memory();
  memory.push_back(arena_.span());
  prefault_ = std::make_unique<Prefault>(std::move(memory), runtime.num_threads(), runtime.cpus());
}

void PhaseArena::reserve(LoadedModel& model, const Settings& settings, const MemoryPlan& plan) {
  Runtime& runtime = model.runtime();
  arena_ = Arena("phase workspace",
                 std::max(plan.train_workspace_bytes, plan.kv_bytes + plan.engine_workspace_bytes),
                 Touch::kLater, runtime.compute().memory());
  update_ = std::make_unique<PolicyUpdate>(model, settings, plan, arena_.data(), true);
  reward_ = RewardRole::make(model, settings, plan, arena_.data());
  if (plan.num_engines > 0) {
    engine_ = std::make_unique<EngineSet>(
        model.model(), plan.engine, plan.engine_memory(arena_.data()),
        model.has_tokenizer() ? &model.tokenizer() : nullptr, &runtime.tracer());
  }
}

}  // namespace rl
