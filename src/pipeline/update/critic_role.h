// The critic of a run (algo.advantage = gae): its model, its optimizer, and whether the policy
// trains in a step as well. One owner; not thread-safe.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/session/loaded_model.h"
#include "pipeline/update/batch_preparation.h"
#include "train/critic.h"

namespace rl {

class CriticRole {
 public:
  struct Memory {          // shared with the trainer
    std::byte* workspace;  // plan.train_workspace_bytes
    std::byte* host;       // plan.host_workspace_bytes, or null
    std::byte* gradients;  // MemoryPlan::lent_gradients()
  };
  // Null unless algo.advantage is gae. The caller holds the compute lease.
  static std::unique_ptr<CriticRole> make(const LoadedModel& policy, const Settings& settings,
                                          const MemoryPlan& plan, const Memory& memory);

  Critic& critic() { return critic_; }
  // Writes the critic as LoadedModel::save writes the policy: a model for sequence classification.
  // Error(kFailedPrecondition) if role is null: the run has no critic.
  static void save(const CriticRole* role, const LoadedModel& policy, const std::string& dir,
                   Dtype dtype, bool replace_existing);
  void set_options(const Settings& settings);

  // Trains on the critic samples of the batch and adds its metrics to the batch's.
  CriticMetrics step(PreparedBatch& batch);
  // Whether the critic is still warming up, so the next step leaves the policy unchanged.
  bool policy_waits(uint64_t steps_done) const { return steps_done < warmup_steps_; }

 private:
  CriticRole(const LoadedModel& policy, const Settings& settings, const MemoryPlan& plan,
             const Memory& memory);

  const int64_t max_tokens_, max_sequence_, step_samples_;
  uint64_t warmup_steps_;
  std::unique_ptr<Model> model_;
  Critic critic_;
};

}  // namespace rl
