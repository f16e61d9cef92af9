// The policy trains first: it is the one that may refuse a batch, and then the critic has not
// trained on it either. While the critic warms up the policy is not trained.
#include "pipeline/update/policy_update.h"

#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "pipeline/config/run_options.h"
#include "pipeline/ranks/rank_options.h"
#include "pipeline/session/role_models.h"
#include "pipeline/session/step_watch.h"
#include "pipeline/update/hf_checkpoint.h"
#include "pipeline/update/step_metrics.h"

namespace rl {

// If it is destroyed before finish, the watch notes what the weights have become.
struct PolicyUpdate::InProgress {
  InProgress(LoadedModel& model, const Trainer& trainer)
      : watch(model, &trainer), exchanged(model.runtime().ranks().traffic()) {}
  StepWatch watch;
  SampleCut::Batch cut;  // of which the batch is made
  PreparedBatch batch;
  bool trains_policy = true;  // false while the critic warms up
  const Traffic exchanged;    // by this rank before
};

struct PolicyUpdate::Held {
  PreparedBatch batch;
  uint64_t num_packings = 0;  // of the model, when the gradients were computed
};

PolicyUpdate::PolicyUpdate(LoadedModel& model, const Settings& settings, const MemoryPlan& plan,
                           std::byte* workspace, bool in_run)
    : model_(model),
      sizes_{plan.max_tokens, plan.max_model_len, plan.step_samples},
      host_workspace_(kHostWorkspace, plan.host_workspace_bytes(), Touch::kLater,
                      &model.runtime().ledger()),
      checkpoint_copy_(plan.bytes_of(kCheckpointCopy), &model.runtime().ledger()),
      backup_(plan.bytes_of(kWeightsBackup), &model.runtime().ledger()),
      cut_(settings),
      preparation_(settings),
      kl_(settings),
      averaged_reference_(settings.reference.weights == ReferenceWeights::kEma),
      shares_reference_(in_run && reference_is_policy(model, settings)),
      reference_(
          load_reference(model, settings, shares_reference_, plan.reference_weights(workspace))),
      rank_options_(shared_options(settings.set)) {
  Runtime& runtime = model.runtime();
  trainer_ = std::make_unique<Trainer>(
      model.model(), reference(), trainer_options(settings), workspace,
      TrainerTools{&runtime.tracer(), TraceLane::kTrain, &runtime.clock(), &runtime.compute_queue(),
                   host_workspace_.data(), plan.lent_gradients("policy", workspace),
                   runtime.data_ranks(), runtime.context_ranks()});
  critic_ = CriticRole::make(
      model, settings, plan,
      {workspace, host_workspace_.data(), plan.lent_gradients("critic", workspace)});
  teacher_ = TeacherRole::make(model, settings, plan, workspace);
  if (teacher_ != nullptr) trainer_->set_row_teacher(teacher_->rows());
  refresh_reference();
}

PolicyUpdate::~PolicyUpdate() = default;

TrainerOptions PolicyUpdate::trainer_options(const Settings& settings) const {
  TrainerOptions options =
      trainer_options_from(settings, sizes_.max_tokens, sizes_.max_sequence, sizes_.step_samples);
  if (kl_.in_loss()) options.kl_coef = kl_.value();
  return options;
}

void PolicyUpdate::set_options(const Settings& settings) {
  held_.reset();
  kl_.set_options(settings);
  preparation_.set_options(settings);
  trainer_->set_options(trainer_options(settings));
  if (critic_ != nullptr) critic_->set_options(settings);
  rank_options_ = shared_options(settings.set);
}

void PolicyUpdate::set_trainer_coefficient() {
  if (!kl_.in_loss()) return;
  TrainerOptions options = trainer_->options();
  options.kl_coef = kl_.value();
  trainer_->set_options(options);
}

// So that the reference has the trainer's averages, if it is to.
void PolicyUpdate::refresh_reference() {
  if (averaged_reference_ && reference_ != nullptr) trainer_->copy_averages(*reference_);
}

const Model* PolicyUpdate::reference() const {
  return shares_reference_ ? &model_.model() : reference_.get();
}

void PolicyUpdate::begin_run(const Settings& settings) {
  if (!shares_reference_ || reference_is_policy(model_, settings)) return;
  fill_reference(model_, settings, *reference_);
  trainer_->set_reference(*reference_);
  shares_reference_ = false;
}

// While the masters still are those of the beginning.
void PolicyUpdate::pack_reference() {
  if (!shares_reference_) return;
  reference_->copy_masters(model_.model());
  trainer_->set_reference(*reference_);
  shares_reference_ = false;
}

// Log-probs of the reference are computed when the trainer begins.
void PolicyUpdate::begin_policy(const PreparedBatch& batch) {
  trainer_->begin(batch.train);
  pack_reference();
}

void PolicyUpdate::back_up() {
  if (backup_.reserved()) trainer_->back_up(backup_, trained_critic());
}

// An error here leaves the model half-trained, and the error that led here is the one to report.
bool PolicyUpdate::undo() {
  if (!backup_.taken()) return false;
  try {
    trainer_->restore(backup_, trained_critic());
    backup_.drop();
    return true;
  } catch (const std::exception&) {
    return false;
  }
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
  return {*trainer_,        reference(),   model_.runtime().clock(), kl_, &advantage_,
          trained_critic(), teacher_.get()};
}

std::unique_ptr<PolicyUpdate::InProgress> PolicyUpdate::start(uint64_t steps_done) {
  current_.reset();
  held_.reset();
  backup_.drop();
  require_same_options(model_.runtime().data_ranks(), rank_options_);
  auto update = std::make_unique<InProgress>(model_, *trainer_);
  update->trains_policy = critic_ == nullptr || !critic_->policy_waits(steps_done);
  return update;
}

// The other ranks hear of a batch that is refused here where their policies begin to train.
void PolicyUpdate::prepare(InProgress& update, FunctionRef<void()> work) {
  try {
    work();
  } catch (...) {
    if (update.trains_policy) trainer_->refuse();
    throw;
  }
}

void PolicyUpdate::begin(const ScoredSamples& batch, uint64_t steps_done) {
  auto update = start(steps_done);
  prepare(*update, [&] {
    update->cut = cut_.apply(batch);
    update->batch = preparation_.prepare(update->cut.view(), workers());
    cut_.count(update->cut, update->batch.metrics);
  });
  if (update->trains_policy) begin_policy(update->batch);
  back_up();
  current_ = std::move(update);
}

void PolicyUpdate::begin_given(std::span<const SamplePtr> samples, std::span<const double> scores,
                               std::span<const double> advantages, uint64_t steps_done) {
  auto update = start(steps_done);
  prepare(*update, [&] {
    update->cut = cut_.apply({samples, scores});
    update->batch =
        preparation_.prepare_given(update->cut.view().samples, scores, advantages, workers());
    cut_.count(update->cut, update->batch.metrics);
  });
  if (update->trains_policy) begin_policy(update->batch);
  back_up();
  current_ = std::move(update);
}

bool PolicyUpdate::next() {
  RL_CHECK(current_ != nullptr);
  auto update = std::move(current_);  // an error ends it
  try {
    const bool more = update->trains_policy && trainer_->next();
    current_ = std::move(update);
    return more;
  } catch (...) {
    undo();  // while the update watches what the weights become
    throw;
  }
}

UpdateResult PolicyUpdate::finish() {
  RL_CHECK(current_ != nullptr);
  const auto update = std::move(current_);  // an error ends it
  return finish(*update);
}

void PolicyUpdate::publish(TrainMetrics& step) {
  if (model_.published_apart() && step.optimizer_steps > 0) trainer_->publish(step);
}

UpdateResult PolicyUpdate::finish(InProgress& update) {
  try {
    UpdateResult out = complete(update);
    backup_.drop();
    return out;
  } catch (...) {
    undo();
    throw;
  }
}

UpdateResult PolicyUpdate::complete(InProgress& update) {
  PreparedBatch& batch = update.batch;
  UpdateResult out;
  TrainMetrics& trained = out.trained;
  if (update.trains_policy) {
    trained = trainer_->finish();
    if (model_.published_apart()) {
      trainer_->stage();
    } else {
      trainer_->publish(trained);
    }
  }
  out.applied = trained.optimizer_steps > 0;
  out.skipped = trained.skipped_steps > 0;
  if (trained.optimizer_steps > 0) refresh_reference();
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
  add_traffic(update.exchanged, out.metrics);
  update.watch.done();
  return out;
}

namespace {

[[noreturn]] void refuse_part(const char* key, std::string_view what) {
  throw Error(Code::kUnsupported, str("counts of a larger batch are given, but ", what))
      .with_key(key);
}

// The groups of a part are whole. Some advantages need the samples of all groups.
void require_groups_alone(const AdvantageOptions& o) {
  const AdvantageParams& estimator = o.estimator;
  if (o.whitening != Whitening::kNone) {
    refuse_part("algo.whiten", "advantages would be whitened over a part of it");
  }
  if (o.shaping.normalize) {
    refuse_part("algo.reward.normalize", "rewards would be normalized over a part of it");
  }
  if (estimator.kind == Advantage::kGpg || estimator.kind == Advantage::kFlashReinforce) {
    refuse_part("algo.advantage", str("algo.advantage = ", advantage_name(estimator.kind),
                                      " would compare the rewards of a part of it"));
  }
  if (estimator.std_scope == AdvStdScope::kBatch) {
    refuse_part("algo.adv_std_scope", "advantages would be divided by the std of a part of it");
  }
}

}  // namespace

// What is computed over all samples of a batch before its loss.
void PolicyUpdate::check_divisible(const GradientBatch& batch) const {
  if (critic_ != nullptr) {
    throw Error(Code::kUnsupported,
                "gradients are those of the policy, but gae trains a critic as well")
        .with_key("algo.advantage");
  }
  if (batch.whole.num_tokens == 0 && batch.whole.num_sequences == 0) return;
  if (kl_.adaptive()) {
    refuse_part("algo.kl.controller", "the adaptive controller would see a part of its KL");
  }
  if (!batch.advantages) require_groups_alone(preparation_.options());
}

void PolicyUpdate::begin_gradients(const GradientBatch& batch) {
  auto update = start(0);
  prepare(*update, [&] {
    check_divisible(batch);
    update->cut = cut_.apply(batch.scored);
    const ScoredSamples scored = update->cut.view();
    update->batch = batch.advantages ? preparation_.prepare_given(scored.samples, scored.scores,
                                                                  *batch.advantages, workers())
                                     : preparation_.prepare(scored, workers());
    cut_.count(update->cut, update->batch.metrics);
    // They live until the update is applied, also if the caller's batch ends before.
    std::vector<SamplePtr>& samples = update->batch.completed.samples;
    if (samples.empty()) samples.assign(scored.samples.begin(), scored.samples.end());
  });
  trainer_->begin_gradients(update->batch.train, batch.whole);
  current_ = std::move(update);
}

void PolicyUpdate::hold() {
  RL_CHECK(current_ != nullptr);
  const auto update = std::move(current_);
  held_.reset(new Held{std::move(update->batch), model_.model().num_packings()});
}

void PolicyUpdate::require_held() const {
  if (held_ == nullptr) {
    throw Error(Code::kFailedPrecondition,
                "there are no gradients: none were computed since the "
                "last training step, change of options or load")
        .with_expected("rl_trainer_backward");
  }
  if (held_->num_packings == model_.model().num_packings()) return;
  throw Error(Code::kFailedPrecondition,
              "the weights have changed since the gradients were computed")
      .with_expected("rl_trainer_backward");
}

Trainer& PolicyUpdate::held() {
  require_held();
  return *trainer_;
}

UpdateResult PolicyUpdate::apply() {
  require_held();
  InProgress update(model_, *trainer_);
  update.batch = std::move(held_->batch);
  held_.reset();
  back_up();
  try {
    trainer_->apply();
  } catch (...) {
    undo();
    throw;
  }
  return finish(update);
}

bool PolicyUpdate::has_steps_left() const {
  RL_CHECK(current_ != nullptr);
  return current_->trains_policy && trainer_->has_steps_left();
}

bool PolicyUpdate::abandon() {
  RL_CHECK(current_ != nullptr);
  const auto update = std::move(current_);  // its watch notes what the weights have become
  return !update->trains_policy || trainer_->abandon() || undo();
}

void PolicyUpdate::add_traffic(const Traffic& before, MetricList& metrics) const {
  Runtime& runtime = model_.runtime();
  if (runtime.data_ranks().alone() && runtime.stage_ranks().alone() &&
      runtime.tensor_ranks().size() == 1)
    return;
  metrics.append(traffic_metrics(runtime.ranks().traffic() - before));
}

UpdateResult PolicyUpdate::without_samples() {
  const Traffic before = model_.runtime().ranks().traffic();
  PreparedBatch batch = preparation_.prepare({}, workers());
  cut_.count({}, batch.metrics);
  UpdateResult out;
  if (critic_ != nullptr) critic_->step(batch);
  out.metrics = std::move(batch.metrics);
  add_traffic(before, out.metrics);
  return out;
}

std::string checkpoint_digest(const OptionSet& options, const MemoryPlan& plan,
                              uint64_t data_digest) {
  Digest64 digest;
  digest.update_u64(options.identity_of_any_layout());
  digest.update(dtype_name(plan.compute));
  digest.update_u64(static_cast<uint64_t>(plan.max_tokens));
  digest.update_u64(static_cast<uint64_t>(plan.max_model_len));
  digest.update_u64(data_digest);
  return hex64(digest.value());
}

void PolicyUpdate::make_checkpoint(FunctionRef<void()> write) {
  ranks_wait_ = trainer_->has_states_in_parts();
  const auto call_off = [&] {
    if (std::exchange(ranks_wait_, false)) trainer_->call_off_checkpoint();
  };
  try {
    write();
  } catch (const RankError&) {
    throw;
  } catch (...) {
    call_off();
    throw;
  }
  call_off();
}

void PolicyUpdate::give_states(const CheckpointContents& contents) {
  trainer_->give_states(contents, trained_critic());
}

CheckpointDraft PolicyUpdate::draft_states(const CheckpointMeta& meta) {
  CheckpointDraft draft = trainer_->draft(meta, trained_critic());
  ranks_wait_ = false;
  return draft;
}

CheckpointDraft PolicyUpdate::draft(const CheckpointMeta& meta) {
  CheckpointDraft draft = draft_states(meta);
  add_hf_model(model_, draft);
  return draft;
}

CheckpointDraft PolicyUpdate::draft_of_copy(const CheckpointMeta& meta) {
  CheckpointDraft draft = draft_states(meta);
  const bool gathers = model_.model().master_cut().divides();  // before what the copy takes
  if (gathers) add_hf_model(model_, draft);
  checkpoint_copy_.take(draft);
  if (!gathers) add_hf_model(model_, draft);
  return draft;
}

void PolicyUpdate::load(FileSystem& fs, const std::string& path, const std::string& config_digest) {
  held_.reset();
  pack_reference();
  trainer_->load(fs, path, config_digest, trained_critic());
  refresh_reference();
}

void PolicyUpdate::save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const {
  CriticRole::save(critic_.get(), model_, dir, dtype, replace_existing);
}

void PolicyUpdate::sleep() {
  RL_CHECK(current_ == nullptr);
  trainer_->sleep(held_ != nullptr);
  if (critic_ == nullptr) return;
  try {
    critic_->critic().sleep();
  } catch (...) {
    trainer_->wake();
    throw;
  }
}

void PolicyUpdate::wake() {
  trainer_->wake();
  if (critic_ != nullptr) critic_->critic().wake();
}

std::vector<std::span<std::byte>> PolicyUpdate::memory() {
  std::vector<std::span<std::byte>> memory = trainer_->memory();
  if (host_workspace_.bytes() != 0) memory.push_back(host_workspace_.span());
  if (!checkpoint_copy_.memory().empty()) memory.push_back(checkpoint_copy_.memory());
  if (!backup_.memory().empty()) memory.push_back(backup_.memory());
  if (critic_ == nullptr) return memory;
  const std::vector<std::span<std::byte>> more = critic_->critic().memory();
  memory.insert(memory.end(), more.begin(), more.end());
  return memory;
}

}  // namespace rl
