// The trainer as the host drives it: a step on scored samples, whole or in two halves, log-probs,
// publication and checkpoints, on its own arenas. With one compute copy a step while requests run
// on the model is Error(kBusy); with two, engine steps of other threads come between its
// micro-batches (compute_lease.h). A call that waits to compute lets those in that do not.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "core/function_ref.h"
#include "core/tensor.h"
#include "pipeline/session/event_kinds.h"
#include "pipeline/session/loaded_model.h"
#include "pipeline/session/model_forward.h"
#include "pipeline/update/trainer_state.h"
#include "profile/metrics.h"
#include "train/trainer.h"

namespace rl {

// Metrics of a step, its number, and the resulting version.
struct TrainedStep : MetricList {
  uint64_t step = 0;     // steps done, including this one
  uint64_t version = 0;  // the version of the weights, now or once published
};

struct UpdateResult;

class TrainerSession {
 public:
  TrainerSession(std::shared_ptr<LoadedModel> model, const Settings& settings);
  ~TrainerSession();
  TrainerSession(const TrainerSession&) = delete;

  // One training step over scored samples. With one compute copy it also publishes: if an
  // optimizer step was applied, the model's version grows by one. With two copies publish() does
  // that. Samples with the same ordinal form a group; the batch is sorted by (ordinal, slot),
  // whatever order they came in. Error(kFailedPrecondition) names a sample without a reward; given
  // responses need none. A step that fails after an optimizer step leaves the model half-trained
  // (loaded_model.h). rewards: one per sample; those stored in the samples are not read.
  TrainedStep step(std::span<const SamplePtr> samples, std::span<const SampleRewards> rewards);
  TrainedStep step(std::span<const SamplePtr> samples);  // with the samples' own rewards
  // The same with the host's advantages, one per sample in the order given.
  TrainedStep step_with_advantages(std::span<const SamplePtr> samples,
                                   std::span<const SampleRewards> rewards,
                                   std::span<const double> advantages);
  TrainedStep step_with_advantages(std::span<const SamplePtr> samples,
                                   std::span<const double> advantages);
  // One optimizer step in two halves: backward computes the gradients of a batch or of a part of
  // one, apply clips them as they are then and updates the weights. Between the two the host may
  // change the gradients, and forwards may run; a step, set_options and load discard them. The
  // errors of apply before the weights change leave them as they were.
  struct Part {
    std::span<const SamplePtr> samples;
    std::span<const SampleRewards> rewards;
    std::optional<std::span<const double>> advantages = {};
    LossDenominators whole = {};  // GradientBatch
  };
  void backward(const Part& part);
  TrainedStep apply();
  // The gradients in place: those of one parameter, or all in one row if name is empty. The tensor
  // keeps the trainer alive. Error(kFailedPrecondition) unless there are gradients, kNotFound for
  // a name that is not trained.
  static TensorPtr gradient(const std::shared_ptr<TrainerSession>& trainer, std::string_view name);
  // The same as values of their own, which other calls of the trainer do not change meanwhile.
  TensorPtr copy_gradient(std::string_view name);
  // The same in memory of the device, if that has memory of its own, ordered before what `stream`
  // gets later (StreamOrder::lead). kFailedPrecondition after gradient() of the same gradients, and
  // the other way round; no call that fails decides where they are.
  static TensorPtr device_gradient(const std::shared_ptr<TrainerSession>& trainer,
                                   std::string_view name, bool copied, void* stream = nullptr);
  // Changes what may change between steps; kNotChangeable naming the first other option that
  // differs from those of the trainer.
  void set_options(const Settings& settings);
  // Ends a step or backward that computes now, with its micro-batch, or that waits to compute:
  // Error(kCancelled). Without an optimizer step so far nothing has changed; between two of them
  // the model is half-trained; after the last one the step ends as if there had been no cancel. No
  // effect while there is none.
  void cancel();
  // A checkpoint of the weights, the optimizer, the counters and a text of the host in dir, of
  // which the newest keep_last are kept (0: all). Returns its path. kFailedPrecondition while
  // weights are not published or the model is half-trained.
  struct Checkpoint {
    std::string dir;
    std::string host;
    int64_t keep_last = 0;
    bool replace_existing = false;
  };
  std::string save(const Checkpoint& checkpoint);
  // Loads a checkpoint, or the newest one of a directory of them, and publishes its weights as its
  // version. The trainer continues where the saved one was. Errors: load_checkpoint.
  TrainerState load(const std::string& path);
  // Events of finished steps, of checkpoints and of published weights go there from now on, with
  // this number; null: nowhere. Waits for nothing.
  void set_queue(std::shared_ptr<EventQueue> queue, uint64_t source);
  // As last set. Waits for nothing.
  OptionSet options() const;
  // The host's own algorithms, for later steps; null removes one.
  void set_custom_advantage(CustomAdvantage advantage);
  void set_custom_loss(CustomLoss loss);
  // Log-probs of the tokens after each prompt under the trained weights, at the temperatures of
  // the samples, one sample after the other.
  std::vector<float> logprobs(std::span<const SamplePtr> samples);
  // Those of ids[prompt_tokens..], at a temperature > 0.
  std::vector<float> logprobs(std::span<const int32_t> ids, int64_t prompt_tokens,
                              float temperature);
  // The value at the last token of each sample under the trained weights.
  // Error(kFailedPrecondition) unless algo.objective is reward_model.
  std::vector<float> scores(std::span<const SamplePtr> samples);
  // Writes the critic as LoadedModel::save writes the policy; Error(kFailedPrecondition) if there
  // is no critic.
  void save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const;
  // Final hidden states of all ids under the trained weights: (tokens, hidden) in the compute
  // dtype.
  TensorPtr hidden(std::span<const int32_t> ids);
  // Any output of a forward under the trained weights; values are those of the critic, if there is
  // one.
  TensorPtr forward(const ForwardRequest& request);
  // Makes the trained weights what engines read from their next step on, whatever is running;
  // returns their version. With one compute copy a step has already done this. The weights of a
  // half-trained model are packed first: kBusy while anything computes or engines have requests on
  // the copy.
  uint64_t publish();
  // Between steps: optimizer states, averages and held gradients go to memory of the host, and the
  // memory of the device, with the workspace, to the system. Until wake() whatever needs them is
  // Error(kFailedPrecondition). Once asleep or awake, the same again has no effect.
  void sleep();
  void wake();
  // The version that the weights of the last step have, or will get when published.
  uint64_t trained_version() const;
  LoadedModel& model() { return *model_; }

 private:
  struct Impl;
  // Throws unless the trained model has scores (or log-probs), as wanted.
  void require_scores(bool wanted, const char* what) const;
  void require_awake() const;  // under the lock of the state
  TensorPtr gradient_locked(std::string_view name, std::shared_ptr<const void> owner);
  // Of the gradients in `held`, which are in memory of the device, those of a parameter, or all.
  TensorPtr gradient_on_device(const DeviceFloats& held, std::string_view name,
                               std::shared_ptr<const void> owner) const;
  // Of all gradients those of a parameter, or all.
  Tensor::Description gradient_at(std::span<float> all, std::string_view name) const;
  // Error(kNotFound) with the nearest names.
  const Parameter& trained_parameter(std::string_view name) const;
  // One update. begin is called under the leases and begins it.
  TrainedStep update(FunctionRef<void()> begin);
  // Runs what begin began to its last micro-batch, or to a cancel.
  void run_update(FunctionRef<void()> begin);
  TrainedStep finished(UpdateResult result);
  std::optional<uint64_t> publish_packed();
  void give_states();
  std::pair<CheckpointMeta, TrainerState> read_state(const std::string& found) const;
  std::string save_steady(const Checkpoint& checkpoint);  // while the weights cannot change
  std::shared_ptr<LoadedModel> model_;
  class Turn;
  class Publication;
  std::mutex computing_;      // of a call that computes, from before its wait; locked first
  mutable std::mutex mutex_;  // of what follows
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl
