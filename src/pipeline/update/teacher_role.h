// The teacher of a run (algo.objective = distill): its model, and what it adds to the advantages
// or, on whole rows, to the trainer's loss. One owner; not thread-safe.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/config/settings.gen.h"
#include "pipeline/session/loaded_model.h"
#include "pipeline/update/batch_advantages.h"
#include "train/passes/row_teacher.h"
#include "train/roles/teacher.h"

namespace rl {

class TeacherRole {
 public:
  // Null unless algo.objective is distill. workspace: plan.train_workspace_bytes, shared with the
  // trainer. Throws the errors of load_teacher. The caller holds the compute lease.
  static std::unique_ptr<TeacherRole> make(const LoadedModel& policy, const Settings& settings,
                                           const MemoryPlan& plan, std::byte* workspace);

  // For the trainer if algo.distill.kl is a divergence of whole rows, else null.
  RowTeacher* rows() { return rows_ ? &*rows_ : nullptr; }

  // What the teacher measured on a batch.
  struct Measured {
    double kl = 0;  // mean over loss tokens of log p - log q: the reverse KL by its estimator k1
    int64_t ns = 0;
  };
  // If algo.distill.kl is `sampled`: advantage_t -= coef (log p_t - log q_t) at every loss token,
  // with the stored log-probs as the student's. Otherwise does nothing. Throws an error naming a
  // sample that the teacher cannot process.
  std::optional<Measured> apply_teacher(std::span<const SamplePtr> samples, double coef,
                                        BatchAdvantages& advantages);

 private:
  TeacherRole(const LoadedModel& policy, std::unique_ptr<Model> model, const Settings& settings,
              const MemoryPlan& plan, std::byte* workspace);

  const Clock& clock_;
  std::unique_ptr<Model> model_;
  std::optional<Teacher> sampled_;  // one of the two
  std::optional<RowTeacher> rows_;
};

}  // namespace rl
