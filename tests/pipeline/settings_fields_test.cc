// Every field of the settings is the option whose key it spells, one changed option at a time.
#include <gtest/gtest.h>

#include <type_traits>

#include "pipeline/config/settings.gen.h"
#include "support/option_samples.h"

namespace rl {
namespace {

// Compares fields with the values of their keys, and counts them.
class Fields {
 public:
  explicit Fields(const OptionSet& options) : options_(options) {}

  // An enumerator is compared by its place among the choices, or as the name of its value.
  template <typename T>
  void same(const char* key, const T& value) {
    ++count_;
    if constexpr (std::is_enum_v<T>) {
      const OptionInfo& info = require_option(key);
      ASSERT_LT(static_cast<size_t>(value), info.num_choices) << key;
      EXPECT_EQ(info.choices[static_cast<size_t>(value)].name, options_.get_string(key)) << key;
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      EXPECT_EQ(std::string_view(value), options_.get_string(key)) << key;
    } else {
      EXPECT_EQ(value, std::get<T>(options_.get_value(key).base())) << key;
    }
  }
  size_t count() const { return count_; }

 private:
  const OptionSet& options_;
  size_t count_ = 0;
};

void compare_algorithm(const Settings& s, Fields& c) {
  c.same("algo.adv_ddof", s.algo.adv_ddof);
  c.same("algo.adv_eps", s.algo.adv_eps);
  c.same("algo.adv_norm_std", s.algo.adv_norm_std);
  c.same("algo.adv_singleton", adv_singleton_name(s.algo.adv_singleton));
  c.same("algo.adv_std_scope", s.algo.adv_std_scope);
  c.same("algo.advantage", advantage_name(s.algo.advantage));
  c.same("algo.clip_cov_high", s.algo.clip_cov_high);
  c.same("algo.clip_cov_low", s.algo.clip_cov_low);
  c.same("algo.clip_high", s.algo.clip_high);
  c.same("algo.clip_low", s.algo.clip_low);
  c.same("algo.cov_ratio", s.algo.cov_ratio);
  c.same("algo.critic_warmup_steps", s.algo.critic_warmup_steps);
  c.same("algo.dro_beta", s.algo.dro_beta);
  c.same("algo.dual_clip", s.algo.dual_clip);
  c.same("algo.entropy_coef", s.algo.entropy_coef);
  c.same("algo.gae_masked", masked_tokens_name(s.algo.gae_masked));
  c.same("algo.gamma", s.algo.gamma);
  c.same("algo.gdpo_weights", s.algo.gdpo_weights);
  c.same("algo.gspo_gradient", s.algo.gspo_gradient);
  c.same("algo.kl_cov_coef", s.algo.kl_cov_coef);
  c.same("algo.lambda", s.algo.lambda);
  c.same("algo.loss_agg", loss_agg_name(s.algo.loss_agg));
  c.same("algo.loss_scale_factor", s.algo.loss_scale_factor);
  c.same("algo.objective", objective_name(s.algo.objective));
  c.same("algo.policy_loss", policy_loss_name(s.algo.policy_loss));
  c.same("algo.ratio_cap", s.algo.ratio_cap);
  c.same("algo.ratio_log_clamp", s.algo.ratio_log_clamp);
  c.same("algo.sapo_tau_neg", s.algo.sapo_tau_neg);
  c.same("algo.sapo_tau_pos", s.algo.sapo_tau_pos);
  c.same("algo.value_clip", s.algo.value_clip);
  c.same("algo.whiten", s.algo.whiten);
}

void compare_algorithm_terms(const Settings& s, Fields& c) {
  c.same("algo.correction.batch_normalize", s.algo.correction.batch_normalize);
  c.same("algo.correction.decoupled", s.algo.correction.decoupled);
  c.same("algo.correction.denominator", s.algo.correction.denominator);
  c.same("algo.correction.high", s.algo.correction.high);
  c.same("algo.correction.is", correction_level_name(s.algo.correction.is));
  c.same("algo.correction.log_clamp", s.algo.correction.log_clamp);
  c.same("algo.correction.low", s.algo.correction.low);
  c.same("algo.correction.mode", correction_mode_name(s.algo.correction.mode));
  c.same("algo.correction.opsm_delta", s.algo.correction.opsm_delta);
  c.same("algo.correction.rs", s.algo.correction.rs);
  c.same("algo.correction.rs_bounds", s.algo.correction.rs_bounds);
  c.same("algo.correction.veto", s.algo.correction.veto);
  c.same("algo.distill.beta", s.algo.distill.beta);
  c.same("algo.distill.coef", s.algo.distill.coef);
  c.same("algo.distill.kl", s.algo.distill.kl);
  c.same("algo.distill.rewards", s.algo.distill.rewards);
  c.same("algo.dpo.beta", s.algo.dpo.beta);
  c.same("algo.dpo.ipo", s.algo.dpo.ipo);
  c.same("algo.dpo.label_smoothing", s.algo.dpo.label_smoothing);
  c.same("algo.dpo.nll_coef", s.algo.dpo.nll_coef);
  c.same("algo.kl.coef", s.algo.kl.coef);
  c.same("algo.kl.controller", kl_control_name(s.algo.kl.controller));
  c.same("algo.kl.estimator", kl_estimator_name(s.algo.kl.estimator));
  c.same("algo.kl.horizon", s.algo.kl.horizon);
  c.same("algo.kl.ratio", s.algo.kl.ratio);
  c.same("algo.kl.ratio_cap", s.algo.kl.ratio_cap);
  c.same("algo.kl.spread", s.algo.kl.spread);
  c.same("algo.kl.target", s.algo.kl.target);
  c.same("algo.kl.value_clamp", s.algo.kl.value_clamp);
  c.same("algo.kl.where", s.algo.kl.where);
  c.same("algo.reward.clip_at", s.algo.reward.clip_at);
  c.same("algo.reward.clip_high", s.algo.reward.clip_high);
  c.same("algo.reward.clip_low", s.algo.reward.clip_low);
  c.same("algo.reward.normalize", s.algo.reward.normalize);
  c.same("algo.reward.overlong_buffer", s.algo.reward.overlong_buffer);
  c.same("algo.reward.overlong_penalty", s.algo.reward.overlong_penalty);
  c.same("algo.reward.truncation_penalty", s.algo.reward.truncation_penalty);
}

void compare_generation(const Settings& s, Fields& c) {
  c.same("engine.block_size", s.engine.block_size);
  c.same("engine.chunked_prefill", s.engine.chunked_prefill);
  c.same("engine.graph_batch_sizes", s.engine.graph_batch_sizes);
  c.same("engine.keep_kv_on_publish", s.engine.keep_kv_on_publish);
  c.same("engine.kv_dtype", s.engine.kv_dtype);
  c.same("engine.kv_watermark", s.engine.kv_watermark);
  c.same("engine.max_model_len", s.engine.max_model_len);
  c.same("engine.max_num_batched_tokens", s.engine.max_num_batched_tokens);
  c.same("engine.max_num_seqs", s.engine.max_num_seqs);
  c.same("engine.memory_fraction", s.engine.memory_fraction);
  c.same("engine.num_engines", s.engine.num_engines);
  c.same("engine.preemption", s.engine.preemption);
  c.same("engine.prefill_chunk", s.engine.prefill_chunk);
  c.same("engine.prefix_caching", s.engine.prefix_caching);
  c.same("engine.scheduling_policy", s.engine.scheduling_policy);
  c.same("engine.stats_interval_ns", s.engine.stats_interval_ns);
  c.same("engine.stream_tokens", s.engine.stream_tokens);
  c.same("engine.swap_space_bytes", s.engine.swap_space_bytes);
  c.same("engine.tensor_parallel_size", s.engine.tensor_parallel_size);
  c.same("engine.thread", s.engine.thread);
  c.same("sampling.allowed_token_ids", s.sampling.allowed_token_ids);
  c.same("sampling.frequency_penalty", s.sampling.frequency_penalty);
  c.same("sampling.ignore_eos", s.sampling.ignore_eos);
  c.same("sampling.logit_bias", s.sampling.logit_bias);
  c.same("sampling.logprobs", s.sampling.logprobs);
  c.same("sampling.max_new_tokens", s.sampling.max_new_tokens);
  c.same("sampling.min_new_tokens", s.sampling.min_new_tokens);
  c.same("sampling.min_p", s.sampling.min_p);
  c.same("sampling.presence_penalty", s.sampling.presence_penalty);
  c.same("sampling.prompt_logprobs", s.sampling.prompt_logprobs);
  c.same("sampling.repetition_penalty", s.sampling.repetition_penalty);
  c.same("sampling.seed", s.sampling.seed);
  c.same("sampling.stop", s.sampling.stop);
  c.same("sampling.stop_token_ids", s.sampling.stop_token_ids);
  c.same("sampling.temperature", s.sampling.temperature);
  c.same("sampling.top_k", s.sampling.top_k);
  c.same("sampling.top_p", s.sampling.top_p);
}

void compare_training(const Settings& s, Fields& c) {
  c.same("critic.forward_max_tokens_per_device", s.critic.forward_max_tokens_per_device);
  c.same("critic.max_tokens_per_device", s.critic.max_tokens_per_device);
  c.same("critic.micro_batch_size", s.critic.micro_batch_size);
  c.same("critic.optimizer.grad_clip", s.critic.optimizer.grad_clip);
  c.same("critic.optimizer.lr", s.critic.optimizer.lr);
  c.same("critic.optimizer.weight_decay", s.critic.optimizer.weight_decay);
  c.same("critic.recompute_granularity", s.critic.recompute_granularity);
  c.same("eval.weights", s.eval.weights);
  c.same("optimizer.cpu_offload", s.optimizer.cpu_offload);
  c.same("optimizer.cpu_offload_fraction", s.optimizer.cpu_offload_fraction);
  c.same("optimizer.ema", s.optimizer.ema);
  c.same("optimizer.muon_momentum", s.optimizer.muon_momentum);
  c.same("optimizer.muon_ns_steps", s.optimizer.muon_ns_steps);
  c.same("optimizer.no_decay", s.optimizer.no_decay);
  c.same("optimizer.overlap_d2h_h2d", s.optimizer.overlap_d2h_h2d);
  c.same("optimizer.state_dtype", s.optimizer.state_dtype);
  c.same("reference.offload", s.reference.offload);
  c.same("reference.weights", s.reference.weights);
  c.same("optimizer.beta1", s.optimizer.beta1);
  c.same("optimizer.beta2", s.optimizer.beta2);
  c.same("optimizer.eps", s.optimizer.eps);
  c.same("optimizer.grad_clip", s.optimizer.grad_clip);
  c.same("optimizer.lr", s.optimizer.lr);
  c.same("optimizer.name", s.optimizer.name);
  c.same("optimizer.weight_decay", s.optimizer.weight_decay);
  c.same("schedule.min_lr", s.schedule.min_lr);
  c.same("schedule.name", schedule_name(s.schedule.name));
  c.same("schedule.total_steps", s.schedule.total_steps);
  c.same("schedule.warmup_steps", s.schedule.warmup_steps);
  c.same("trainer.activation_offload", s.trainer.activation_offload);
  c.same("trainer.backward_weights", s.trainer.backward_weights);
  c.same("trainer.balance", balance_cost_name(s.trainer.balance));
  c.same("trainer.check_logprobs", s.trainer.check_logprobs);
  c.same("trainer.dynamic_batching", s.trainer.dynamic_batching);
  c.same("trainer.epochs", s.trainer.epochs);
  c.same("trainer.free_grad_buffers_on_publish", s.trainer.free_grad_buffers_on_publish);
  c.same("trainer.global_batch_size", s.trainer.global_batch_size);
  c.same("trainer.grad_dtype", s.trainer.grad_dtype);
  c.same("trainer.logprob_chunk_tokens", s.trainer.logprob_chunk_tokens);
  c.same("trainer.logprob_max_tokens_per_device", s.trainer.logprob_max_tokens_per_device);
  c.same("trainer.max_tokens_per_device", s.trainer.max_tokens_per_device);
  c.same("trainer.micro_batch_size", s.trainer.micro_batch_size);
  c.same("trainer.mlp_chunk_tokens", s.trainer.mlp_chunk_tokens);
  c.same("trainer.num_minibatches", s.trainer.num_minibatches);
  c.same("trainer.oversize", s.trainer.oversize);
  c.same("trainer.pad_to_multiple_of", s.trainer.pad_to_multiple_of);
  c.same("trainer.recompute_granularity", s.trainer.recompute_granularity);
  c.same("trainer.recompute_loss", s.trainer.recompute_loss);
  c.same("trainer.recompute_method", s.trainer.recompute_method);
  c.same("trainer.recompute_modules", s.trainer.recompute_modules);
  c.same("trainer.recompute_num_layers", s.trainer.recompute_num_layers);
  c.same("trainer.seq_len", s.trainer.seq_len);
  c.same("trainer.sequence_packing", s.trainer.sequence_packing);
  c.same("trainer.shared_prefix", s.trainer.shared_prefix);
  c.same("trainer.weights_backup", s.trainer.weights_backup);
}

void compare_models(const Settings& s, Fields& c) {
  c.same("model.chat_template_path", s.model.chat_template_path);
  c.same("model.compute_copies", s.model.compute_copies);
  c.same("model.critic_path", s.model.critic_path);
  c.same("model.dtype", s.model.dtype);
  c.same("model.freeze", s.model.freeze);
  c.same("model.path", s.model.path);
  c.same("model.reference_path", s.model.reference_path);
  c.same("model.reward_path", s.model.reward_path);
  c.same("model.teacher_path", s.model.teacher_path);
  c.same("model.train_only", s.model.train_only);
  c.same("reference.forward_max_tokens_per_device", s.reference.forward_max_tokens_per_device);
  c.same("reference.micro_batch_size", s.reference.micro_batch_size);
  c.same("reward.forward_max_tokens_per_device", s.reward.forward_max_tokens_per_device);
  c.same("reward.micro_batch_size", s.reward.micro_batch_size);
  c.same("parallel.context", s.parallel.context);
  c.same("parallel.context_kind", s.parallel.context_kind);
  c.same("parallel.context_zigzag", s.parallel.context_zigzag);
  c.same("parallel.data", s.parallel.data);
  c.same("parallel.zero_stage", s.parallel.zero_stage);
  c.same("parallel.zero_group", s.parallel.zero_group);
  c.same("parallel.overlap_grad_reduce", s.parallel.overlap_grad_reduce);
  c.same("parallel.overlap_param_gather", s.parallel.overlap_param_gather);
  c.same("parallel.forward_prefetch", s.parallel.forward_prefetch);
  c.same("parallel.backward_prefetch", s.parallel.backward_prefetch);
  c.same("comm.backend", s.comm.backend);
  c.same("comm.rank", s.comm.rank);
  c.same("comm.rendezvous", s.comm.rendezvous);
  c.same("comm.reduction_order", s.comm.reduction_order);
  c.same("parallel.devices.critic", s.parallel.devices.critic);
  c.same("parallel.devices.engine", s.parallel.devices.engine);
  c.same("parallel.devices.reference", s.parallel.devices.reference);
  c.same("parallel.devices.reward", s.parallel.devices.reward);
  c.same("parallel.devices.trainer", s.parallel.devices.trainer);
  c.same("parallel.reduction_parts", s.parallel.reduction_parts);
  c.same("parallel.sequence_parallel", s.parallel.sequence_parallel);
  c.same("parallel.tensor", s.parallel.tensor);
  c.same("parallel.pipeline", s.parallel.pipeline);
  c.same("parallel.pipeline_first_layers", s.parallel.pipeline_first_layers);
  c.same("parallel.pipeline_last_layers", s.parallel.pipeline_last_layers);
  c.same("comm.memory_check", s.comm.memory_check);
  c.same("comm.memory_check_threshold_bytes", s.comm.memory_check_threshold_bytes);
  c.same("sync.bucket_bytes", s.sync.bucket_bytes);
  c.same("comm.timeout_ns", s.comm.timeout_ns);
  c.same("trainer.balance_groups", s.trainer.balance_groups);
  c.same("runtime.busy_timeout_ns", s.runtime.busy_timeout_ns);
  c.same("runtime.cpus", s.runtime.cpus);
  c.same("runtime.device", s.runtime.device);
  c.same("runtime.device_index", s.runtime.device_index);
  c.same("runtime.experiment", s.runtime.experiment);
  c.same("runtime.gpu_ranges", s.runtime.gpu_ranges);
  c.same("runtime.host_memory_budget_bytes", s.runtime.host_memory_budget_bytes);
  c.same("runtime.instance", s.runtime.instance);
  c.same("runtime.log_level", log_level_name(s.runtime.log_level));
  c.same("runtime.memory_budget_bytes", s.runtime.memory_budget_bytes);
  c.same("runtime.memory_margin_bytes", s.runtime.memory_margin_bytes);
  c.same("runtime.output_dir", s.runtime.output_dir);
  c.same("runtime.seed", s.runtime.seed);
  c.same("runtime.threads", s.runtime.threads);
}

void compare_run(const Settings& s, Fields& c) {
  c.same("data.path", s.data.path);
  c.same("data.shuffle", s.data.shuffle);
  c.same("data.preprocess_workers", s.data.preprocess_workers);
  c.same("data.shuffle_seed", s.data.shuffle_seed);
  c.same("data.streaming", s.data.streaming);
  c.same("data.streaming_buffer_size", s.data.streaming_buffer_size);
  c.same("eval.every_steps", s.eval.every_steps);
  c.same("eval.max_new_tokens", s.eval.max_new_tokens);
  c.same("eval.max_prompts", s.eval.max_prompts);
  c.same("eval.path", s.eval.path);
  c.same("eval.samples_per_prompt", s.eval.samples_per_prompt);
  c.same("eval.temperature", s.eval.temperature);
  c.same("eval.top_p", s.eval.top_p);
  c.same("pipeline.discard_zero_advantage", s.pipeline.discard_zero_advantage);
  c.same("pipeline.filter", s.pipeline.filter);
  c.same("pipeline.filter_high", s.pipeline.filter_high);
  c.same("pipeline.filter_low", s.pipeline.filter_low);
  c.same("pipeline.filter_max_rounds", s.pipeline.filter_max_rounds);
  c.same("pipeline.filter_spread", s.pipeline.filter_spread);
  c.same("pipeline.mask_off_policy_tokens", s.pipeline.mask_off_policy_tokens);
  c.same("pipeline.max_off_policy_steps", s.pipeline.max_off_policy_steps);
  c.same("pipeline.max_staleness", s.pipeline.max_staleness);
  c.same("pipeline.max_turns", s.pipeline.max_turns);
  c.same("pipeline.mode", s.pipeline.mode);
  c.same("pipeline.over_sampling_prompts", s.pipeline.over_sampling_prompts);
  c.same("pipeline.free_lane_after_generation", s.pipeline.free_lane_after_generation);
  c.same("pipeline.max_concurrent_prompts_per_engine",
         s.pipeline.max_concurrent_prompts_per_engine);
  c.same("pipeline.sample_lanes", s.pipeline.sample_lanes);
  c.same("pipeline.colocate", s.pipeline.colocate);
  c.same("pipeline.placement", s.pipeline.placement);
  c.same("pipeline.role", s.pipeline.role);
  c.same("pipeline.weights_dir", s.pipeline.weights_dir);
  c.same("pipeline.rollout_turns", s.pipeline.rollout_turns);
  c.same("pipeline.train_turns", s.pipeline.train_turns);
  c.same("pipeline.prompt_prefetch", s.pipeline.prompt_prefetch);
  c.same("pipeline.prompt_prefetch_size", s.pipeline.prompt_prefetch_size);
  c.same("pipeline.record_path", s.pipeline.record_path);
  c.same("pipeline.replay_path", s.pipeline.replay_path);
  c.same("pipeline.overlong_filter", s.pipeline.overlong_filter);
  c.same("pipeline.partial_rollout", s.pipeline.partial_rollout);
  c.same("pipeline.partial_rollout_max_aborts", s.pipeline.partial_rollout_max_aborts);
  c.same("pipeline.prompts_per_step", s.pipeline.prompts_per_step);
  c.same("pipeline.queue_size", s.pipeline.queue_size);
  c.same("pipeline.repetition_filter", s.pipeline.repetition_filter);
  c.same("pipeline.repetition_ngram", s.pipeline.repetition_ngram);
  c.same("pipeline.reply_timeout_ns", s.pipeline.reply_timeout_ns);
  c.same("pipeline.reward_timeout_ns", s.pipeline.reward_timeout_ns);
  c.same("pipeline.samples_per_prompt", s.pipeline.samples_per_prompt);
  c.same("pipeline.score_events", s.pipeline.score_events);
  c.same("pipeline.total_steps", s.pipeline.total_steps);
  c.same("pipeline.turns", s.pipeline.turns);
}

void compare_records(const Settings& s, Fields& c) {
  c.same("buffer.compression_level", s.buffer.compression_level);
  c.same("buffer.max_staleness", s.buffer.max_staleness);
  c.same("buffer.num_storage_units", s.buffer.num_storage_units);
  c.same("buffer.policy", s.buffer.policy);
  c.same("buffer.record_dir", s.buffer.record_dir);
  c.same("buffer.spill_path", s.buffer.spill_path);
  c.same("buffer.store_lease_ns", s.buffer.store_lease_ns);
  c.same("buffer.store_path", s.buffer.store_path);
  c.same("checkpoint.async", s.checkpoint.async);
  c.same("checkpoint.contents", s.checkpoint.contents);
  c.same("checkpoint.dir", s.checkpoint.dir);
  c.same("checkpoint.every_steps", s.checkpoint.every_steps);
  c.same("checkpoint.keep_best", s.checkpoint.keep_best);
  c.same("checkpoint.keep_last", s.checkpoint.keep_last);
  c.same("checkpoint.metric", s.checkpoint.metric);
  c.same("checkpoint.metric_goal", s.checkpoint.metric_goal);
  c.same("checkpoint.on_failure", s.checkpoint.on_failure);
  c.same("checkpoint.resume", s.checkpoint.resume);
  c.same("metrics.eval_jsonl", s.metrics.eval_jsonl);
  c.same("metrics.interval_steps", s.metrics.interval_steps);
  c.same("metrics.jsonl", s.metrics.jsonl);
  c.same("metrics.max_samples", s.metrics.max_samples);
  c.same("metrics.samples", s.metrics.samples);
  c.same("metrics.tensorboard", s.metrics.tensorboard);
  c.same("profiler.timeline.dir", s.profiler.timeline.dir);
  c.same("profiler.timeline.enable", s.profiler.timeline.enable);
}

size_t compare_all(const OptionSet& options) {
  const Settings settings = options;
  Fields fields(options);
  compare_algorithm(settings, fields);
  compare_algorithm_terms(settings, fields);
  compare_generation(settings, fields);
  compare_training(settings, fields);
  compare_models(settings, fields);
  compare_run(settings, fields);
  compare_records(settings, fields);
  return fields.count();
}

TEST(SettingsFields, AreTheOptionsOfTheirKeys) {
  EXPECT_EQ(compare_all({}), option_count()) << "the test leaves out an option";
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    SCOPED_TRACE(info.key);
    for (const OptionValue& value : testing::valid_values(info)) {
      OptionSet changed;
      changed.set_value(info.key, value);
      if (!changed.is_default(info.key)) compare_all(changed);
    }
  }
}

}  // namespace
}  // namespace rl
