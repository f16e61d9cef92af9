// The policy trains first: it is the one that may refuse a batch, and then the critic has not
// trained on it either. While the critic warms up the policy is not trained.
#include "pipeline/update/policy_update.h"

#include "core/error.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/role_models.h"
#include "pipeline/session/step_watch.h"

namespace rl {

// If it is destroyed before finish, the watch notes what the weights have become.
struct PolicyUpdate::InProgress {
  InProgress(LoadedModel& model, const Trainer& trainer) : watch(model, &trainer) {}
  StepWatch watch;
  PreparedBatch batch;
  bool trains_policy = true;  // false while the critic warms up
};

PolicyUpdate::PolicyUpdate(LoadedModel& model, const Settings& settings, const MemoryPlan& plan,
                           std::byte* workspace)
    : model_(model),
      sizes_{plan.max_tokens, plan.max_model_len, plan.step_samples},
      preparation_(settings),
      kl_(settings),
      reference_(load_reference(model, settings)) {
  Runtime& runtime = model.runtime();
  trainer_ = std::make_unique<Trainer>(model.model(), reference_.get(), trainer_options(settings),
                                       workspace,
                                       TrainerTools{&runtime.tracer(), TraceLane::kTrain,
                                                    &runtime.clock(), &runtime.compute_queue()});
  critic_ = CriticRole::make(model, settings, plan, workspace);
  teacher_ = TeacherRole::make(model, settings, plan, workspace);
  if (teacher_ != nullptr) trainer_->set_row_teacher(teacher_->rows());
}

PolicyUpdate::~PolicyUpdate() = default;

TrainerOptions PolicyUpdate::trainer_options(const Settings& settings) const {
  TrainerOptions options =
      trainer_options_from(settings, sizes_.max_tokens, sizes_.max_sequence, sizes_.step_samples);
  if (kl_.in_loss()) options.kl_coef = kl_.value();
  return options;
}

void PolicyUpdate::set_options(const Settings& settings) {
  kl_.set_options(settings);
  preparation_.set_options(settings);
  trainer_->set_options(trainer_options(settings));
  if (critic_ != nullptr) critic_->set_options(settings);
}

void PolicyUpdate::set_trainer_coefficient() {
  if (!kl_.in_loss()) return;
  TrainerOptions options = trainer_->options();
  options.kl_coef = kl_.value();
  trainer_->set_options(options);
}

void PolicyUpdate::restore_kl(double coefficient) {
  kl_.restore(coefficient);
  set_trainer_coefficient();
}

void PolicyUpdate::swap_custom_loss(CustomLoss& loss) {
  loss_.swap(loss);
  trainer_->set_custom_loss(loss_);
}

BatchPreparation::Workers PolicyUpdate::workers() {
  return {*trainer_,        reference_.get(), model_.runtime().clock(), kl_, &advantage_,
          trained_critic(), teacher_.get()};
}

std::unique_ptr<PolicyUpdate::InProgress> PolicyUpdate::start(uint64_t steps_done) {
  current_.reset();
  auto update = std::make_unique<InProgress>(model_, *trainer_);
  update->trains_policy = critic_ == nullptr || !critic_->policy_waits(steps_done);
  return update;
}

void PolicyUpdate::begin(const ScoredSamples& batch, uint64_t steps_done) {
  auto update = start(steps_done);
  update->batch = preparation_.prepare(batch, workers());
  if (update->trains_policy) trainer_->begin(update->batch.train);
  current_ = std::move(update);
}

void PolicyUpdate::begin_given(std::span<const SamplePtr> samples, std::span<const double> scores,
                               std::span<const double> advantages, uint64_t steps_done) {
  auto update = start(steps_done);
  update->batch = preparation_.prepare_given(samples, scores, advantages, workers());
  if (update->trains_policy) trainer_->begin(update->batch.train);
  current_ = std::move(update);
}

bool PolicyUpdate::next() {
  RL_CHECK(current_ != nullptr);
  auto update = std::move(current_);  // an error ends it
  const bool more = update->trains_policy && trainer_->next();
  current_ = std::move(update);
  return more;
}

UpdateResult PolicyUpdate::finish() {
  RL_CHECK(current_ != nullptr);
  const auto update = std::move(current_);  // an error ends it
  PreparedBatch& batch = update->batch;
  UpdateResult out;
  TrainMetrics& trained = out.trained;
  if (update->trains_policy) {
    trained = trainer_->finish();
    if (model_.published_apart()) {
      trainer_->stage();
    } else {
      trainer_->publish(trained);
    }
  }
  out.applied = trained.optimizer_steps > 0;
  out.skipped = trained.skipped_steps > 0;
  if (critic_ != nullptr) {
    const CriticMetrics critic = critic_->step(batch);
    out.applied = out.applied || critic.optimizer_steps > 0;
    out.skipped = out.skipped || critic.skipped_steps > 0;
  }
  batch.count(trained);
  out.num_samples = static_cast<int64_t>(batch.train.size());
  if (trained.optimizer_steps > 0 && kl_.adaptive()) {
    kl_.update(kl_.in_loss() ? trained.kl : batch.penalty_kl, out.num_samples);
    set_trainer_coefficient();
  }
  out.metrics = std::move(batch.metrics);
  update->watch.done();
  return out;
}

bool PolicyUpdate::has_steps_left() const {
  RL_CHECK(current_ != nullptr);
  return current_->trains_policy && trainer_->has_steps_left();
}

bool PolicyUpdate::abandon() {
  RL_CHECK(current_ != nullptr);
  const auto update = std::move(current_);  // its watch notes what the weights have become
  return !update->trains_policy || trainer_->abandon();
}

UpdateResult PolicyUpdate::without_samples() {
  PreparedBatch batch = preparation_.prepare({}, workers());
  UpdateResult out;
  if (critic_ != nullptr) critic_->step(batch);
  out.metrics = std::move(batch.metrics);
  return out;
}

std::string PolicyUpdate::save(FileSystem& fs, const std::string& dir, const CheckpointMeta& meta,
                               const CheckpointRules& rules) {
  return trainer_->save(fs, dir, meta, rules, trained_critic());
}

void PolicyUpdate::load(FileSystem& fs, const std::string& path, const std::string& config_digest) {
  trainer_->load(fs, path, config_digest, trained_critic());
}

void PolicyUpdate::save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const {
  CriticRole::save(critic_.get(), model_, dir, dtype, replace_existing);
}

std::vector<std::span<std::byte>> PolicyUpdate::memory() {
  std::vector<std::span<std::byte>> memory = trainer_->memory();
  if (critic_ == nullptr) return memory;
  const std::vector<std::span<std::byte>> more = critic_->critic().memory();
  memory.insert(memory.end(), more.begin(), more.end());
  return memory;
}

}  // namespace rl
