// The table of knobs: options that trade memory for something else. A knob is one row of it. What
// it saves, the plan itself says; what it costs, the estimate of a step's time (step_cost.h), to
// which a row may add work that follows from its present value.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/plan/knob.h"
#include "pipeline/plan/plan_request.h"
#include "pipeline/plan/step_cost.h"

namespace rl {

// Options that are set together; the first has the knob's key.
using KnobTurn = std::vector<std::pair<std::string, std::string>>;

// Whose sizes and time a knob changes: the search for the fastest setting combines those of the
// engine and those of the trainer only in the end.
enum class KnobPart : uint8_t { kEngine, kTrainer, kBoth };

struct KnobRow {
  const char* key;
  KnobEffect effect;
  KnobPart part;
  // Values to try, the mildest first. One that saves nothing is not offered when memory is short,
  // and one that the options refuse is never.
  std::vector<KnobTurn> (*turns)(const Planner& planner);
  // Work of a pass of training that the present value adds; null: none beyond what sizes decide.
  StepWork (*work)(const Planner& planner, const PassSize& pass) = nullptr;
};
std::span<const KnobRow> knob_table();

// The knobs that turn a plan which lacks memory into one that fits, in the order to turn them:
// those that change time alone, and little, first, those that change the run last, and of each the
// cheapest for what they save. Without a budget, and if no knobs make it fit, every knob that saves
// anything.
struct KnobList {
  std::vector<Knob> knobs;
  PlanDeficit left;        // with all of them turned
  uint64_t min_total = 0;  // of the smallest plan then
};
KnobList find_knobs(const PlanRequest& request, uint64_t budget);

// "engine.num_engines = 1 saves 10, ..." for an error.
std::string knobs_text(const std::vector<Knob>& knobs);

}  // namespace rl
