// The fastest setting that fits a budget. It is the best of all combinations of the knob table: the
// plan itself says whether one fits, and step_cost.h how long a step takes.
#pragma once
#include "pipeline/plan/knobs.h"

namespace rl {

struct FitRules {
  MachineRates rates = MachineRates::nominal();
  KnobEffect most = KnobEffect::kRounding;  // knobs that change more are not turned
  std::span<const KnobRow> table = knob_table();
};

struct PlanFit {
  MemoryPlan plan;
  StepSeconds seconds;
};

// What a row of the table offers to a fit: nothing to turn, which comes first, the option's
// default, and its turns.
std::vector<KnobTurn> fit_choices(const KnobRow& row, const PlanRequest& request);

// Of settings that take the same time, one that turns fewer knobs is taken. Throws what
// plan_memory() throws if no combination fits.
PlanFit fit_plan(const PlanRequest& request, const FitRules& rules);
// The same for the header of model.path.
PlanFit fit_plan(const Settings& settings, FileSystem& fs, PlanUse use, const FitRules& rules);

}  // namespace rl
