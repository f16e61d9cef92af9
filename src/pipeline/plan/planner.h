// Sizes of everything a run reserves, as functions of the two numbers that are left to choose:
// rows of a training micro-batch and KV blocks. The plan chooses them; a budget must hold at least
// the smallest choice.
#pragma once
#include <cstdint>

#include "model/kv_pool.h"
#include "pipeline/plan/plan.h"

namespace rl {

constexpr int64_t kTokenStep = 64;  // the plan chooses micro-batch sizes in multiples of this
constexpr int64_t kMaxBlocks = INT32_MAX;  // KV blocks of one pool: their ids have 32 bits

// KV blocks that engine.swap_space_bytes holds.
int64_t swap_blocks_of(const Settings& settings, const KvShape& kv);

// Whether there is a trainer: not in a pipeline of role rollout.
bool trains(const Settings& settings, PlanUse use);
// Whether there is an engine. A run on given responses has one only for evaluations; a run that
// trains a reward model has none, nor has a pipeline of role train.
bool generates_samples(const Settings& settings, PlanUse use);
// Whether a model has weights for engines beside those of training (model/rollout_weights.h).
bool has_rollout_weights(const Settings& settings, PlanUse use);

class Planner {
 public:
  // threads 0: taken from the options. device: the one of the runtime.
  Planner(const Settings& settings, const PlanModels& models, PlanUse use, int threads = 0,
          const Device& device = cpu_device());

  // The same with other options of the engine, which nothing of a trainer depends on.
  void set_engine(const EngineSettings& engine);

  const Settings& settings() const { return settings_; }
  const ModelConfig& config() const { return config_; }
  // What engines compute with: all parts and stages, or the same.
  const ModelConfig& rollout() const { return rollout_.config; }
  const KvShape& rollout_kv() const { return rollout_.kv; }
  PlanUse use() const { return use_; }

  bool has_engine() const;
  bool has_trainer() const { return trains(settings_, use_); }
  bool has_forwards() const { return use_ == PlanUse::kForward; }  // without a trainer
  bool has_reference() const;
  bool has_critic() const;
  bool has_reward_model() const { return reward_.has_value(); }
  bool has_teacher() const { return has_trainer() && teacher_.has_value(); }

  // Estimates of memory held outside arenas, which is the host's, and their sum.
  std::vector<PlanEntry> outside() const;
  uint64_t baseline_bytes() const;
  uint64_t sample_bytes() const;  // the part that depends on options of the engine
  // What of it runtime.memory_budget_bytes bounds: nothing, if the device has memory of its own.
  uint64_t budgeted_baseline() const { return has_own_memory() ? 0 : baseline_bytes(); }
  // Arenas that live for the whole run, in the order in which they are reserved, and the sum of
  // those in the memory of the device.
  const std::vector<PlanEntry>& always() const { return always_; }
  uint64_t always_bytes() const;
  // Masters, compute copies and those of engines.
  uint64_t weight_bytes() const { return weight_bytes_; }
  uint64_t master_bytes() const;  // of the policy, on a rank
  // Of one compute copy of the policy, as forwards read it, and as those of engines do.
  uint64_t packed_bytes() const;
  uint64_t rollout_packed_bytes() const;

  bool has_own_memory() const { return device_.has_own_memory(); }
  // Where the arenas are that the device computes in; DeviceId(): in the memory of the host.
  DeviceId home() const { return has_own_memory() ? device_.id() : DeviceId(); }
  int64_t num_engines() const { return settings_.engine.num_engines; }
  // For one engine.
  uint64_t kv_bytes(int64_t blocks) const;
  uint64_t engine_workspace() const;
  uint64_t swap_bytes() const;  // part of the workspace, unless engine().swap_apart
  // KV of all engines, then their workspaces, each 64-byte aligned.
  uint64_t rollout_bytes(int64_t blocks) const;
  uint64_t train_bytes(int64_t max_tokens) const;  // of forwards without a trainer, too
  // The same without gradients, and what gradients of policy and critic take behind it. 0 unless
  // rollout has their memory meanwhile.
  uint64_t pass_bytes(int64_t max_tokens) const;
  uint64_t lent_gradient_bytes(const char* role) const;
  // Activations in host memory, of whichever role has more; 0 if none go there.
  uint64_t host_workspace(int64_t max_tokens) const;
  // What runtime.host_memory_budget_bytes bounds: these, and all that the host holds if the device
  // has memory of its own.
  uint64_t host_bytes(int64_t max_tokens) const;
  TrainerSizes train_sizes(int64_t max_tokens) const;
  uint64_t train_workspace(int64_t max_tokens) const;
  // max_tokens is the policy's.
  TrainerSizes critic_sizes(int64_t max_tokens) const;
  uint64_t reward_workspace(int64_t max_tokens) const;
  // Of passes that only compute log-probs, values or rewards, of whichever role needs most.
  uint64_t logprob_bytes(int64_t max_tokens) const;
  // With reference.offload, else 0: weights of the reference, which share the workspace with the
  // passes, and their offset in it, behind whichever forwards need most.
  uint64_t offloaded_reference_bytes() const;
  uint64_t reference_offset(int64_t max_tokens) const;
  // For a teacher, 0 without one: bytes of its forwards; bytes that a teacher of whole rows keeps
  // during the policy's pass; and their offset in the workspace.
  uint64_t teacher_bytes(int64_t max_tokens) const;
  uint64_t teacher_kept_bytes(int64_t max_tokens) const;
  uint64_t teacher_kept_offset(int64_t max_tokens) const;

  int64_t min_tokens() const;  // one longest sample
  int64_t max_tokens() const;  // more has no benefit
  int64_t min_blocks() const;  // one longest sequence
  int64_t max_blocks() const;  // engine.max_num_seqs samples at once
  // Minimum bytes of the whole run that runtime.memory_budget_bytes bounds.
  uint64_t min_total() const;
  // Minimum bytes of what engine.memory_fraction applies to: weights and one longest sequence.
  uint64_t min_shared() const;
  // Engine and training compute at the same time, or in turns: each has its own workspace.
  bool has_workspaces_apart() const;
  // Bytes of both workspaces, or of the one they share.
  uint64_t phase_bytes(int64_t max_tokens, int64_t blocks) const;

  // Samples that a pipeline trains on per step; 0 if the host brings them.
  int64_t step_samples() const;
  int64_t max_model_len() const { return max_model_len_; }
  int threads() const { return threads_; }
  Dtype compute() const { return compute_; }
  const EngineOptions& engine() const { return engine_; }

 private:
  void add_exchange();
  void add(const char* role, const char* name, uint64_t bytes);
  void add_second_copy();
  void add_rollout_weights(const ModelConfig& whole);
  void add_training();
  void add_states(const char* role, const TrainerSizes& sizes);
  void add_critic();
  void add_checkpoint_copy(const TrainerSizes& policy);
  // Most that a checkpoint has of the parts of other ranks, outside arenas.
  uint64_t gathered_bytes() const;
  void add_weights_backup(const TrainerSizes& policy);
  void add_reference();
  void add_frozen(const char* role, const ModelConfig& config);
  int64_t samples_held() const;
  int64_t response_tokens() const;
  uint64_t rope_bytes() const;
  int64_t group_blocks() const;
  KvShape teacher_kv() const;

  Settings settings_;
  // Of engines: a configuration, and its keys and values.
  struct Rollout {
    ModelConfig config;
    KvShape kv;
  };
  const ModelConfig config_;
  const std::optional<ModelConfig> teacher_, reward_;
  const Device& device_;
  PlanUse use_;
  Dtype compute_;
  int threads_;
  int64_t max_model_len_, longest_trained_, max_new_tokens_, samples_, fixed_tokens_;
  BatchRules batch_;
  KvShape kv_;
  Rollout rollout_;
  EngineOptions engine_;
  uint64_t weight_bytes_ = 0;
  std::vector<PlanEntry> always_;
  std::optional<TrainerSizes> least_sizes_;  // of min_tokens(), which are asked for often
};

}  // namespace rl
