// The arenas of a plan and those that a runtime holds, in one order, so that tests can compare
// them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/plan/plan.h"
#include "pipeline/session/runtime.h"

namespace rl::testing {

using Arenas = std::vector<std::pair<std::string, uint64_t>>;

inline Arenas planned(const MemoryPlan& plan) {
  Arenas out;
  for (const PlanEntry& e : plan.arenas) out.emplace_back(e.name, e.bytes);
  std::sort(out.begin(), out.end());
  return out;
}

inline Arenas live(const Runtime& runtime) {
  Arenas out;
  for (const ArenaLedger::Entry& e : runtime.ledger().entries()) out.emplace_back(e.name, e.bytes);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace rl::testing
