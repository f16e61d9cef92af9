// One function per record; ranges were checked by the option registry.
#include "pipeline/config/run_options.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "algo/optimizers/schedule.h"
#include "core/checked.h"
#include "core/encoding/unicode.h"
#include "core/error.h"
#include "formats/open/open_weight_source.h"
#include "pipeline/config/activation_options.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/runtime_options.h"
#include "train/optimizer/shards.h"

namespace rl {
namespace {

[[noreturn]] void refuse_bias(size_t index, const std::string& entry, const char* why) {
  constexpr const char* kKey = "sampling.logit_bias";
  throw Error(Code::kInvalidArgument,
              str(kKey, "[", index, "] is ", quote_text(entry), ", which ", why))
      .with_key(kKey)
      .with_expected("id:bias, as in 42:-1.5")
      .with_location(str(kKey, "[", index, "]"));
}

// Parses a number; the whole text must match.
template <typename T>
bool parse_all(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

std::vector<LogitBias> logit_bias_from(const std::vector<std::string>& entries) {
  std::vector<LogitBias> out;
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string_view entry = entries[i];
    const size_t colon = entry.find(':');
    if (colon == std::string_view::npos) refuse_bias(i, entries[i], "has no colon");
    LogitBias b{};
    if (!parse_all(entry.substr(0, colon), b.id)) {
      refuse_bias(i, entries[i], "has no token id before the colon");
    }
    if (!parse_all(entry.substr(colon + 1), b.bias)) {
      refuse_bias(i, entries[i], "has no number after the colon");
    }
    out.push_back(b);
  }
  return out;
}

// `error` names an option of training; the value is that of the evaluation's option of that name.
[[noreturn]] void refuse_eval(Error error) {
  const std::string given = error.key;
  error.key = "eval" + given.substr(given.find('.'));
  const size_t at = error.message.find(given);
  if (at != std::string::npos) error.message.replace(at, given.size(), error.key);
  throw Error(std::move(error));
}

}  // namespace

std::vector<int32_t> ids_from(const std::vector<int64_t>& numbers) {
  std::vector<int32_t> ids;
  for (const int64_t id : numbers) ids.push_back(static_cast<int32_t>(id));
  return ids;
}

KvFormat kv_format_of(const Settings& settings, Dtype compute) {
  const EngineKvDtype named = settings.engine.kv_dtype;
  const Dtype dtype = named == EngineKvDtype::kAuto   ? compute
                      : named == EngineKvDtype::kBf16 ? Dtype::kBf16
                                                      : Dtype::kF32;
  return {settings.engine.block_size, dtype};
}

SamplingParams sampling_from(const Settings& settings) {
  SamplingParams p;
  const SamplingSettings& sampling = settings.sampling;
  p.temperature = static_cast<float>(sampling.temperature);
  p.top_p = static_cast<float>(sampling.top_p);
  p.min_p = static_cast<float>(sampling.min_p);
  p.top_k = static_cast<int32_t>(sampling.top_k);
  p.repetition_penalty = static_cast<float>(sampling.repetition_penalty);
  p.presence_penalty = static_cast<float>(sampling.presence_penalty);
  p.frequency_penalty = static_cast<float>(sampling.frequency_penalty);
  p.logit_bias = logit_bias_from(sampling.logit_bias);
  p.allowed_token_ids = ids_from(sampling.allowed_token_ids);
  p.top_logprobs = static_cast<int32_t>(sampling.logprobs);
  validate(p);
  return p;
}

SamplingParams eval_sampling_from(const Settings& settings) {
  SamplingParams p;
  p.temperature = static_cast<float>(settings.eval.temperature);
  p.top_p = static_cast<float>(settings.eval.top_p);
  try {
    validate(p);
  } catch (const Error& error) {
    refuse_eval(error);
  }
  return p;
}

Request request_from(const Settings& settings) {
  Request r;
  r.sampling = sampling_from(settings);
  r.max_new_tokens = settings.sampling.max_new_tokens;
  r.min_new_tokens = settings.sampling.min_new_tokens;
  r.stop_token_ids = ids_from(settings.sampling.stop_token_ids);
  r.ignore_eos = settings.sampling.ignore_eos;
  r.prompt_logprobs = settings.sampling.prompt_logprobs;
  r.stop_strings = settings.sampling.stop;
  r.seed = settings.runtime.seed;
  r.own_seed = settings.sampling.seed;
  return r;
}

Request eval_request_from(const Settings& settings) {
  Request r = request_from(settings);
  r.sampling = eval_sampling_from(settings);
  const int64_t tokens = settings.eval.max_new_tokens;
  if (tokens != 0) r.max_new_tokens = tokens;
  r.min_new_tokens = 0;
  r.prompt_logprobs = false;
  r.num_samples = settings.eval.samples_per_prompt;
  r.purpose = Purpose::kEval;
  return r;
}

void add_turn_stops(Request& request, const std::vector<int32_t>& turn_ends) {
  if (request.ignore_eos) return;
  request.stop_token_ids.insert(request.stop_token_ids.end(), turn_ends.begin(), turn_ends.end());
}

EngineOptions engine_options_from(const Settings& settings, int64_t max_model_len) {
  EngineOptions e;
  const EngineSettings& engine = settings.engine;
  e.max_num_seqs = engine.max_num_seqs;
  e.max_num_batched_tokens = engine.max_num_batched_tokens;
  e.max_model_len = max_model_len;
  e.chunked_prefill = engine.chunked_prefill;
  e.prefill_chunk = engine.prefill_chunk;
  e.prefix_caching = engine.prefix_caching;
  e.kv_watermark = engine.kv_watermark;
  // With turns those with more of them go first.
  if (engine.scheduling_policy == EngineSchedulingPolicy::kPriority ||
      settings.pipeline.turns != PipelineTurns::kNone) {
    e.policy = SchedulingPolicy::kPriority;
  }
  const PipelineSettings& pipeline = settings.pipeline;
  e.lanes = {.lanes = pipeline.max_concurrent_prompts_per_engine * attempts_per_prompt(settings),
             .whole_groups = pipeline.sample_lanes == PipelineSampleLanes::kGroup,
             .until_freed = !pipeline.free_lane_after_generation};
  e.keep_kv = engine.keep_kv_on_publish;
  e.max_aborts = settings.pipeline.partial_rollout_max_aborts;
  e.stats_interval_ns = engine.stats_interval_ns;
  e.trace_lane = TraceLane::kEngine;
  return e;
}

namespace {

Schedule schedule_from(const Settings& settings) {
  Schedule s;
  s.kind = settings.schedule.name;
  s.lr = settings.optimizer.lr;
  s.warmup_steps = settings.schedule.warmup_steps;
  s.total_steps = settings.schedule.total_steps;
  s.min_lr = settings.schedule.min_lr;
  return s;
}

}  // namespace

BatchRules batch_rules_from(const Settings& settings) {
  BatchRules b;
  const TrainerSettings& trainer = settings.trainer;
  b.global_batch_size = trainer.global_batch_size;
  b.num_minibatches = trainer.num_minibatches;
  if (!trainer.dynamic_batching) {
    b.micro_batch_size = trainer.micro_batch_size;
    b.reference_micro_batch_size = settings.reference.micro_batch_size;
  }
  b.forward_max_tokens = trainer.logprob_max_tokens_per_device;
  b.reference_max_tokens = settings.reference.forward_max_tokens_per_device;
  b.oversize_alone = trainer.oversize == TrainerOversize::kAlone;
  b.cuts = trainer.oversize == TrainerOversize::kCut;
  b.shared_prefix = trainer.shared_prefix;
  b.packed = trainer.sequence_packing;
  b.seq_len = trainer.seq_len;
  b.pad_to = trainer.pad_to_multiple_of;
  b.balance = trainer.balance;
  b.whole_groups = trainer.balance_groups;
  return b;
}

namespace {

ContextKind context_kind_from(ParallelContextKind named) {
  if (named == ParallelContextKind::kUlysses) return ContextKind::kUlysses;
  return named == ParallelContextKind::kRing ? ContextKind::kRing : ContextKind::kAllGather;
}

}  // namespace

ContextRule context_rule_from(const Settings& settings) {
  const ParallelSettings& p = settings.parallel;
  return {p.context, context_kind_from(p.context_kind), p.context_zigzag};
}

namespace {

StateDtype state_dtype_from(OptimizerStateDtype named) {
  if (named == OptimizerStateDtype::kInt8) return StateDtype::kInt8;
  return named == OptimizerStateDtype::kBf16 ? StateDtype::kBf16 : StateDtype::kF32;
}

OptimizerOptions optimizer_from(const Settings& settings) {
  OptimizerOptions o;
  const OptimizerSettings& optimizer = settings.optimizer;
  o.kind = optimizer.name == OptimizerName::kMuon ? OptimizerKind::kMuon : OptimizerKind::kAdamw;
  o.muon = {optimizer.muon_momentum, optimizer.muon_ns_steps};
  o.state_dtype = state_dtype_from(optimizer.state_dtype);
  const bool bf16 = settings.trainer.grad_dtype == TrainerGradDtype::kBf16;
  o.grad_dtype = bf16 ? GradDtype::kBf16 : GradDtype::kF32;
  o.frees_gradients = settings.trainer.free_grad_buffers_on_publish;
  o.seed = settings.runtime.seed;
  o.offload = {optimizer.cpu_offload, optimizer.cpu_offload_fraction, optimizer.overlap_d2h_h2d};
  o.no_decay = settings.optimizer.no_decay;
  o.zero = {static_cast<int>(settings.parallel.zero_stage), zero_group_of(settings),
            settings.parallel.overlap_grad_reduce, settings.parallel.overlap_param_gather};
  o.ema = settings.optimizer.ema;
  return o;
}

// Fields that the policy and the critic share.
void fill_step(const Settings& settings, StepOptions& s) {
  s.logprob_chunk_tokens = settings.trainer.logprob_chunk_tokens;
  s.mlp_chunk_tokens = settings.trainer.mlp_chunk_tokens;
  s.backward_packing = settings.trainer.backward_weights == TrainerBackwardWeights::kResident
                           ? BackwardPacking::kResident
                           : BackwardPacking::kByLayer;
  s.activations = activation_rule_from(settings);
  s.context = context_rule_from(settings);
  s.sequence_parallel = settings.parallel.sequence_parallel;
  s.vocabulary_ranks = settings.parallel.tensor;
  s.epochs = settings.trainer.epochs;
  s.batch = batch_rules_from(settings);
  s.loss_agg = settings.algo.loss_agg;
  s.loss_scale_factor = settings.algo.loss_scale_factor;
  s.adamw.beta1 = settings.optimizer.beta1;
  s.adamw.beta2 = settings.optimizer.beta2;
  s.adamw.eps = settings.optimizer.eps;
  s.adamw.weight_decay = settings.optimizer.weight_decay;
  s.schedule = schedule_from(settings);
  s.grad_clip = settings.optimizer.grad_clip;
  s.optimizer = optimizer_from(settings);
}

// Scales the policy's schedule, so that min_lr keeps its ratio to lr.
Schedule critic_schedule(const Schedule& policy, double lr) {
  Schedule s = policy;
  s.lr = lr;
  s.min_lr = policy.lr > 0 ? std::min(lr, policy.min_lr * (lr / policy.lr)) : 0;
  return s;
}

// The critic's own value, or the policy's if that is negative.
double own_or(double own, double of_policy) { return own >= 0 ? own : of_policy; }

}  // namespace

TrainableRule trainable_from(const Settings& settings) {
  return {settings.model.freeze, settings.model.train_only};
}

MasterCut master_cut_from(const Settings& settings, const ModelConfig& config,
                          const TrainableRule& trainable, int rank) {
  const OptimizerOptions optimizer = optimizer_from(settings);
  if (optimizer.zero.stage < 3) return {};
  return master_cut(WeightLayout(config, trainable), optimizer, rank);
}

int64_t of_all_ranks(const Settings& settings, int64_t tokens_per_device) {
  return tokens_per_device * settings.parallel.context;
}

int64_t trained_length(const Settings& settings, int64_t max_sequence) {
  if (settings.trainer.oversize != TrainerOversize::kCut) return max_sequence;
  return std::min(max_sequence, settings.trainer.seq_len + 1);
}

TrainerOptions trainer_options_from(const Settings& settings, int64_t max_tokens,
                                    int64_t max_sequence, int64_t step_samples) {
  TrainerOptions t;
  t.max_tokens = max_tokens;
  t.max_sequence = trained_length(settings, max_sequence) + last_rows(settings);
  fill_step(settings, t);
  t.recompute_loss = settings.trainer.recompute_loss;
  t.batch.step_samples = step_samples;
  t.trainable = trainable_from(settings);
  fill_algorithm(settings, t);
  t.check_logprobs = is_rl(t.objective) && settings.trainer.check_logprobs;
  validate(t);
  return t;
}

StepOptions forward_options_from(const Settings& settings, int64_t max_tokens,
                                 int64_t max_sequence) {
  StepOptions s = trainer_options_from(settings, max_tokens, max_sequence);
  s.max_sequence = max_sequence + last_rows(settings);
  s.batch.oversize_alone = s.batch.oversize_alone || s.batch.cuts;
  s.batch.cuts = false;
  return s;
}

int64_t last_rows(const Settings& settings) {
  return trained_head(settings) == ModelHead::kScalar ? 1 : 0;
}

bool has_reward_model(const Settings& settings) { return !settings.model.reward_path.empty(); }

// The last token of a sample is a row too.
StepOptions reward_options_from(const Settings& settings, int64_t max_tokens, int64_t max_sequence,
                                int64_t step_samples) {
  StepOptions s;
  s.keys.forward_max_tokens = "reward.forward_max_tokens_per_device";
  fill_step(settings, s);
  s.batch.step_samples = step_samples;
  s.max_tokens = max_tokens;
  s.max_sequence = max_sequence + 1;
  s.batch.forward_max_tokens = settings.reward.forward_max_tokens_per_device;
  s.batch.reference_max_tokens = s.batch.reference_micro_batch_size = 0;
  if (!settings.trainer.dynamic_batching)
    s.batch.forward_micro_batch_size = settings.reward.micro_batch_size;
  s.batch.oversize_alone = s.batch.oversize_alone || s.batch.cuts;
  s.batch.cuts = false;
  validate(s);
  return s;
}

CheckpointContents checkpoint_contents_from(const Settings& settings) {
  constexpr const char* kKey = "checkpoint.contents";
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::kInvalidArgument, str(kKey, what))
        .with_key(kKey)
        .with_expected("model, optimizer, extra or hf_model, each once");
  };
  CheckpointContents contents{false, false, false, false};
  for (const std::string& entry : settings.checkpoint.contents) {
    const auto known = std::ranges::find_if(
        kContentNames, [&](const ContentName& content) { return entry == content.name; });
    if (known == std::end(kContentNames)) refuse(str(" has the unknown entry ", quote_text(entry)));
    if (contents.*known->held) refuse(str(" has the entry ", quote_text(entry), " twice"));
    contents.*known->held = true;
  }
  if (settings.checkpoint.contents.empty()) refuse(" is empty: a checkpoint would hold nothing");
  return contents;
}

bool has_critic(const Settings& settings) { return settings.algo.advantage == Advantage::kGae; }

// Padding applies to the policy's micro-batches only; the critic's are not padded.
CriticOptions critic_options_from(const Settings& settings, int64_t max_tokens,
                                  int64_t max_sequence, int64_t step_samples) {
  CriticOptions c;
  const CriticSettings& critic = settings.critic;
  fill_step(settings, c);
  c.batch.step_samples = step_samples;
  const int64_t tokens = of_all_ranks(settings, critic.max_tokens_per_device);
  const int64_t sequences = critic.micro_batch_size;
  const bool counted = c.batch.micro_batch_size > 0;
  if (counted) c.batch.micro_batch_size = sequences != 0 ? sequences : 2 * c.batch.micro_batch_size;
  c.max_tokens = tokens != 0 ? tokens : counted ? max_tokens : 2 * max_tokens;
  c.max_sequence = trained_length(settings, max_sequence);
  c.batch.forward_max_tokens = critic.forward_max_tokens_per_device;
  c.batch.reference_max_tokens = c.batch.reference_micro_batch_size = 0;
  c.batch.seq_len = 0;
  c.batch.pad_to = 1;
  c.activations = critic_activation_rule_from(settings);
  c.value_clip = settings.algo.value_clip;
  c.schedule = critic_schedule(c.schedule, critic.optimizer.lr);
  c.adamw.weight_decay = own_or(critic.optimizer.weight_decay, c.adamw.weight_decay);
  c.grad_clip = own_or(critic.optimizer.grad_clip, c.grad_clip);
  c.optimizer.no_decay_may_miss = true;
  c.optimizer.ema = 0;
  c.optimizer.stream = 1;
  validate(c);
  return c;
}

bool generates_ahead(const Settings& settings) {
  return settings.pipeline.mode != PipelineMode::kSync;
}

bool flows_by_group(const Settings& settings) {
  return settings.pipeline.mode == PipelineMode::kAsync;
}

const char* role_name(PipelineRole role) {
  switch (role) {
    case PipelineRole::kBoth:
      return "both";
    case PipelineRole::kRollout:
      return "rollout";
    case PipelineRole::kTrain:
      return "train";
  }
  return "unknown";
}

int64_t most_complete_groups(const Settings& settings) {
  const PipelineSettings& o = settings.pipeline;
  if (!flows_by_group(settings)) return o.prompts_per_step;
  return (CheckedI64(o.prompts_per_step) * CheckedI64(o.queue_size + 1) +
          CheckedI64(o.over_sampling_prompts))
      .get();
}

int64_t most_groups(const Settings& settings) {
  const CheckedI64 in_training(generates_ahead(settings) ? settings.pipeline.prompts_per_step : 0);
  return (CheckedI64(most_complete_groups(settings)) + in_training).get();
}

int64_t attempts_per_prompt(const Settings& settings) {
  const Objective objective = settings.algo.objective;
  if (!is_rl(objective)) return samples_together(objective);
  const bool remax = settings.algo.advantage == Advantage::kRemax;
  return settings.pipeline.samples_per_prompt + (remax ? 1 : 0);
}

int64_t trained_units(const Settings& settings) {
  const CheckedI64 prompts(settings.pipeline.prompts_per_step);
  if (!is_rl(settings.algo.objective)) return prompts.get();
  return (prompts * CheckedI64(settings.pipeline.samples_per_prompt)).get();
}

std::string output_root(const Settings& settings) {
  const std::string& dir = settings.runtime.output_dir;
  const std::string& experiment = settings.runtime.experiment;
  return dir.empty() || experiment.empty() ? dir + experiment : str(dir, "/", experiment);
}

std::string output_path(const Settings& settings, const std::string& path) {
  const std::string root = output_root(settings);
  return path.empty() || path[0] == '/' || root.empty() ? path : str(root, "/", path);
}

int64_t effective_model_len(const Settings& settings, int64_t model_limit) {
  const int64_t requested = settings.engine.max_model_len;
  if (requested <= model_limit) return requested == 0 ? model_limit : requested;
  throw Error(Code::kOutOfRange,
              str("engine.max_model_len is ", requested, " but the model's limit is ", model_limit))
      .with_key("engine.max_model_len")
      .with_expected(str("0..", model_limit));
}

}  // namespace rl
