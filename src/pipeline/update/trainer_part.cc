// A step holds the write lease of the weights; log-probs only compute. With two compute copies a
// step leaves the published one unchanged, and publishing is one store.
#include "pipeline/update/trainer_part.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/role_models.h"
#include "pipeline/session/step_watch.h"
#include "pipeline/update/batch_preparation.h"
#include "pipeline/update/critic_role.h"
#include "pipeline/update/step_metrics.h"
#include "pipeline/update/teacher_role.h"

namespace rl {

struct TrainerPart::Impl {
  explicit Impl(const Settings& settings)
      : preparation(settings), objective(settings.algo.objective) {}

  BatchPreparation preparation;
  const Objective objective;
  CustomAdvantage advantage;
  CustomLoss loss;  // the trainer's; its last reference is dropped here
  std::unique_ptr<Model> reference;
  Arena workspace;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<CriticRole> critic;    // null except with gae
  std::unique_ptr<TeacherRole> teacher;  // null except with distill
  uint64_t steps = 0;                    // steps done
  uint64_t trained_version = 0;          // after the last of them

  Critic* trained_critic() { return critic != nullptr ? &critic->critic() : nullptr; }
};

TrainerPart::TrainerPart(std::shared_ptr<LoadedModel> model, const Settings& settings)
    : model_(std::move(model)), impl_(std::make_unique<Impl>(settings)) {
  Runtime& runtime = model_->runtime();
  const MemoryPlan plan = model_->plan_part(settings, PlanUse::kTrain);
  const uint64_t others = model_->model().arena_bytes() + plan.bytes_of("matmul workspace") +
                          plan.bytes_of("engine workspace");
  require_room(runtime, "the trainer", plan.arena_bytes - others, plan.baseline_bytes);
  const ComputeLease lease(runtime, "making a trainer");
  impl_->reference = load_reference(*model_, settings);
  impl_->workspace =
      Arena("training workspace", plan.train_workspace_bytes, Touch::kNow, &runtime.ledger());
  impl_->trainer = std::make_unique<Trainer>(
      model_->model(), impl_->reference.get(),
      trainer_options_from(settings, plan.max_tokens, plan.max_model_len), impl_->workspace.data(),
      TrainerTools{&runtime.tracer(), TraceLane::kTrain, &runtime.clock()});
  impl_->critic = CriticRole::make(*model_, settings, plan, impl_->workspace.data());
  impl_->teacher = TeacherRole::make(*model_, settings, plan, impl_->workspace.data());
  if (impl_->teacher != nullptr) impl_->trainer->set_row_teacher(impl_->teacher->rows());
}

TrainerPart::~TrainerPart() = default;

namespace {

// Indices of samples in (ordinal, slot) order.
std::vector<size_t> batch_order(std::span<const SamplePtr> samples) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Sample &x = *samples[a], &y = *samples[b];
    return x.ordinal != y.ordinal ? x.ordinal < y.ordinal : x.slot < y.slot;
  });
  return order;
}

std::vector<SampleRewards> own_rewards(std::span<const SamplePtr> samples) {
  std::vector<SampleRewards> out;
  for (const SamplePtr& s : samples) out.push_back(rewards_of(*s));
  return out;
}

void check_samples(std::span<const SamplePtr> samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != nullptr) continue;
    throw Error(Code::kInvalidArgument, str("sample ", i, " of the batch is null"));
  }
}

}  // namespace

TrainedStep TrainerPart::step(std::span<const SamplePtr> samples) {
  check_samples(samples);
  return step(samples, own_rewards(samples));
}

TrainedStep TrainerPart::step_with_advantages(std::span<const SamplePtr> samples,
                                              std::span<const double> advantages) {
  check_samples(samples);
  return step_with_advantages(samples, own_rewards(samples), advantages);
}

TrainedStep TrainerPart::step(std::span<const SamplePtr> samples,
                              std::span<const SampleRewards> rewards) {
  check_samples(samples);
  RL_CHECK(rewards.size() == samples.size());
  std::vector<SamplePtr> batch;
  std::vector<double> scores;
  std::vector<std::vector<double>> parts;
  for (const size_t i : batch_order(samples)) {
    if (!rewards[i].scored && is_rl(impl_->objective)) {
      throw Error(Code::kFailedPrecondition,
                  str("sample ", samples[i]->id, " of the batch is not scored"));
    }
    batch.push_back(samples[i]);
    scores.push_back(rewards[i].reward);
    parts.push_back(rewards[i].parts);
  }
  return train_prepared([&] {
    return impl_->preparation.prepare(
        {batch, scores, parts}, {*impl_->trainer, impl_->reference.get(), model_->runtime().clock(),
                                 &impl_->advantage, impl_->trained_critic(), impl_->teacher.get()});
  });
}

TrainedStep TrainerPart::step_with_advantages(std::span<const SamplePtr> samples,
                                              std::span<const SampleRewards> rewards,
                                              std::span<const double> advantages) {
  check_samples(samples);
  RL_CHECK(rewards.size() == samples.size());
  if (!is_rl(impl_->objective)) {
    throw Error(Code::kConflict, str("advantages are given, but algo.objective = ",
                                     objective_name(impl_->objective), " ignores them"))
        .with_key("advantages")
        .with_other_key("algo.objective");
  }
  if (samples.size() != advantages.size()) {
    throw Error(Code::kInvalidArgument,
                str(advantages.size(), " advantages for ", samples.size(), " samples"))
        .with_key("advantages");
  }
  std::vector<SamplePtr> batch;
  std::vector<double> ordered, scores;
  for (const size_t i : batch_order(samples)) {
    batch.push_back(samples[i]);
    ordered.push_back(advantages[i]);
    scores.push_back(rewards[i].reward);
  }
  return train_prepared([&] {
    return impl_->preparation.prepare_given(
        batch, scores, ordered,
        {*impl_->trainer, impl_->reference.get(), model_->runtime().clock(), nullptr, nullptr,
         impl_->teacher.get()});
  });
}

// The previous function is destroyed with the parameter, after unlocking: it may call back.
void TrainerPart::set_custom_advantage(CustomAdvantage advantage) {
  const std::lock_guard lock(mutex_);
  impl_->advantage.swap(advantage);
}

void TrainerPart::set_custom_loss(CustomLoss loss) {
  const std::lock_guard lock(mutex_);
  impl_->loss.swap(loss);
  impl_->trainer->set_custom_loss(impl_->loss);
}

TrainedStep TrainerPart::train_prepared(FunctionRef<PreparedBatch()> prepare) {
  const std::lock_guard lock(mutex_);
  const ComputeLease compute(model_->runtime(), "a training step");
  const LoadedModel::WriteLease write(*model_, 0);
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  StepWatch watch(*model_, impl_->trainer.get());
  PreparedBatch prepared = prepare();
  TrainMetrics measured;
  CriticRole* const critic = impl_->critic.get();
  const bool waits = critic != nullptr && critic->policy_waits(impl_->steps);
  if (!waits) measured = train_locked(prepared.train);
  if (critic != nullptr) critic->step(prepared);
  ++impl_->steps;
  impl_->trained_version = model_->model().trained_version();
  impl_->preparation.finish(prepared, measured, *impl_->trainer);
  TrainedStep out{std::move(prepared.metrics), impl_->steps, impl_->trained_version};
  out.append(train_metrics(measured));
  watch.done();
  return out;
}

TrainMetrics TrainerPart::train_locked(std::span<const TrainSample> samples) {
  if (!model_->published_apart()) return impl_->trainer->step(samples);
  const TrainMetrics metrics = impl_->trainer->train(samples);
  impl_->trainer->stage();
  return metrics;
}

void TrainerPart::require_scores(bool wanted, const char* what) const {
  if ((impl_->objective == Objective::kRewardModel) == wanted) return;
  throw Error(Code::kFailedPrecondition, str("algo.objective is ", objective_name(impl_->objective),
                                             ": the trained model has no ", what))
      .with_key("algo.objective");
}

std::vector<float> TrainerPart::scores(std::span<const SamplePtr> samples) {
  require_scores(true, "scores");
  check_samples(samples);
  std::vector<const Sample*> asked;
  for (const SamplePtr& s : samples) asked.push_back(s.get());
  std::vector<float> out(asked.size());
  const std::lock_guard lock(mutex_);
  const ComputeLease compute(model_->runtime(), "scores");
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  impl_->trainer->scores(asked, out);
  return out;
}

std::vector<float> TrainerPart::logprobs(std::span<const int32_t> ids, int64_t prompt_tokens,
                                         float temperature) {
  require_scores(false, "log-probs");
  Sample sample;
  sample.ids.assign(ids.begin(), ids.end());
  if (prompt_tokens < 1 || prompt_tokens > static_cast<int64_t>(ids.size())) {
    throw Error(Code::kOutOfRange,
                str("prompt_tokens is ", prompt_tokens, " of ", ids.size(), " ids"))
        .with_key("prompt_tokens")
        .with_expected(str("1..", ids.size()));
  }
  sample.prompt_tokens = static_cast<int32_t>(prompt_tokens);
  sample.temperature = temperature;
  std::vector<float> out(static_cast<size_t>(sample.generated()));
  const Sample* samples[] = {&sample};
  const std::span<float> outs[] = {out};
  const std::lock_guard lock(mutex_);
  const ComputeLease compute(model_->runtime(), "log-probs");
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  impl_->trainer->logprobs(model_->model(), samples, outs);
  return out;
}

// The policy's write lease is held while either of them trains.
void TrainerPart::save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const {
  CriticRole::save(impl_->critic.get(), *model_, dir, dtype, replace_existing);
}

TensorPtr TrainerPart::hidden(std::span<const int32_t> ids) {
  Sample sample;
  sample.ids.assign(ids.begin(), ids.end());
  sample.prompt_tokens = 1;
  const std::lock_guard lock(mutex_);
  const ComputeLease compute(model_->runtime(), "hidden states");
  model_->prepare_compute(LoadedModel::Weights::kTrained);
  return impl_->trainer->hidden(sample);
}

uint64_t TrainerPart::publish() {
  const std::lock_guard lock(mutex_);
  const auto version = model_->publish_packed([&] { return impl_->trainer->publish(); });
  if (version) return *version;
  const ComputeLease compute(model_->runtime(), "publishing a half-trained model");
  const LoadedModel::WriteLease write(*model_, 0);
  return impl_->trainer->publish_masters();
}

uint64_t TrainerPart::trained_version() const {
  const std::lock_guard lock(mutex_);
  return impl_->trained_version;
}

}  // namespace rl
