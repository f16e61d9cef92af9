// Rollout comes first, so memory that only training writes is prefaulted meanwhile.
#include "pipeline/loop/phase_arena.h"

#include <span>
#include <utility>
#include <vector>

#include "core/error.h"

namespace rl {

PhaseArena::PhaseArena(LoadedModel& model, const Settings& settings, const MemoryPlan& plan) {
  Runtime& runtime = model.runtime();
  const ComputeLease lease(runtime, "making a pipeline");
  with_knobs(plan, [&] { reserve(model, settings, plan); });
  if (runtime.compute().has_own_memory()) return;
  std::vector<std::span<std::byte>> memory;
  if (trains()) memory = update_->memory();
  memory.push_back(arena_.span());
  if (!share_bytes()) memory.push_back(engine_arena_.span());
  prefault_ = std::make_unique<Prefault>(std::move(memory), runtime.num_threads(), runtime.cpus());
}

void PhaseArena::reserve(LoadedModel& model, const Settings& settings, const MemoryPlan& plan) {
  Runtime& runtime = model.runtime();
  const auto reserved = [&](const char* name) {
    return Arena(name, plan.bytes_of(name), Touch::kLater, runtime.compute().memory());
  };
  const bool apart = plan.bytes_of(kPhaseWorkspace) == 0;
  arena_ = reserved(apart ? kTrainingWorkspace : kPhaseWorkspace);
  if (apart) engine_arena_ = reserved(kEngineWorkspace);
  if (settings.pipeline.role != PipelineRole::kRollout) {
    update_ = std::make_unique<PolicyUpdate>(model, settings, plan, arena_.data(), true);
  }
  reward_ = RewardRole::make(model, settings, plan, arena_.data());
  if (plan.num_engines > 0) {
    const EngineSetMemory memory = plan.engine_memory((apart ? engine_arena_ : arena_).data());
    make_engine_ = [&model, options = plan.engine, memory] {
      return std::make_unique<EngineSet>(model.model().rollout(), options, memory,
                                         model.has_tokenizer() ? &model.tokenizer() : nullptr,
                                         &model.runtime().tracer());
    };
    renew_engine();
  }
}

PolicyUpdate& PhaseArena::update() const {
  RL_CHECK(trains());
  return *update_;
}

// The memory belongs to one engine at a time.
void PhaseArena::renew_engine() {
  engine_.reset();
  engine_ = make_engine_();
}

}  // namespace rl
