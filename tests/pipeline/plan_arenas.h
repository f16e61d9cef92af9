// The arenas of a plan and those that a runtime holds, with the memory that each is in, in one
// order, so that tests can compare them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/plan/plan.h"
#include "pipeline/session/runtime.h"

namespace rl::testing {

using Arenas = std::vector<std::tuple<std::string, uint64_t, MemorySpace>>;

inline Arenas planned(const MemoryPlan& plan) {
  Arenas out;
  for (const PlanEntry& e : plan.arenas) out.emplace_back(e.name, e.bytes, e.space());
  std::sort(out.begin(), out.end());
  return out;
}

inline Arenas live(const Runtime& runtime) {
  Arenas out;
  for (const ArenaLedger::Entry& e : runtime.ledger().entries())
    out.emplace_back(e.name, e.bytes, e.space);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace rl::testing
