// A plan by phase: which of its bytes are in use when, of those that a budget bounds.
#include <algorithm>

#include "pipeline/plan/plan.h"

namespace rl {
namespace {

constexpr const char* kShared = "shared";

uint64_t bytes_in(const std::vector<PlanEntry>& entries, const std::string& phase) {
  uint64_t sum = 0;
  for (const PlanEntry& e : entries) {
    if (e.phase == phase) sum += e.bytes;
  }
  return sum;
}

// Of the arena that phases share.
uint64_t workspace_in(const MemoryPlan& plan, const std::string& phase) {
  if (phase == "rollout") return plan.kv_bytes + plan.engine_workspace_bytes;
  if (phase == "train") return plan.train_workspace_bytes;
  return bytes_in(plan.parts, phase);
}

}  // namespace

std::vector<PlanEntry> plan_phases(const MemoryPlan& plan) {
  const bool generates = plan.num_engines != 0,
             trains = plan.bytes_of("gradients") != 0 || plan.train_offsets.policy_gradients != 0;
  std::vector<std::string> names = {"start-up"};
  if (generates) names.emplace_back("rollout");
  if (trains || (!generates && plan.max_tokens != 0)) names.emplace_back("log-prob");
  if (trains) names.insert(names.end(), {"train", "publish", "checkpoint"});
  const bool shares = bytes_in(plan.arenas, kShared) != 0;
  std::vector<PlanEntry> phases;
  for (const std::string& name : names) {
    uint64_t bytes = plan.device_bytes() - bytes_in(plan.arenas, kShared);
    if (shares) bytes += workspace_in(plan, name);
    if (!plan.has_own_memory())
      bytes += bytes_in(plan.outside, "always") + bytes_in(plan.outside, name);
    phases.push_back({name, name, bytes, {}, plan.home()});
  }
  return phases;
}

}  // namespace rl
