// The teacher has arenas of its own and shares the matrix products.
#include "pipeline/teacher_role.h"

#include "algo/distill.h"
#include "core/error.h"
#include "pipeline/algo_options.h"
#include "pipeline/run_options.h"

namespace rl {
namespace {

constexpr const char* kKey = "model.teacher_path";

void require_same_ids(const ModelConfig& policy, const ModelConfig& teacher,
                      const std::string& path) {
  if (policy.vocab == teacher.vocab) return;
  throw Error(Code::kIncompatible,
              str("the teacher ", path, " has a vocabulary of ", teacher.vocab,
                  " ids, but the policy has ", policy.vocab, ": its log-probs are of other tokens"))
      .with_key(kKey)
      .with_expected(str(policy.vocab, " ids"))
      .with_location(path);
}

void require_positions(const ModelConfig& teacher, int64_t longest, const std::string& path) {
  if (teacher.max_position >= longest) return;
  throw Error(Code::kIncompatible,
              str("the teacher ", path, " has ", teacher.max_position,
                  " positions, but a sample may have engine.max_model_len = ", longest, " tokens"))
      .with_key(kKey)
      .with_other_key("engine.max_model_len")
      .with_expected(str("at least ", longest, " positions"))
      .with_location(path);
}

}  // namespace

std::optional<ModelConfig> teacher_config(const OptionSet& options, FileSystem& fs) {
  if (objective_of(options) != Objective::kDistill) return std::nullopt;
  return open_weight_source(fs, options.get_string(kKey))->config();
}

std::unique_ptr<TeacherRole> TeacherRole::make(const LoadedModel& policy, const OptionSet& options,
                                               const MemoryPlan& plan, std::byte* workspace) {
  if (objective_of(options) != Objective::kDistill) return nullptr;
  const std::string& path = options.get_string(kKey);
  Runtime& runtime = policy.runtime();
  const auto source = open_weight_source(runtime.fs(), path);
  require_same_ids(policy.config(), source->config(), path);
  require_positions(source->config(), plan.max_model_len, path);
  ModelOptions shape;
  shape.max_positions = plan.max_model_len;
  shape.block_size = policy.model().block_size();
  shape.kv_dtype = policy.model().kv_format().dtype;
  auto model = std::make_unique<Model>(*source, runtime.matmul(), shape);
  return std::unique_ptr<TeacherRole>(
      new TeacherRole(policy, std::move(model), options, plan, workspace));
}

TeacherRole::TeacherRole(const LoadedModel& policy, std::unique_ptr<Model> model,
                         const OptionSet& options, const MemoryPlan& plan, std::byte* workspace)
    : clock_(policy.runtime().clock()), model_(std::move(model)) {
  const TrainerOptions trainer =
      trainer_options_from(options, plan.max_tokens, plan.max_model_len);
  const PhaseTimer::Place place{&policy.runtime().tracer(), TraceLane::kTrain, &clock_};
  if (distills_rows(options)) {
    const RowTeacher::Memory memory{workspace, workspace + plan.teacher_kept_offset};
    rows_.emplace(*model_, trainer, memory, place);
  } else {
    sampled_.emplace(*model_, trainer, workspace, place);
  }
}

std::optional<TeacherRole::Lesson> TeacherRole::teach(std::span<const SamplePtr> samples,
                                                      double coef, BatchAdvantages& a) {
  if (!sampled_) return std::nullopt;
  const int64_t start = clock_.now_ns();
  std::vector<float> student, teacher(a.advantages.size());
  std::vector<const Sample*> asked;
  std::vector<std::span<float>> out;
  for (const SamplePtr& s : samples) {
    sampled_->check(*s);
    const size_t at = student.size();
    student.insert(student.end(), s->logprobs.begin(), s->logprobs.end());
    asked.push_back(s.get());
    out.push_back(std::span(teacher).subspan(at, s->logprobs.size()));
  }
  RL_CHECK(student.size() == teacher.size());
  sampled_->logprobs(asked, out);
  add_distill_advantage(coef, {student, teacher, a.mask}, a.advantages);
  a.varies = true;
  Lesson lesson;
  double tokens = 0;
  for (size_t t = 0; t < teacher.size(); ++t) {
    if (a.mask[t] == 0) continue;
    lesson.kl += static_cast<double>(student[t]) - teacher[t];
    tokens += 1;
  }
  if (tokens > 0) lesson.kl /= tokens;
  lesson.ns = clock_.now_ns() - start;
  return lesson;
}

}  // namespace rl
