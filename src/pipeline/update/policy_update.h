// One update of the policy: log-probs that are missing, values, advantages, the trainer, the
// critic, the KL coefficient. It owns the models and algorithms that take part, for the pipeline
// and for a host's own trainer alike. Invariants:
// 1. The trainer's options contain the coefficient that the KL controller has reached.
// 2. An update that fails after an optimizer step leaves the model half-trained (loaded_model.h).
// One owner; not thread-safe.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "pipeline/session/loaded_model.h"
#include "pipeline/update/batch_preparation.h"
#include "pipeline/update/critic_role.h"
#include "pipeline/update/kl_coefficient.h"
#include "pipeline/update/sample_cut.h"
#include "pipeline/update/teacher_role.h"
#include "train/checkpoint/checkpoint_copy.h"
#include "train/checkpoint/weights_backup.h"
#include "train/trainer.h"

namespace rl {

struct UpdateResult {
  MetricList metrics;       // of the batch and the critic
  TrainMetrics trained;     // of the policy
  int64_t num_samples = 0;  // that the policy trained on, or would have after the critic's warm-up
  bool applied = false;     // an optimizer step changed the policy or the critic
  bool skipped = false;     // one was skipped: its loss or gradient was not finite
};

// A batch, or a part of one, whose gradients are wanted.
struct GradientBatch {
  ScoredSamples scored;
  // The host's advantages, one per sample; none: they are computed from the rewards.
  std::optional<std::span<const double>> advantages = {};
  LossDenominators whole = {};  // counts of the whole batch; 0: this is all of it
};

// What a run or trainer that loads a checkpoint must have in common with the one that wrote it.
std::string checkpoint_digest(const OptionSet& options, const MemoryPlan& plan,
                              uint64_t data_digest);

class PolicyUpdate {
 public:
  // workspace: plan.train_workspace_bytes, 64-byte aligned. model and workspace outlive it; the
  // caller holds the compute lease. Reserves what the plan has in host memory. in_run: it belongs
  // to a run, during which nobody else changes the model; begin_run() says when that begins.
  PolicyUpdate(LoadedModel& model, const Settings& settings, const MemoryPlan& plan,
               std::byte* workspace, bool in_run = false);
  ~PolicyUpdate();
  PolicyUpdate(const PolicyUpdate&) = delete;
  PolicyUpdate& operator=(const PolicyUpdate&) = delete;

  // A reference that would have the policy's weights is the policy itself until the first update
  // changes that, and is packed then. Whoever changes the model before the run begins ends it too.
  void begin_run(const Settings& settings);
  bool shares_reference() const { return shares_reference_; }
  // Changes what may change between steps.
  void set_options(const Settings& settings);
  Critic* trained_critic() { return critic_ != nullptr ? &critic_->critic() : nullptr; }
  // The host's own algorithms; empty removes one. The argument receives the previous function, so
  // that the caller decides when it is destroyed.
  void swap_custom_advantage(CustomAdvantage& advantage) { advantage_.swap(advantage); }
  void swap_custom_loss(CustomLoss& loss);
  bool has_custom_advantage() const { return advantage_ != nullptr; }
  bool has_custom_loss() const { return loss_ != nullptr; }

  // An update is begin, next until it returns false, finish. The caller holds the compute lease and
  // the model's write lease throughout, and the samples live until finish. A compute lease that
  // shares yields after each micro-batch, those of reference, critic and teacher included. After an
  // error in any of the three the update is over, and the next begin starts another one.
  //
  // Of several ranks each gets the whole batch, and all make these calls together (Trainer).
  // begin checks the batch and prepares it. steps_done decides whether the critic still warms up.
  void begin(const ScoredSamples& batch, uint64_t steps_done);
  // The same with the host's advantages, one per sample.
  void begin_given(std::span<const SamplePtr> samples, std::span<const double> scores,
                   std::span<const double> advantages, uint64_t steps_done);
  // Runs one micro-batch, with the optimizer step that it completes; false if none was left.
  bool next();
  // Publishes the policy, unless engines read another compute copy; then trains the critic and
  // moves the KL coefficient.
  UpdateResult finish();
  // After it, if engines read another compute copy: publishes the policy. Adds the time to the
  // metrics of the step.
  void publish(TrainMetrics& step);
  // The first half of an update of one optimizer step (Trainer::begin_gradients): begin_gradients,
  // next until it returns false, hold. apply is the second half, a finish; nothing but forwards
  // may come between, and the caller may release its leases. Error(kUnsupported) with a critic,
  // and for counts of a larger batch with what depends on all of its samples.
  void begin_gradients(const GradientBatch& batch);
  void hold();
  // Error(kFailedPrecondition) unless gradients of the present weights are held.
  void require_held() const;
  Trainer& held();
  UpdateResult apply();
  // Between begin and finish: whether optimizer steps of the policy are still to come.
  bool has_steps_left() const;
  // Ends the update between two calls of next(). True if no optimizer step was applied, or those
  // that were are undone: then nothing has changed. Otherwise the model is half-trained.
  bool abandon();
  // With trainer.weights_backup: an update that an error or abandon() ends is undone.
  bool has_backup() const { return backup_.reserved(); }
  bool has_copy() const { return backup_.taken(); }  // of the update in progress
  // A step of which no sample is left: no model changes, but the metrics are those of every step.
  UpdateResult without_samples();

  // The coefficient that a checkpoint stores, if it is not fixed.
  std::optional<double> adaptive_kl() const { return kl_.adaptive(); }
  void restore_kl(double coefficient);

  // Runs what writes a checkpoint on rank 0. Where each rank has a part of the states the others
  // wait for a draft, and hear if none was made (Trainer::has_states_in_parts).
  void make_checkpoint(FunctionRef<void()> write);
  void give_states(const CheckpointContents& contents);
  // A checkpoint of policy and critic (Trainer::load).
  void load(FileSystem& fs, const std::string& path, const std::string& config_digest);
  // What write_checkpoint writes. Its tensors are those of the models, which nothing may change
  // meanwhile.
  CheckpointDraft draft(const CheckpointMeta& meta);
  // The same of a copy, which stays as it is until the next one is taken; with checkpoint.async.
  CheckpointDraft draft_of_copy(const CheckpointMeta& meta);
  // Writes the critic as LoadedModel::save writes the policy; Error(kFailedPrecondition) if there
  // is no critic.
  void save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const;

  Trainer& trainer() { return *trainer_; }
  const AdvantageOptions& advantage_options() const { return preparation_.options(); }
  // Between updates: states, averages and held gradients go to memory of the host (Learner::sleep).
  // Nothing but wake() may follow. An error leaves everything awake.
  void sleep();
  void wake();
  // What trainer and critic reserved and first write in an update.
  std::vector<std::span<std::byte>> memory();

 private:
  struct InProgress;
  struct Held;
  struct Sizes {  // of the memory plan
    int64_t max_tokens, max_sequence, step_samples;
  };
  BatchPreparation::Workers workers();
  // The ranks come together.
  std::unique_ptr<InProgress> start(uint64_t steps_done);
  void prepare(InProgress& update, FunctionRef<void()> work);
  UpdateResult finish(InProgress& update);
  UpdateResult complete(InProgress& update);
  void check_divisible(const GradientBatch& batch) const;
  // Of this rank, since an earlier reading.
  void add_traffic(const Traffic& before, MetricList& metrics) const;
  CheckpointDraft draft_states(const CheckpointMeta& meta);
  TrainerOptions trainer_options(const Settings& settings) const;
  void set_trainer_coefficient();
  void refresh_reference();
  void begin_policy(const PreparedBatch& batch);
  void back_up();
  bool undo();
  void pack_reference();
  const Model* reference() const;

  LoadedModel& model_;
  const Sizes sizes_;
  const Arena host_workspace_;  // of trainer and critic
  CheckpointCopy checkpoint_copy_;
  WeightsBackup backup_;  // of the update in progress
  SampleCut cut_;
  BatchPreparation preparation_;
  KlCoefficient kl_;
  bool averaged_reference_;  // reference.weights = ema
  CustomAdvantage advantage_;
  CustomLoss loss_;                   // the trainer's; its last reference is dropped here
  bool shares_reference_;             // reference_ has no weights yet, and the policy stands in
  std::unique_ptr<Model> reference_;  // null: nothing needs it
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<CriticRole> critic_;    // null except with gae
  std::unique_ptr<TeacherRole> teacher_;  // null except with distill
  std::unique_ptr<InProgress> current_;   // null between updates
  std::unique_ptr<Held> held_;            // gradients that wait for apply
  bool ranks_wait_ = false;               // for the draft of a checkpoint
  std::string rank_options_;              // shared_options()
};

}  // namespace rl
