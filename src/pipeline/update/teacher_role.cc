// The teacher has its own arenas and shares the matrix products.
#include "pipeline/update/teacher_role.h"

#include "algo/losses/distill.h"
#include "core/error.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/role_models.h"

namespace rl {

std::unique_ptr<TeacherRole> TeacherRole::make(const LoadedModel& policy, const Settings& settings,
                                               const MemoryPlan& plan, std::byte* workspace) {
  if (settings.algo.objective != Objective::kDistill) return nullptr;
  return std::unique_ptr<TeacherRole>(
      new TeacherRole(policy, load_teacher(policy, settings), settings, plan, workspace));
}

TeacherRole::TeacherRole(const LoadedModel& policy, std::unique_ptr<Model> model,
                         const Settings& settings, const MemoryPlan& plan, std::byte* workspace)
    : clock_(policy.runtime().clock()), model_(std::move(model)) {
  const TrainerOptions trainer =
      trainer_options_from(settings, plan.max_tokens, plan.max_model_len, plan.step_samples);
  const PassContext context{&policy.runtime().tracer(), TraceLane::kTrain, &clock_,
                            &policy.runtime().compute_queue()};
  if (distills_rows(settings)) {
    const RowTeacher::Memory memory{workspace, workspace + plan.train_offsets.teacher_kept};
    rows_.emplace(*model_, trainer, memory, context, policy.model().tensor_ranks());
  } else {
    sampled_.emplace(*model_, trainer, workspace, context);
  }
}

std::optional<TeacherRole::Measured> TeacherRole::apply_teacher(std::span<const SamplePtr> samples,
                                                                double coef, BatchAdvantages& a) {
  if (!sampled_) return std::nullopt;
  const int64_t start = clock_.now_ns();
  std::vector<float> student, teacher(a.advantages.size());
  std::vector<const Sample*> inputs;
  std::vector<std::span<float>> out;
  for (const SamplePtr& s : samples) {
    sampled_->check(*s);
    const size_t at = student.size();
    student.insert(student.end(), s->logprobs.begin(), s->logprobs.end());
    inputs.push_back(s.get());
    out.push_back(std::span(teacher).subspan(at, s->logprobs.size()));
  }
  RL_CHECK(student.size() == teacher.size());
  sampled_->logprobs(inputs, out);
  add_distill_advantage(coef, {student, teacher, a.mask}, a.advantages);
  a.varies = true;
  Measured measured;
  double tokens = 0;
  for (size_t t = 0; t < teacher.size(); ++t) {
    if (a.mask[t] == 0) continue;
    measured.kl += static_cast<double>(student[t]) - teacher[t];
    tokens += 1;
  }
  if (tokens > 0) measured.kl /= tokens;
  measured.ns = clock_.now_ns() - start;
  return measured;
}

}  // namespace rl
