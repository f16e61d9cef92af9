// The trainer: advantages are given, it turns scored samples into optimizer steps on the model's
// masters.
//
// A step orders the samples by (ordinal, slot) and cuts them into minibatches; each is one
// optimizer step: packed micro-batches by token budget (in order, by shape alone), per micro-batch
// forward with saved activations, head, loss and head backward in chunks at the rows that carry
// loss, backward; then global-norm clipping and AdamW.
//
// 1. Loss denominators are global inputs computed before the first micro-batch (N4).
// 2. A non-finite loss or gradient norm skips the optimizer step: masters, moments and counters
//    stay, the skip is counted.
// 3. Log-probs of this forward equal the stored ones bit for bit in the first minibatch after
//    sampling (N2); with check_logprobs another bit is an error that names the token, else the
//    largest difference seen is a metric.
// 4. The workspace is read and written during calls only, so an engine may use the same bytes
//    between them.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "algo/algo_arrays.h"
#include "core/clock.h"
#include "core/fs.h"
#include "core/tensor.h"
#include "core/trace.h"
#include "data/sample.h"
#include "model/model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/losses/train_metrics.h"
#include "train/options/trainer_options.h"

namespace rl {

// A scored sample. Loss falls on the generated tokens whose loss_mask is 1; the ratio is taken
// against Sample::logprobs, for every minibatch and epoch. Only with algo.correction.decoupled is
// it taken against a forward pass at the beginning of the step, of the samples that other weights
// drew.
struct TrainSample {
  const Sample* sample = nullptr;
  double advantage = 0;  // of every token
  std::span<const float>
      token_advantages;  // empty, or one per generated token instead of `advantage`
  std::span<const float>
      ref_logprobs;          // empty, or one per generated token: the reference is not asked then
  bool carries_loss = true;  // false: all of it is masked
};

struct TrainerTools {
  const Tracer* tracer = nullptr;  // null: no spans
  uint32_t lane = 0;
  const Clock* clock = &real_clock();
};

class Critic;
class RowTeacher;

class Trainer {
 public:
  static TrainerSizes plan(const ModelConfig& config, const KvShape& kv,
                           const TrainerOptions& options, int num_threads);

  // Reserves gradients, moments (zero) and the backward packed weights. model, which has a scalar
  // head exactly with the objective reward_model, reference, workspace (at least
  // plan(...).workspace bytes, 64-byte aligned) and tools outlive the trainer. reference
  // may be null; it has the shape of model, else Error(kIncompatible), and may be driven by the
  // same Matmul.
  Trainer(Model& model, const Model* reference, const TrainerOptions& options, std::byte* workspace,
          const TrainerTools& tools = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;

  // train() and publish(). Nobody else reads the model meanwhile.
  TrainMetrics step(std::span<const TrainSample> samples);

  // What train() checks before anything runs; an error names the sample's id, the field and the
  // limit.
  void check(std::span<const TrainSample> samples) const;
  // Optimizer steps on the masters. Everything is checked before anything runs; an error names the
  // sample's id, the field and the limit. With kl_in_loss every sample needs ref_logprobs or the
  // trainer a reference. With one compute copy nobody may read the model until publish(): its norms
  // and embedding are new already, its packed matrices are not.
  TrainMetrics train(std::span<const TrainSample> samples);
  // Packs trained masters, so that publish() has only to name them. Not while anything computes.
  void stage();
  // Makes trained masters the model's version + 1. Without an optimizer step since the last one it
  // does nothing. Returns the version.
  uint64_t publish();
  // Makes the masters the model's version + 1, whoever moved them. Nobody else reads the model
  // meanwhile.
  uint64_t publish_masters();
  // The optimizer steps that the last train() was to apply at most, as some may be skipped; it
  // fails after fewer when it throws, and 0 says that it threw before the first of them was due.
  int64_t planned_steps() const;

  // Forward only: log-probs of all generated tokens of each sample, at its temperature, into out[i]
  // (one float per generated token). model is this trainer's model or its reference.
  void logprobs(const Model& model, std::span<const Sample* const> samples,
                std::span<const std::span<float>> out);

  // The same of the trained weights, whether they are published or not.
  void logprobs(std::span<const Sample* const> samples, std::span<const std::span<float>> out);
  // The same of a trainer whose objective is reward_model, in place of log-probs: out[i] is the
  // value at the last token of samples[i].
  void scores(std::span<const Sample* const> samples, std::span<float> out);
  // What the last norm gives for every token of a sample under the trained weights: (T, C) of the
  // compute dtype, row t being what the head makes the log-probs of token t + 1 from.
  TensorPtr hidden(const Sample& sample);
  // The version that the trained weights have, or will have once published.
  uint64_t trained_version() const;

  const TrainerOptions& options() const;
  // What the trainer reserved and first writes in step(): gradients, moments, packed backward
  // forms.
  std::vector<std::span<std::byte>> memory() const;
  // Changes what may change between steps: coefficients, rates, clips. Sizes (max_tokens,
  // max_sequence, logprob_chunk_tokens) must stay, else Error(kNotChangeable).
  void set_options(const TrainerOptions& options);

  // The policy loss of algo.policy_loss = custom, without which train() is
  // Error(kFailedPrecondition). Null takes it away.
  void set_custom_loss(CustomLoss loss);

  // What whole rows are compared with where TrainerOptions::distill.on_rows; without it train() is
  // Error(kFailedPrecondition) then. It outlives every call of train().
  void set_row_teacher(RowTeacher* teacher);

  TrainerCounters counters() const;
  // The flat gradient of the last optimizer step, before clipping, layout of the model; zero after
  // a load(), which reads into its memory.
  std::span<const float> gradients() const;

  // See checkpoint.h. load() also publishes the masters as the checkpoint's weight version. When
  // reading fails the weights are as they were; after the optimizer states began to change,
  // train(), publish() and save() are Error(kFailedPrecondition) then until another load()
  // succeeds. When packing what was read fails, Model::masters_moved() says that no version names
  // the masters. A critic is saved and loaded with the policy, under the same promises.
  std::string save(FileSystem& fs, const std::string& dir, const CheckpointMeta& meta,
                   const CheckpointRules& rules = {}, Critic* critic = nullptr);
  CheckpointMeta load(FileSystem& fs, const std::string& path, const std::string& config_digest,
                      Critic* critic = nullptr);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl
