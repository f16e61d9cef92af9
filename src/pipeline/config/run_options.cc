// One function per record; ranges were checked by the option registry.
#include "pipeline/config/run_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "algo/optimizers/schedule.h"
#include "core/checked.h"
#include "core/encoding/unicode.h"
#include "core/error.h"
#include "formats/open/open_weight_source.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/runtime_options.h"

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

}  // namespace

std::vector<int32_t> ids_from(const OptionSet& options, const char* key) {
  std::vector<int32_t> ids;
  for (const int64_t id : options.get_i64_list(key)) ids.push_back(static_cast<int32_t>(id));
  return ids;
}

KvFormat kv_format_of(const OptionSet& options) {
  const std::string& name = options.get_string("engine.kv_dtype");
  const Dtype dtype = name == "auto"   ? compute_dtype_of(options)
                      : name == "bf16" ? Dtype::kBf16
                                       : Dtype::kF32;
  return {options.get_i64("engine.block_size"), dtype};
}

SamplingParams sampling_from(const OptionSet& options) {
  SamplingParams p;
  p.temperature = static_cast<float>(options.get_f64("sampling.temperature"));
  p.top_p = static_cast<float>(options.get_f64("sampling.top_p"));
  p.min_p = static_cast<float>(options.get_f64("sampling.min_p"));
  p.top_k = static_cast<int32_t>(options.get_i64("sampling.top_k"));
  p.repetition_penalty = static_cast<float>(options.get_f64("sampling.repetition_penalty"));
  p.presence_penalty = static_cast<float>(options.get_f64("sampling.presence_penalty"));
  p.frequency_penalty = static_cast<float>(options.get_f64("sampling.frequency_penalty"));
  p.logit_bias = logit_bias_from(options.get_string_list("sampling.logit_bias"));
  p.allowed_token_ids = ids_from(options, "sampling.allowed_token_ids");
  p.top_logprobs = static_cast<int32_t>(options.get_i64("sampling.logprobs"));
  validate(p);
  return p;
}

SamplingParams eval_sampling_from(const OptionSet& options) {
  SamplingParams p;
  p.temperature = static_cast<float>(options.get_f64("eval.temperature"));
  try {
    validate(p);
  } catch (const Error& error) {
    throw Error(error).with_key("eval.temperature");
  }
  return p;
}

Request request_from(const OptionSet& options) {
  Request r;
  r.sampling = sampling_from(options);
  r.max_new_tokens = options.get_i64("sampling.max_new_tokens");
  r.min_new_tokens = options.get_i64("sampling.min_new_tokens");
  r.stop_token_ids = ids_from(options, "sampling.stop_token_ids");
  r.ignore_eos = options.get_bool("sampling.ignore_eos");
  r.stop_strings = options.get_string_list("sampling.stop");
  r.seed = options.get_u64("runtime.seed");
  r.own_seed = options.get_i64("sampling.seed");
  return r;
}

Request eval_request_from(const OptionSet& options) {
  Request r = request_from(options);
  r.sampling = eval_sampling_from(options);
  const int64_t tokens = options.get_i64("eval.max_new_tokens");
  if (tokens != 0) r.max_new_tokens = tokens;
  r.min_new_tokens = 0;
  r.num_samples = options.get_i64("eval.samples_per_prompt");
  r.purpose = Purpose::kEval;
  return r;
}

void add_turn_stops(Request& request, const std::vector<int32_t>& turn_ends) {
  if (request.ignore_eos) return;
  request.stop_token_ids.insert(request.stop_token_ids.end(), turn_ends.begin(), turn_ends.end());
}

EngineOptions engine_options_from(const OptionSet& options, int64_t max_model_len) {
  EngineOptions e;
  e.max_num_seqs = options.get_i64("engine.max_num_seqs");
  e.max_num_batched_tokens = options.get_i64("engine.max_num_batched_tokens");
  e.max_model_len = max_model_len;
  e.chunked_prefill = options.get_bool("engine.chunked_prefill");
  e.prefill_chunk = options.get_i64("engine.prefill_chunk");
  e.prefix_caching = options.get_bool("engine.prefix_caching");
  e.kv_watermark = options.get_f64("engine.kv_watermark");
  if (options.get_string("engine.scheduling_policy") == "priority") {
    e.policy = SchedulingPolicy::kPriority;
  }
  e.keep_kv = options.get_bool("engine.keep_kv_on_publish");
  e.max_aborts = options.get_i64("pipeline.partial_rollout_max_aborts");
  e.stats_interval_ns = options.get_i64("engine.stats_interval_ns");
  e.trace_lane = TraceLane::kEngine;
  return e;
}

namespace {

Schedule schedule_from(const OptionSet& options) {
  Schedule s;
  s.kind = parse_schedule(options.get_string("schedule.name"));
  s.lr = options.get_f64("optimizer.lr");
  s.warmup_steps = options.get_i64("schedule.warmup_steps");
  s.total_steps = options.get_i64("schedule.total_steps");
  s.min_lr = options.get_f64("schedule.min_lr");
  return s;
}

}  // namespace

BatchRules batch_rules_from(const OptionSet& options) {
  BatchRules b;
  b.global_batch_size = options.get_i64("trainer.global_batch_size");
  b.num_minibatches = options.get_i64("trainer.num_minibatches");
  if (!options.get_bool("trainer.dynamic_batching")) {
    b.micro_batch_size = options.get_i64("trainer.micro_batch_size");
  }
  b.forward_max_tokens = options.get_i64("trainer.logprob_max_tokens_per_device");
  b.reference_max_tokens = options.get_i64("reference.forward_max_tokens_per_device");
  b.oversize_alone = options.get_string("trainer.oversize") == "alone";
  b.shared_prefix = options.get_bool("trainer.shared_prefix");
  b.packed = options.get_bool("trainer.sequence_packing");
  b.seq_len = options.get_i64("trainer.seq_len");
  b.pad_to = options.get_i64("trainer.pad_to_multiple_of");
  b.balance = parse_balance_cost(options.get_string("trainer.balance"));
  return b;
}

namespace {

// Fields that the policy and the critic share.
void fill_step(const OptionSet& options, StepOptions& s) {
  s.logprob_chunk_tokens = options.get_i64("trainer.logprob_chunk_tokens");
  s.epochs = options.get_i64("trainer.epochs");
  s.batch = batch_rules_from(options);
  s.loss_agg = parse_loss_agg(options.get_string("algo.loss_agg"));
  s.loss_scale_factor = options.get_f64("algo.loss_scale_factor");
  s.adamw.beta1 = options.get_f64("optimizer.beta1");
  s.adamw.beta2 = options.get_f64("optimizer.beta2");
  s.adamw.eps = options.get_f64("optimizer.eps");
  s.adamw.weight_decay = options.get_f64("optimizer.weight_decay");
  s.schedule = schedule_from(options);
  s.grad_clip = options.get_f64("optimizer.grad_clip");
}

// Scales the policy's schedule, so that min_lr keeps its ratio to lr.
Schedule critic_schedule(const Schedule& policy, double lr) {
  Schedule s = policy;
  s.lr = lr;
  s.min_lr = policy.lr > 0 ? std::min(lr, policy.min_lr * (lr / policy.lr)) : 0;
  return s;
}

// The critic's own value, or the policy's if that is negative.
double own_or(const OptionSet& options, const char* key, double of_policy) {
  const double own = options.get_f64(key);
  return own >= 0 ? own : of_policy;
}

}  // namespace

TrainerOptions trainer_options_from(const OptionSet& options, int64_t max_tokens,
                                    int64_t max_sequence, int64_t step_samples) {
  TrainerOptions t;
  t.max_tokens = max_tokens;
  t.max_sequence = max_sequence + last_rows(options);
  fill_step(options, t);
  t.batch.step_samples = step_samples;
  fill_algorithm(options, t);
  t.check_logprobs = is_rl(t.objective) && options.get_bool("trainer.check_logprobs");
  validate(t);
  return t;
}

int64_t last_rows(const OptionSet& options) {
  return trained_head(options) == ModelHead::kScalar ? 1 : 0;
}

bool has_reward_model(const OptionSet& options) {
  return !options.get_string("model.reward_path").empty();
}

// The last token of a sample is a row too.
StepOptions reward_options_from(const OptionSet& options, int64_t max_tokens, int64_t max_sequence,
                                int64_t step_samples) {
  StepOptions s;
  s.keys.forward_max_tokens = "reward.forward_max_tokens_per_device";
  fill_step(options, s);
  s.batch.step_samples = step_samples;
  s.max_tokens = max_tokens;
  s.max_sequence = max_sequence + 1;
  s.batch.forward_max_tokens = options.get_i64("reward.forward_max_tokens_per_device");
  s.batch.reference_max_tokens = 0;
  validate(s);
  return s;
}

bool has_critic(const OptionSet& options) { return options.get_string("algo.advantage") == "gae"; }

// Padding applies to the policy's micro-batches only; the critic's are not padded.
CriticOptions critic_options_from(const OptionSet& options, int64_t max_tokens,
                                  int64_t max_sequence, int64_t step_samples) {
  CriticOptions c;
  fill_step(options, c);
  c.batch.step_samples = step_samples;
  const int64_t tokens = options.get_i64("critic.max_tokens_per_device");
  const int64_t sequences = options.get_i64("critic.micro_batch_size");
  const bool counted = c.batch.micro_batch_size > 0;
  if (counted) c.batch.micro_batch_size = sequences != 0 ? sequences : 2 * c.batch.micro_batch_size;
  c.max_tokens = tokens != 0 ? tokens : counted ? max_tokens : 2 * max_tokens;
  c.max_sequence = max_sequence;
  c.batch.forward_max_tokens = options.get_i64("critic.forward_max_tokens_per_device");
  c.batch.reference_max_tokens = 0;
  c.batch.seq_len = 0;
  c.batch.pad_to = 1;
  c.value_clip = options.get_f64("algo.value_clip");
  c.schedule = critic_schedule(c.schedule, options.get_f64("critic.optimizer.lr"));
  c.adamw.weight_decay = own_or(options, "critic.optimizer.weight_decay", c.adamw.weight_decay);
  c.grad_clip = own_or(options, "critic.optimizer.grad_clip", c.grad_clip);
  validate(c);
  return c;
}

int64_t attempts_per_prompt(const OptionSet& options) {
  const Objective objective = objective_of(options);
  if (!is_rl(objective)) return samples_together(objective);
  return options.get_i64("pipeline.samples_per_prompt") +
         (options.get_string("algo.advantage") == "remax" ? 1 : 0);
}

int64_t trained_units(const OptionSet& options) {
  const CheckedI64 prompts(options.get_i64("pipeline.prompts_per_step"));
  if (!is_rl(objective_of(options))) return prompts.get();
  return (prompts * CheckedI64(options.get_i64("pipeline.samples_per_prompt"))).get();
}

std::string output_root(const OptionSet& options) {
  const std::string& dir = options.get_string("runtime.output_dir");
  const std::string& experiment = options.get_string("runtime.experiment");
  return dir.empty() || experiment.empty() ? dir + experiment : str(dir, "/", experiment);
}

std::string output_path(const OptionSet& options, const char* key) {
  const std::string& path = options.get_string(key);
  const std::string root = output_root(options);
  return path.empty() || path[0] == '/' || root.empty() ? path : str(root, "/", path);
}

int64_t effective_model_len(const OptionSet& options, int64_t model_limit) {
  const int64_t asked = options.get_i64("engine.max_model_len");
  if (asked <= model_limit) return asked == 0 ? model_limit : asked;
  throw Error(Code::kOutOfRange,
              str("engine.max_model_len is ", asked, " but the model's limit is ", model_limit))
      .with_key("engine.max_model_len")
      .with_expected(str("0..", model_limit));
}

}  // namespace rl
