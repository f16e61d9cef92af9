// The arguments of a plan, and how far the smallest plan of them exceeds its budget.
#pragma once
#include <algorithm>

#include "pipeline/config/runtime_options.h"
#include "pipeline/plan/planner.h"
#include "pipeline/plan/step_cost.h"

namespace rl {

struct PlanRequest {
  // The micro-batch affects the bits of a run, so it is chosen as if at least this many threads had
  // their scratch: runs with up to this many threads choose the same one. The KV blocks that share
  // the budget with it are planned the same way.
  static constexpr int kPlanThreads = 4;

  Settings settings;
  const PlanModels* models;
  PlanUse use;
  int threads;  // 0: taken from the options
  const Device* device;

  Planner planner() const { return {settings, *models, use, threads, *device}; }
  // For sizes that do not depend on the thread count up to kPlanThreads.
  Planner size_planner() const {
    const int own = threads != 0 ? threads : thread_count_of(settings);
    return {settings, *models, use, std::max(kPlanThreads, own), *device};
  }
  PlanRequest with(const OptionSet& options) const {
    return {options, models, use, threads, device};
  }
};

// Every violation, of the registry's rules and of the plan's, as one error.
void throw_violations(const PlanRequest& request);

// Bytes that the smallest plan lacks.
struct PlanDeficit {
  uint64_t total = 0;  // of the budget
  uint64_t share = 0;  // of engine.memory_fraction of it
  uint64_t host = 0;   // of runtime.host_memory_budget_bytes
  uint64_t sum() const { return total + share + host; }
};
// budget: the usable one; 0: no limit.
PlanDeficit deficit_of(const Planner& planner, uint64_t budget);

// The micro-batch and the KV blocks that the plan of such options has. sizes: the request's
// size_planner().
StepSizes chosen_sizes(const Planner& planner, const Planner& sizes);

// The plan without knobs, of options that have no violation and no deficit.
MemoryPlan lay_out(const PlanRequest& request);

}  // namespace rl
