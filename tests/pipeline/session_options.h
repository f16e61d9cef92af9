// The options of a pipeline as a host gives them to an engine or a trainer of its own loop.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "formats/open/open_weight_source.h"
#include "options/options.h"
#include "pipeline/plan/planner.h"

namespace rl::testing {

// Less those that act in a pipeline only, which are refused there.
inline OptionSet for_session(OptionSet options) {
  for (size_t i = 0; i < option_count(); ++i) {
    if (option_at(i).pipeline_only) options.unset(option_at(i).key);
  }
  return options;
}

// Assignments of a budget and the share of it that weights and so many KV blocks take.
inline std::vector<std::string> with_blocks(const OptionSet& o, int64_t blocks) {
  const auto config = open_weight_source(real_fs(), o.get_string("model.path"))->config();
  const Planner p(o, config, PlanUse::kGenerate);
  const double budget = 1 << 30;
  const double bytes = static_cast<double>(p.weight_bytes() + p.kv_bytes(blocks));
  char share[64];
  snprintf(share, sizeof(share), "engine.memory_fraction=%.17g", (bytes + 1) / budget);
  return {"runtime.memory_budget_bytes=1073741824", share};
}

}  // namespace rl::testing
