// A model in training: its gradients, moments, averages and backward packed weights, and the
// counters of its optimizer steps. The policy's trainer and the critic have one each.
//
// 1. An optimizer step whose loss or gradient is not finite, or too large for the moments, changes
//    nothing: masters, moments and optimizer_steps stay, and the skip is counted.
// 2. Frozen parameters keep their bits and have neither gradients nor moments.
// 3. Packed matrices match the masters after stage() and, for backward, after prepare().
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/adamw_state.h"
#include "train/optimizer/ema_weights.h"
#include "train/optimizer/host_copy.h"
#include "train/optimizer/muon_steps.h"
#include "train/options/step_options.h"
#include "train/options/trainer_options.h"
#include "train/passes/micro_batch_pass.h"
#include "train/passes/train_buffers.h"

namespace rl {

// Bytes of a learner, and of the workspace of its passes.
TrainerSizes plan_learner(const TrainShape& shape, const StepOptions& options);
// What a checkpoint has of it.
StoredBytes stored_bytes(const WeightLayout& layout, const OptimizerOptions& options);

class Learner {
 public:
  // Reserves the backward packed weights, and of what is trained gradients and moments (zero) and,
  // with optimizer.ema, averages.
  explicit Learner(Model& model, const TrainableRule& trainable = {},
                   BackwardPacking packing = BackwardPacking::kByLayer,
                   const OptimizerOptions& optimizer = {}, const LearnerTools& tools = {});

  Model& model() const { return model_; }
  AdamwState& state() { return state_; }
  const AdamwState& state() const { return state_; }
  const WeightLayout& layout() const { return layout_; }
  // last: of the last micro-batch of a minibatch on this rank.
  MicroBatchPass::Training training(bool last);
  std::vector<std::span<std::byte>> memory() const;

  // Packs what is stale and zeroes the gradients.
  void prepare();
  // Between updates: averages, moments and, if they are held, gradients go to memory of the host,
  // in an arena "optimizer states, asleep", and the memory of the device to the system. Nothing but
  // wake() may follow, which restores every bit. An error leaves the learner as it was.
  void sleep(bool holds_gradients);
  void wake();
  struct Outcome {
    bool applied = false;
    double grad_norm = 0;  // before clipping; valid only if applied, as is lr
    double lr = 0;
  };
  // Clips the gradients and updates the masters. Of several ranks all call it together, after
  // AdamwState::sum_over_ranks().
  Outcome update(const StepOptions& options, bool finite_loss);
  // The last `count` updates were skipped, and their step is undone: they are not counted.
  void forget_skipped(int64_t count) { skipped_steps_ -= count; }
  // Packs the masters, so that publish() only has to assign the version.
  void stage();
  // Publishes trained masters as the model's version + 1; does nothing if there was no update
  // since the last publication. Returns the version.
  uint64_t publish();
  // The same for masters changed by something else: another learner of the model, which may no
  // longer exist.
  uint64_t publish_masters();
  // Whether the trained weights are not yet published, whichever learner changed them.
  bool unpublished() const {
    return model_.masters_changed() || &model_.trained() != &model_.published() ||
           (release_at_update_ && *release_at_update_ == model_.published().release());
  }

  // With optimizer.ema: the masters of the trained parameters and their averages change places,
  // and the masters are packed and published under the present version. Twice is once nothing.
  // The masters must be published.
  void exchange_averages();
  // Packs a frozen model of the same shape from the averages, and what is not trained.
  void copy_averages(Model& to);
  bool keeps_averages() const { return averages_.kept(); }

  TrainerCounters counters() const { return {optimizer_steps_, skipped_steps_, model_.version()}; }
  int64_t optimizer_steps() const { return optimizer_steps_; }
  // For a checkpoint. States may be in parts (StateTensor::first). A load reads into the gradients
  // first, then into the arrays, and calls
  // masters_read(). After loaded(), which may fail while it packs the arrays, the model is
  // published as the counters say and the gradients are zero.
  CheckpointArrays arrays();
  void masters_read() { model_.mark_masters_changed(); }
  void loaded(const TrainerCounters& counters);
  // lost: the arrays that it had begun to change, in words; null: none.
  void load_failed(const char* lost, const std::string& path);
  // Error(kFailedPrecondition) while something is lost.
  void require_whole() const;

 private:
  void apply(const StepOptions& options, const AdamwStepInput& input);
  void gather_masters();

  Model& model_;
  const WeightLayout layout_;  // the model's, with what this learner trains
  const UpdateRuns runs_;
  AdamwState state_;
  Muon muon_;
  EmaWeights averages_;
  BackwardWeights backward_;
  const LayerDone layer_done_ = [this](int64_t layer) { state_.start_sum(layer); };
  const bool packs_as_they_come_;  // OptimizerOptions::zero
  HostCopy asleep_;
  struct Lost {
    std::string what, path;
  };
  Lost lost_;  // the arrays that a failed load corrupted, and its checkpoint; empty: none
  int64_t optimizer_steps_ = 0, skipped_steps_ = 0;
  std::optional<uint64_t>
      release_at_update_;  // ComputeCopy::release() published at the last update
};

}  // namespace rl
