// Byte counts come from the same functions that the objects themselves use when they reserve.
#include "pipeline/plan/planner.h"

#include <algorithm>

#include "comm/group.h"
#include "comm/grouped_sum.h"
#include "core/checked.h"
#include "model/model.h"
#include "model/rollout_weights.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "train/passes/row_teacher.h"
#include "train/passes/train_buffers.h"
#include "train/roles/reward_model.h"
#include "train/roles/teacher.h"

namespace rl {
namespace {

constexpr int64_t kMaxTokens = 4096;  // larger micro-batches are not faster

// What a process holds outside arenas: code and libraries, generated kernels, thread heaps, and
// per vocabulary entry the tokenizer. Measured on SmolLM2-135M with two threads: 38 MiB against an
// estimate of 75.
constexpr uint64_t kProcessBytes = uint64_t{48} << 20;
constexpr uint64_t kThreadBytes = uint64_t{1} << 20;
constexpr uint64_t kVocabularyBytes = 640;

// Per sample, per id in it, and per token of its response (data/sample.h).
constexpr uint64_t kSampleBytes = 512, kIdBytes = 4, kTokenBytes = 18;
// The most that preparation and trainer hold at once per response token of a step, in vectors that
// may have grown to twice their size: advantages, log-probs, weights, gradients, and copies made
// for metrics; more with a reference or a critic.
constexpr uint64_t kTrainedTokenBytes = 80, kReferenceTokenBytes = 8, kCriticTokenBytes = 56;

CheckedU64 number(int64_t n) { return CheckedU64(static_cast<uint64_t>(n)); }
int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
int64_t up_to_step(int64_t tokens) { return ceil_div(tokens, kTokenStep) * kTokenStep; }

// Samples of one prompt that may run at the same time.
int64_t samples_at_once(const Settings& settings, PlanUse use) {
  if (use != PlanUse::kPipeline) return 1;
  const bool generates = is_rl(settings.algo.objective);
  const int64_t most = std::max(generates ? settings.pipeline.samples_per_prompt : 1,
                                settings.eval.samples_per_prompt);
  return std::min(most, settings.engine.max_num_seqs);
}

// The training token budget that options set, or 0. With a fixed number of sequences it is the
// longest sequence.
int64_t fixed_tokens_of(const Settings& settings, int64_t longest) {
  const BatchRules batch = batch_rules_from(settings);
  if (batch.micro_batch_size > 0) return std::max<int64_t>(1, longest - 1 + last_rows(settings));
  const bool by_length = batch.seq_len != 0 && batch.packed;
  if (by_length) return batch.seq_len;
  return of_all_ranks(settings, settings.trainer.max_tokens_per_device);
}

ModelConfig rollout_config(const Settings& settings, const PlanModels& models) {
  return engines_are_whole(settings) ? RolloutWeights::config_of(models.whole) : models.policy;
}

}  // namespace

int64_t swap_blocks_of(const Settings& settings, const KvShape& kv) {
  return static_cast<int64_t>(settings.engine.swap_space_bytes / kv.block_bytes());
}

Planner::Planner(const Settings& settings, const PlanModels& models, PlanUse use, int threads,
                 const Device& device)
    : settings_(settings),
      config_(models.policy),
      teacher_(models.teacher),
      reward_(models.reward),
      device_(device),
      use_(use),
      compute_(compute_dtype_of(settings, device)),
      threads_(threads != 0 ? threads : thread_count_of(settings)),
      max_model_len_(effective_model_len(settings, config_.max_position)),
      longest_trained_(has_trainer() ? trained_length(settings, max_model_len_) : max_model_len_),
      max_new_tokens_(std::max(settings.sampling.max_new_tokens, settings.eval.max_new_tokens)),
      fixed_tokens_(fixed_tokens_of(settings, longest_trained_)),
      batch_(batch_rules_from(settings)),
      kv_(kv_shape(config_, compute_, kv_format_of(settings, compute_))),
      rollout_{rollout_config(settings, models), {}} {
  rollout_.kv = kv_shape(rollout_.config, compute_, kv_format_of(settings, compute_));
  set_engine(settings.engine);
  const uint64_t workspace = device_.workspace_bytes(threads_);
  if (workspace != 0) add("", "matmul workspace", workspace);
  const uint64_t staging = device_.host_workspace_bytes(threads_);
  if (staging != 0) always_.push_back({kCopyStaging, "always", staging});
  if (device_.has_own_memory()) add_exchange();
  const size_t first_weights = always_.size();
  add("policy", "master weights", master_bytes());
  add("policy", "packed weights, forward", packed_bytes());
  if (settings.model.compute_copies > 1) add_second_copy();
  if (has_rollout_weights(settings, use)) add_rollout_weights(models.whole);
  for (size_t i = first_weights; i < always_.size(); ++i) weight_bytes_ += always_[i].bytes;
  if (has_trainer()) add_training();
}

void Planner::set_engine(const EngineSettings& engine) {
  settings_.engine = engine;
  samples_ = samples_at_once(settings_, use_);
  engine_ = engine_options_from(settings_, max_model_len_);
  engine_.swap_blocks = swap_blocks_of(settings_, rollout_.kv);
  engine_.swap_apart = device_.has_own_memory();
}

// What values of a device need on their way to other ranks.
void Planner::add_exchange() {
  for (int group = device_group_count_of(settings_); group > 0; --group) {
    if (settings_.comm.backend == CommBackend::kNccl) {
      add("", DeviceMessages::kArena, DeviceMessages::kScratchBytes);
    } else {
      always_.push_back({StagedValues::kArena, "always", StagedValues::kWindowBytes});
    }
  }
}

void Planner::add(const char* role, const char* name, uint64_t bytes) {
  always_.push_back({name, "always", bytes, role, home()});
}

// Of the rank that has most.
uint64_t Planner::master_bytes() const {
  const MasterCut cut = master_cut_from(settings_, config_, trainable_from(settings_), 0);
  return Model::master_bytes(config_, cut);
}

uint64_t Planner::packed_bytes() const {
  return Model::packed_forward_bytes(device_, config_, compute_);
}

uint64_t Planner::rollout_packed_bytes() const {
  return Model::packed_forward_bytes(device_, rollout_.config, compute_);
}

// whole: of all stages.
void Planner::add_rollout_weights(const ModelConfig& whole) {
  add(kRolloutRole, "unpacked weights, copy", ComputeCopy::vector_bytes(rollout_.config));
  add(kRolloutRole, "packed weights, forward", rollout_packed_bytes());
  add(kRolloutRole, kPublicationBuffer,
      RolloutWeights::buffer_bytes(device_, whole, stage_cut_from(settings_), compute_,
                                   settings_.sync.bucket_bytes));
}

// Both copies then hold what a single copy reads from the masters.
void Planner::add_second_copy() {
  add("policy", "unpacked weights, copy", ComputeCopy::vector_bytes(config_));
  add("policy", "packed weights, forward", packed_bytes());
  add("policy", "unpacked weights, copy", ComputeCopy::vector_bytes(config_));
}

void Planner::add_training() {
  if (has_reference()) add_reference();
  const TrainerSizes sizes = train_sizes(min_tokens());
  least_sizes_ = sizes;
  add_states("policy", sizes);
  if (has_critic()) add_critic();
  if (has_reward_model()) add_frozen("reward", *reward_);
  if (has_teacher()) add_frozen("teacher", *teacher_);
  if (use_ == PlanUse::kPipeline && settings_.checkpoint.async) add_checkpoint_copy(sizes);
  if (settings_.trainer.weights_backup) add_weights_backup(sizes);
}

// Of what an update changes of policy and critic.
void Planner::add_weights_backup(const TrainerSizes& policy) {
  const auto changed = [](const TrainerSizes& s) {
    return CheckedU64(s.trained_masters) + CheckedU64(s.optimizer) + CheckedU64(s.optimizer_host) +
           CheckedU64(s.averages);
  };
  CheckedU64 bytes = changed(policy);
  if (has_critic()) bytes = bytes + changed(critic_sizes(min_tokens()));
  always_.push_back({kWeightsBackup, "always", bytes.get()});
}

// What a learner reserves.
void Planner::add_states(const char* role, const TrainerSizes& sizes) {
  const auto add_some = [&](const char* name, uint64_t bytes) {
    if (bytes != 0) add(role, name, bytes);
  };
  if (lent_gradient_bytes(role) == 0) {
    add_some("gradients", sizes.gradients);
    add_some("gradient scratch", sizes.gradient_scratch);
  }
  add_some("optimizer states", sizes.optimizer);
  add_some("optimizer states, host", sizes.optimizer_host);
  add_some("optimizer staging, host", sizes.optimizer_staging);
  add_some("optimizer workspace", sizes.optimizer_workspace);
  add_some("averaged weights", sizes.averages);
  add_some("packed weights, backward", sizes.packed_backward);
}

void Planner::add_reference() {
  const uint64_t offloaded = offloaded_reference_bytes();
  if (offloaded == 0) return add_frozen("reference", config_);
  always_.push_back({kWeightsInHost, "always", offloaded, "reference"});
}

// A model without masters.
void Planner::add_frozen(const char* role, const ModelConfig& config) {
  add(role, "unpacked weights, copy", ComputeCopy::vector_bytes(config));
  add(role, "packed weights, forward", Model::packed_forward_bytes(device_, config, compute_));
}

void Planner::add_critic() {
  const ModelConfig config = with_scalar_head(config_);
  const TrainerSizes sizes = critic_sizes(min_tokens());
  const MasterCut cut = master_cut_from(settings_, config, {}, 0);
  add("critic", "master weights", Model::master_bytes(config, cut));
  add("critic", "packed weights, forward", Model::packed_forward_bytes(device_, config, compute_));
  add_states("critic", sizes);
}

bool Planner::has_critic() const { return has_trainer() && rl::has_critic(settings_); }

bool Planner::has_reference() const { return has_trainer() && uses_reference(settings_); }

bool trains(const Settings& settings, PlanUse use) {
  if (use == PlanUse::kPipeline) return settings.pipeline.role != PipelineRole::kRollout;
  return use == PlanUse::kTrain || use == PlanUse::kParts;
}

bool generates_samples(const Settings& settings, PlanUse use) {
  if (use != PlanUse::kPipeline) return use == PlanUse::kGenerate || use == PlanUse::kParts;
  if (settings.pipeline.role == PipelineRole::kTrain) return false;
  if (settings.algo.objective == Objective::kRewardModel) return false;
  return is_rl(settings.algo.objective) || !settings.eval.path.empty();
}

bool has_rollout_weights(const Settings& settings, PlanUse use) {
  const bool engine =
      use == PlanUse::kGenerate || use == PlanUse::kParts || use == PlanUse::kPipeline;
  return engine && engines_are_whole(settings) && trained_head(settings) != ModelHead::kScalar;
}

bool Planner::has_engine() const { return generates_samples(settings_, use_); }

uint64_t Planner::rope_bytes() const {
  const uint64_t models =
      uint64_t{1} + has_reference() + has_critic() + has_rollout_weights(settings_, use_);
  const auto rope_of = [&](const ModelConfig& c) {
    return static_cast<uint64_t>(max_model_len_) * c.num_ropes() * c.head_dim * sizeof(float);
  };
  return models * rope_of(config_) + (has_teacher() ? rope_of(*teacher_) : 0) +
         (has_reward_model() ? rope_of(*reward_) : 0);
}

// Samples of a step, of the largest evaluation that options bound, or running at once, whichever
// is more.
int64_t Planner::samples_held() const {
  const auto product = [&](int64_t prompts, int64_t each) {
    return (CheckedI64(prompts) * CheckedI64(each)).get();
  };
  int64_t most = 0;
  if (has_trainer() || use_ == PlanUse::kPipeline)
    most = product(most_groups(settings_), attempts_per_prompt(settings_));
  if (has_engine()) most = std::max(most, product(settings_.engine.max_num_seqs, num_engines()));
  if (use_ == PlanUse::kPipeline && has_engine()) {
    const int64_t each = settings_.eval.samples_per_prompt;
    most = std::max(most, product(settings_.eval.max_prompts, each));
  }
  return most;
}

// Most tokens that follow a prompt.
int64_t Planner::response_tokens() const {
  const bool generates =
      (has_engine() || use_ == PlanUse::kTrain) && is_rl(settings_.algo.objective);
  const int64_t longest = max_model_len_ - 1;
  const bool one_turn = generates && settings_.pipeline.turns == PipelineTurns::kNone;
  return one_turn ? std::min(max_new_tokens_, longest) : longest;
}

uint64_t Planner::sample_bytes() const {
  if (!has_engine() && !has_trainer()) return 0;
  const CheckedU64 each = CheckedU64(kSampleBytes) + number(max_model_len_) * CheckedU64(kIdBytes) +
                          number(response_tokens()) * CheckedU64(kTokenBytes);
  return (number(samples_held()) * each).get();
}

std::vector<PlanEntry> Planner::outside() const {
  std::vector<PlanEntry> out = {
      {"code and kernels", "always", kProcessBytes},
      {"threads", "always", static_cast<uint64_t>(threads_) * kThreadBytes},
      {"tokenizer", "always", static_cast<uint64_t>(config_.vocab) * kVocabularyBytes},
      {"rope tables", "always", rope_bytes()}};
  if (has_engine() || has_trainer()) out.push_back({"samples", "always", sample_bytes()});
  if (const int ranks = data_rank_count_of(settings_); ranks > 1) {
    out.push_back({"collectives", "always", comm::Group::scratch_bytes(ranks, {-1})});
    if (const int group = zero_group_of(settings_); group < ranks) {
      const uint64_t bytes =
          comm::Group::scratch_bytes(group, {-1}) + comm::GroupedSum::scratch_bytes(group, {-1});
      out.push_back({"collectives, zero groups", "always", bytes});
    }
  }
  if (settings_.parallel.tensor > 1) {
    const auto ranks = static_cast<int>(settings_.parallel.tensor);
    out.push_back({"collectives, tensor", "always", comm::Group::scratch_bytes(ranks, {-1})});
  }
  if (settings_.parallel.pipeline > 1) {
    const auto ranks = static_cast<int>(settings_.parallel.pipeline);
    out.push_back({"collectives, stages", "always", comm::Group::scratch_bytes(ranks, {-1})});
  }
  if (settings_.parallel.context > 1) {
    const auto ranks = static_cast<int>(settings_.parallel.context);
    out.push_back({"collectives, context", "always", comm::Group::scratch_bytes(ranks, {-1})});
  }
  if (!has_trainer()) return out;
  if (const uint64_t bytes = gathered_bytes(); bytes != 0) {
    out.push_back({"checkpoint of other ranks", "always", bytes});
  }
  const uint64_t each = kTrainedTokenBytes + (has_reference() ? kReferenceTokenBytes : 0) +
                        (has_critic() ? kCriticTokenBytes : 0);
  const CheckedU64 trained =
      number(settings_.pipeline.prompts_per_step) * number(attempts_per_prompt(settings_));
  out.push_back({"arrays of a training step", "train",
                 (trained * number(response_tokens()) * CheckedU64(each)).get()});
  return out;
}

uint64_t Planner::baseline_bytes() const {
  CheckedU64 sum(uint64_t{0});
  for (const PlanEntry& e : outside()) sum = sum + CheckedU64(e.bytes);
  return sum.get();
}

uint64_t Planner::always_bytes() const {
  CheckedU64 sum(uint64_t{0});
  for (const PlanEntry& e : always_) {
    if (e.device == home()) sum = sum + CheckedU64(e.bytes);
  }
  return sum.get();
}

uint64_t Planner::kv_bytes(int64_t blocks) const {
  const CheckedU64 bytes =
      CheckedU64(static_cast<uint64_t>(blocks)) * CheckedU64(rollout_.kv.block_bytes());
  return bytes.align_up(ArenaPlan::kAlignment).get();
}

uint64_t Planner::engine_workspace() const {
  return rl::engine_workspace_bytes(rollout_.config, rollout_.kv, threads_, engine_);
}

uint64_t Planner::swap_bytes() const {
  return (CheckedU64(engine_.swap_blocks) * CheckedU64(rollout_.kv.block_bytes())).get();
}

uint64_t Planner::rollout_bytes(int64_t blocks) const {
  if (!has_engine()) return 0;
  const CheckedU64 one = CheckedU64(kv_bytes(blocks)) + CheckedU64(engine_workspace());
  return (one * CheckedU64(static_cast<uint64_t>(num_engines()))).get();
}

// The part of train_sizes() that changes with the rows, without names of parameters.
uint64_t Planner::train_workspace(int64_t max_tokens) const {
  if (least_sizes_ && max_tokens == min_tokens()) return least_sizes_->workspace;
  const TrainerOptions options =
      trainer_options_from(settings_, max_tokens, max_model_len_, step_samples());
  return plan_train_buffers({config_, kv_, threads_, device_}, options).total_bytes();
}

TrainerSizes Planner::train_sizes(int64_t max_tokens) const {
  if (least_sizes_ && max_tokens == min_tokens()) return *least_sizes_;
  return Trainer::plan(config_, kv_,
                       trainer_options_from(settings_, max_tokens, max_model_len_, step_samples()),
                       threads_, device_);
}

TrainerSizes Planner::critic_sizes(int64_t max_tokens) const {
  return Critic::plan(with_scalar_head(config_), kv_,
                      critic_options_from(settings_, max_tokens, max_model_len_, step_samples()),
                      threads_, device_);
}

uint64_t Planner::reward_workspace(int64_t max_tokens) const {
  return RewardModel::workspace_bytes(
      {*reward_, kv_shape(*reward_, compute_, kv_format_of(settings_, compute_)), threads_,
       device_},
      reward_options_from(settings_, max_tokens, max_model_len_, step_samples()));
}

KvShape Planner::teacher_kv() const {
  return kv_shape(*teacher_, compute_, kv_format_of(settings_, compute_));
}

uint64_t Planner::teacher_bytes(int64_t max_tokens) const {
  if (!has_teacher()) return 0;
  const TrainShape shape{*teacher_, teacher_kv(), threads_, device_};
  const TrainerOptions trainer =
      trainer_options_from(settings_, max_tokens, max_model_len_, step_samples());
  return distills_rows(settings_) ? RowTeacher::forward_bytes(shape, trainer)
                                  : Teacher::workspace_bytes(shape, trainer);
}

uint64_t Planner::teacher_kept_bytes(int64_t max_tokens) const {
  if (!has_teacher() || !distills_rows(settings_)) return 0;
  return RowTeacher::kept_bytes(
      {*teacher_, teacher_kv(), threads_, device_},
      trainer_options_from(settings_, max_tokens, max_model_len_, step_samples()));
}

uint64_t Planner::teacher_kept_offset(int64_t max_tokens) const {
  const CheckedU64 passes(std::max(train_workspace(max_tokens), teacher_bytes(max_tokens)));
  return passes.align_up(ArenaPlan::kAlignment).get();
}

// Policy, critic, reward model and teacher compute one after the other on the same bytes. Only
// what a teacher of whole rows keeps is in addition to the policy's.
uint64_t Planner::train_bytes(int64_t max_tokens) const {
  const CheckedU64 passes = CheckedU64(pass_bytes(max_tokens)).align_up(ArenaPlan::kAlignment);
  const CheckedU64 lent =
      CheckedU64(lent_gradient_bytes("policy")) + CheckedU64(lent_gradient_bytes("critic"));
  return lent.get() == 0 ? pass_bytes(max_tokens) : (passes + lent).get();
}

// A host's trainer keeps its gradients for rl_trainer_apply.
uint64_t Planner::lent_gradient_bytes(const char* role) const {
  const bool lends = settings_.trainer.free_grad_buffers_on_publish;
  if (use_ != PlanUse::kPipeline || !lends) return 0;
  const bool critic = std::string_view(role) == "critic";
  if (critic && !has_critic()) return 0;
  const TrainerSizes sizes = critic ? critic_sizes(min_tokens()) : train_sizes(min_tokens());
  return (CheckedU64(sizes.gradients) + CheckedU64(sizes.gradient_scratch)).get();
}

uint64_t Planner::pass_bytes(int64_t max_tokens) const {
  if (has_forwards()) {
    return ScoringBuffers::bytes({config_, kv_, threads_, device_},
                                 forward_options_from(settings_, max_tokens, max_model_len_));
  }
  if (!has_trainer()) return 0;
  uint64_t most = std::max(train_workspace(max_tokens), teacher_bytes(max_tokens));
  const uint64_t kept = teacher_kept_bytes(max_tokens);
  if (kept != 0) most = (CheckedU64(teacher_kept_offset(max_tokens)) + CheckedU64(kept)).get();
  if (has_critic()) most = std::max(most, critic_sizes(max_tokens).workspace);
  if (has_reward_model()) most = std::max(most, reward_workspace(max_tokens));
  const uint64_t weights = offloaded_reference_bytes();
  if (weights == 0) return most;
  return std::max(most, (CheckedU64(reference_offset(max_tokens)) + CheckedU64(weights)).get());
}

uint64_t Planner::host_workspace(int64_t max_tokens) const {
  if (!has_trainer()) return 0;
  if (!settings_.trainer.activation_offload) return 0;
  const uint64_t policy = train_sizes(max_tokens).host_workspace;
  return has_critic() ? std::max(policy, critic_sizes(max_tokens).host_workspace) : policy;
}

uint64_t Planner::host_bytes(int64_t max_tokens) const {
  CheckedU64 sum(host_workspace(max_tokens));
  if (!has_own_memory()) return sum.get();
  for (const PlanEntry& e : always_) {
    if (e.space() == MemorySpace::kHost) sum = sum + CheckedU64(e.bytes);
  }
  if (has_engine()) {
    sum = sum + CheckedU64(static_cast<uint64_t>(num_engines())) * CheckedU64(swap_bytes());
  }
  return (sum + CheckedU64(baseline_bytes())).get();
}

uint64_t Planner::logprob_bytes(int64_t max_tokens) const {
  if (!has_trainer()) return 0;
  const StepOptions policy =
      trainer_options_from(settings_, max_tokens, max_model_len_, step_samples());
  uint64_t most = ScoringBuffers::bytes({config_, kv_, threads_, device_}, policy);
  if (has_critic()) {
    const StepOptions critic =
        critic_options_from(settings_, max_tokens, max_model_len_, step_samples());
    most = std::max(
        most, ScoringBuffers::bytes({with_scalar_head(config_), kv_, threads_, device_}, critic));
  }
  if (has_reward_model()) most = std::max(most, reward_workspace(max_tokens));
  return std::max(most, teacher_bytes(max_tokens));
}

uint64_t Planner::offloaded_reference_bytes() const {
  if (!has_reference() || !settings_.reference.offload) return 0;
  return Model::borrowed_bytes(device_, config_, compute_);
}

uint64_t Planner::reference_offset(int64_t max_tokens) const {
  return CheckedU64(logprob_bytes(max_tokens)).align_up(ArenaPlan::kAlignment).get();
}

int64_t Planner::step_samples() const {
  if (use_ != PlanUse::kPipeline) return 0;
  const CheckedI64 together(samples_together(settings_.algo.objective));
  return (CheckedI64(trained_units(settings_)) * together).get();
}

int64_t Planner::min_tokens() const {
  return fixed_tokens_ != 0 ? fixed_tokens_ : up_to_step(batch_.padded(longest_trained_));
}

int64_t Planner::max_tokens() const {
  if (fixed_tokens_ != 0) return fixed_tokens_;
  if (use_ != PlanUse::kPipeline) return std::max(min_tokens(), kMaxTokens);
  const int64_t units = trained_units(settings_);
  const CheckedI64 per_minibatch = CheckedI64(ceil_div(units, batch_.minibatches(units))) *
                                   CheckedI64(samples_together(settings_.algo.objective));
  const int64_t longest = batch_.padded(longest_trained_);
  const int64_t whole = (per_minibatch * CheckedI64(longest)).get();
  return std::max(min_tokens(), std::min(kMaxTokens, up_to_step(whole)));
}

// The prompt length that needs most decides; apart from whole blocks the number is periodic in it.
int64_t Planner::group_blocks() const {
  const int64_t block = kv_.block_size();
  const int64_t longest = std::max<int64_t>(1, max_model_len_ - max_new_tokens_);
  int64_t most = 0;
  for (int64_t p = std::max<int64_t>(1, longest - block); p <= longest; ++p) {
    const int64_t whole = ceil_div(p + max_new_tokens_ - 1, block), shared = p / block;
    most = std::max(most, shared + samples_ * (whole - shared));
  }
  return most;
}

// With preemption the sequence of highest priority continues alone while the others wait.
int64_t Planner::min_blocks() const { return ceil_div(max_model_len_, kv_.block_size()); }

int64_t Planner::max_blocks() const {
  const CheckedI64 groups(ceil_div(engine_.max_num_seqs, samples_));
  return std::max(min_blocks(), (groups * CheckedI64(group_blocks())).get());
}

uint64_t Planner::min_shared() const {
  const CheckedU64 kv(has_engine() ? kv_bytes(min_blocks()) : 0);
  return (CheckedU64(weight_bytes_) + CheckedU64(static_cast<uint64_t>(num_engines())) * kv).get();
}

bool Planner::has_workspaces_apart() const {
  if (use_ == PlanUse::kParts) return true;
  return use_ == PlanUse::kPipeline && generates_ahead(settings_) && has_engine() && has_trainer();
}

uint64_t Planner::phase_bytes(int64_t max_tokens, int64_t blocks) const {
  const uint64_t train = train_bytes(max_tokens), rollout = rollout_bytes(blocks);
  if (!has_workspaces_apart()) return std::max(train, rollout);
  return (CheckedU64(train) + CheckedU64(rollout)).get();
}

uint64_t Planner::min_total() const {
  return (CheckedU64(always_bytes()) + CheckedU64(budgeted_baseline()) +
          CheckedU64(phase_bytes(min_tokens(), min_blocks())))
      .get();
}

}  // namespace rl
