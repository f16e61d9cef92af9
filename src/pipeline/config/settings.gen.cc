// Generated from abi/options.yml by tools/gen_options.py; edit the former and run the latter.
#include "pipeline/config/settings.gen.h"

#include "core/error.h"

namespace rl {
namespace {

// The choice with the option's value; enumerators are numbered as the choices are.
template <typename E>
E choice_of(const OptionSet& options, const char* key) {
  const OptionInfo& info = require_option(key);
  const std::string& name = options.get_string(key);
  size_t index = 0;
  while (index < info.num_choices && name != info.choices[index].name) ++index;
  RL_CHECK(index < info.num_choices);
  return static_cast<E>(index);
}

}  // namespace

AlgoCorrectionSettings::AlgoCorrectionSettings(const OptionSet& options)
    : batch_normalize(options.get_bool("algo.correction.batch_normalize")),
      decoupled(options.get_bool("algo.correction.decoupled")),
      denominator(choice_of<AlgoCorrectionDenominator>(options, "algo.correction.denominator")),
      high(options.get_f64("algo.correction.high")),
      is(parse_correction_level(options.get_string("algo.correction.is"))),
      log_clamp(options.get_f64("algo.correction.log_clamp")),
      low(options.get_f64("algo.correction.low")),
      mode(parse_correction_mode(options.get_string("algo.correction.mode"))),
      opsm_delta(options.get_f64("algo.correction.opsm_delta")),
      rs(options.get_string_list("algo.correction.rs")),
      rs_bounds(options.get_string_list("algo.correction.rs_bounds")),
      veto(options.get_f64("algo.correction.veto")) {}

AlgoDistillSettings::AlgoDistillSettings(const OptionSet& options)
    : beta(options.get_f64("algo.distill.beta")),
      coef(options.get_f64("algo.distill.coef")),
      kl(choice_of<AlgoDistillKl>(options, "algo.distill.kl")),
      rewards(options.get_bool("algo.distill.rewards")) {}

AlgoDpoSettings::AlgoDpoSettings(const OptionSet& options)
    : beta(options.get_f64("algo.dpo.beta")),
      ipo(options.get_bool("algo.dpo.ipo")),
      label_smoothing(options.get_f64("algo.dpo.label_smoothing")),
      nll_coef(options.get_f64("algo.dpo.nll_coef")) {}

AlgoKlSettings::AlgoKlSettings(const OptionSet& options)
    : coef(options.get_f64("algo.kl.coef")),
      controller(parse_kl_control(options.get_string("algo.kl.controller"))),
      estimator(parse_kl_estimator(options.get_string("algo.kl.estimator"))),
      horizon(options.get_f64("algo.kl.horizon")),
      ratio(choice_of<AlgoKlRatio>(options, "algo.kl.ratio")),
      ratio_cap(options.get_f64("algo.kl.ratio_cap")),
      spread(choice_of<AlgoKlSpread>(options, "algo.kl.spread")),
      target(options.get_f64("algo.kl.target")),
      value_clamp(options.get_f64("algo.kl.value_clamp")),
      where(choice_of<AlgoKlWhere>(options, "algo.kl.where")) {}

AlgoRewardSettings::AlgoRewardSettings(const OptionSet& options)
    : clip_at(choice_of<AlgoRewardClipAt>(options, "algo.reward.clip_at")),
      clip_high(options.get_f64("algo.reward.clip_high")),
      clip_low(options.get_f64("algo.reward.clip_low")),
      normalize(options.get_bool("algo.reward.normalize")),
      overlong_buffer(options.get_i64("algo.reward.overlong_buffer")),
      overlong_penalty(options.get_f64("algo.reward.overlong_penalty")),
      truncation_penalty(options.get_f64("algo.reward.truncation_penalty")) {}

AlgoSettings::AlgoSettings(const OptionSet& options)
    : adv_ddof(options.get_i64("algo.adv_ddof")),
      adv_eps(options.get_f64("algo.adv_eps")),
      adv_norm_std(options.get_bool("algo.adv_norm_std")),
      adv_singleton(parse_adv_singleton(options.get_string("algo.adv_singleton"))),
      adv_std_scope(choice_of<AlgoAdvStdScope>(options, "algo.adv_std_scope")),
      advantage(parse_advantage(options.get_string("algo.advantage"))),
      clip_cov_high(options.get_f64("algo.clip_cov_high")),
      clip_cov_low(options.get_f64("algo.clip_cov_low")),
      clip_high(options.get_f64("algo.clip_high")),
      clip_low(options.get_f64("algo.clip_low")),
      cov_ratio(options.get_f64("algo.cov_ratio")),
      critic_warmup_steps(options.get_i64("algo.critic_warmup_steps")),
      dro_beta(options.get_f64("algo.dro_beta")),
      dual_clip(options.get_f64("algo.dual_clip")),
      entropy_coef(options.get_f64("algo.entropy_coef")),
      gae_masked(parse_masked_tokens(options.get_string("algo.gae_masked"))),
      gamma(options.get_f64("algo.gamma")),
      gdpo_weights(options.get_string_list("algo.gdpo_weights")),
      gspo_gradient(choice_of<AlgoGspoGradient>(options, "algo.gspo_gradient")),
      kl_cov_coef(options.get_f64("algo.kl_cov_coef")),
      lambda(options.get_f64("algo.lambda")),
      loss_agg(parse_loss_agg(options.get_string("algo.loss_agg"))),
      loss_scale_factor(options.get_f64("algo.loss_scale_factor")),
      objective(parse_objective(options.get_string("algo.objective"))),
      policy_loss(parse_policy_loss(options.get_string("algo.policy_loss"))),
      ratio_cap(options.get_f64("algo.ratio_cap")),
      ratio_log_clamp(options.get_f64("algo.ratio_log_clamp")),
      sapo_tau_neg(options.get_f64("algo.sapo_tau_neg")),
      sapo_tau_pos(options.get_f64("algo.sapo_tau_pos")),
      value_clip(options.get_f64("algo.value_clip")),
      whiten(choice_of<AlgoWhiten>(options, "algo.whiten")),
      correction(options),
      distill(options),
      dpo(options),
      kl(options),
      reward(options) {}

BufferSettings::BufferSettings(const OptionSet& options)
    : compression_level(options.get_i64("buffer.compression_level")),
      max_staleness(options.get_i64("buffer.max_staleness")),
      num_storage_units(options.get_i64("buffer.num_storage_units")),
      policy(choice_of<BufferPolicy>(options, "buffer.policy")),
      record_dir(options.get_string("buffer.record_dir")),
      spill_path(options.get_string("buffer.spill_path")),
      store_lease_ns(options.get_i64("buffer.store_lease_ns")),
      store_path(options.get_string("buffer.store_path")) {}

CheckpointSettings::CheckpointSettings(const OptionSet& options)
    : async(options.get_bool("checkpoint.async")),
      contents(options.get_string_list("checkpoint.contents")),
      dir(options.get_string("checkpoint.dir")),
      every_steps(options.get_i64("checkpoint.every_steps")),
      keep_best(options.get_i64("checkpoint.keep_best")),
      keep_last(options.get_i64("checkpoint.keep_last")),
      metric(options.get_string("checkpoint.metric")),
      metric_goal(choice_of<CheckpointMetricGoal>(options, "checkpoint.metric_goal")),
      on_failure(choice_of<CheckpointOnFailure>(options, "checkpoint.on_failure")),
      resume(options.get_string("checkpoint.resume")) {}

CommSettings::CommSettings(const OptionSet& options)
    : backend(choice_of<CommBackend>(options, "comm.backend")),
      memory_check(options.get_bool("comm.memory_check")),
      memory_check_threshold_bytes(options.get_u64("comm.memory_check_threshold_bytes")),
      rank(options.get_i64("comm.rank")),
      reduction_order(choice_of<CommReductionOrder>(options, "comm.reduction_order")),
      rendezvous(options.get_string("comm.rendezvous")),
      timeout_ns(options.get_i64("comm.timeout_ns")) {}

CriticOptimizerSettings::CriticOptimizerSettings(const OptionSet& options)
    : grad_clip(options.get_f64("critic.optimizer.grad_clip")),
      lr(options.get_f64("critic.optimizer.lr")),
      weight_decay(options.get_f64("critic.optimizer.weight_decay")) {}

CriticSettings::CriticSettings(const OptionSet& options)
    : forward_max_tokens_per_device(options.get_i64("critic.forward_max_tokens_per_device")),
      max_tokens_per_device(options.get_i64("critic.max_tokens_per_device")),
      micro_batch_size(options.get_i64("critic.micro_batch_size")),
      recompute_granularity(choice_of<CriticRecomputeGranularity>(options, "critic.recompute_granularity")),
      optimizer(options) {}

DataSettings::DataSettings(const OptionSet& options)
    : path(options.get_string("data.path")),
      preprocess_workers(options.get_i64("data.preprocess_workers")),
      shuffle(options.get_bool("data.shuffle")),
      shuffle_seed(options.get_u64("data.shuffle_seed")),
      streaming(options.get_bool("data.streaming")),
      streaming_buffer_size(options.get_i64("data.streaming_buffer_size")) {}

EngineSettings::EngineSettings(const OptionSet& options)
    : block_size(options.get_i64("engine.block_size")),
      chunked_prefill(options.get_bool("engine.chunked_prefill")),
      graph_batch_sizes(options.get_i64_list("engine.graph_batch_sizes")),
      keep_kv_on_publish(options.get_bool("engine.keep_kv_on_publish")),
      kv_dtype(choice_of<EngineKvDtype>(options, "engine.kv_dtype")),
      kv_watermark(options.get_f64("engine.kv_watermark")),
      max_model_len(options.get_i64("engine.max_model_len")),
      max_num_batched_tokens(options.get_i64("engine.max_num_batched_tokens")),
      max_num_seqs(options.get_i64("engine.max_num_seqs")),
      memory_fraction(options.get_f64("engine.memory_fraction")),
      num_engines(options.get_i64("engine.num_engines")),
      preemption(choice_of<EnginePreemption>(options, "engine.preemption")),
      prefill_chunk(options.get_i64("engine.prefill_chunk")),
      prefix_caching(options.get_bool("engine.prefix_caching")),
      scheduling_policy(choice_of<EngineSchedulingPolicy>(options, "engine.scheduling_policy")),
      stats_interval_ns(options.get_i64("engine.stats_interval_ns")),
      stream_tokens(options.get_i64("engine.stream_tokens")),
      swap_space_bytes(options.get_u64("engine.swap_space_bytes")),
      tensor_parallel_size(options.get_i64("engine.tensor_parallel_size")),
      thread(options.get_bool("engine.thread")) {}

EvalSettings::EvalSettings(const OptionSet& options)
    : every_steps(options.get_i64("eval.every_steps")),
      max_new_tokens(options.get_i64("eval.max_new_tokens")),
      max_prompts(options.get_i64("eval.max_prompts")),
      path(options.get_string("eval.path")),
      samples_per_prompt(options.get_i64("eval.samples_per_prompt")),
      temperature(options.get_f64("eval.temperature")),
      top_p(options.get_f64("eval.top_p")),
      weights(choice_of<EvalWeights>(options, "eval.weights")) {}

MetricsSettings::MetricsSettings(const OptionSet& options)
    : eval_jsonl(options.get_string("metrics.eval_jsonl")),
      interval_steps(options.get_i64("metrics.interval_steps")),
      jsonl(options.get_string("metrics.jsonl")),
      max_samples(options.get_i64("metrics.max_samples")),
      samples(options.get_string("metrics.samples")),
      tensorboard(options.get_bool("metrics.tensorboard")) {}

ModelSettings::ModelSettings(const OptionSet& options)
    : chat_template_path(options.get_string("model.chat_template_path")),
      compute_copies(options.get_i64("model.compute_copies")),
      critic_path(options.get_string("model.critic_path")),
      dtype(choice_of<ModelDtype>(options, "model.dtype")),
      freeze(options.get_string_list("model.freeze")),
      path(options.get_string("model.path")),
      reference_path(options.get_string("model.reference_path")),
      reward_path(options.get_string("model.reward_path")),
      teacher_path(options.get_string("model.teacher_path")),
      train_only(options.get_string_list("model.train_only")) {}

OptimizerSettings::OptimizerSettings(const OptionSet& options)
    : beta1(options.get_f64("optimizer.beta1")),
      beta2(options.get_f64("optimizer.beta2")),
      cpu_offload(options.get_bool("optimizer.cpu_offload")),
      cpu_offload_fraction(options.get_f64("optimizer.cpu_offload_fraction")),
      ema(options.get_f64("optimizer.ema")),
      eps(options.get_f64("optimizer.eps")),
      grad_clip(options.get_f64("optimizer.grad_clip")),
      lr(options.get_f64("optimizer.lr")),
      muon_momentum(options.get_f64("optimizer.muon_momentum")),
      muon_ns_steps(options.get_i64("optimizer.muon_ns_steps")),
      name(choice_of<OptimizerName>(options, "optimizer.name")),
      no_decay(options.get_string_list("optimizer.no_decay")),
      overlap_d2h_h2d(options.get_bool("optimizer.overlap_d2h_h2d")),
      state_dtype(choice_of<OptimizerStateDtype>(options, "optimizer.state_dtype")),
      weight_decay(options.get_f64("optimizer.weight_decay")) {}

ParallelDevicesSettings::ParallelDevicesSettings(const OptionSet& options)
    : critic(options.get_i64_list("parallel.devices.critic")),
      engine(options.get_i64_list("parallel.devices.engine")),
      reference(options.get_i64_list("parallel.devices.reference")),
      reward(options.get_i64_list("parallel.devices.reward")),
      trainer(options.get_i64_list("parallel.devices.trainer")) {}

ParallelSettings::ParallelSettings(const OptionSet& options)
    : backward_prefetch(choice_of<ParallelBackwardPrefetch>(options, "parallel.backward_prefetch")),
      context(options.get_i64("parallel.context")),
      context_kind(choice_of<ParallelContextKind>(options, "parallel.context_kind")),
      context_zigzag(options.get_bool("parallel.context_zigzag")),
      data(options.get_i64("parallel.data")),
      forward_prefetch(options.get_bool("parallel.forward_prefetch")),
      overlap_grad_reduce(options.get_bool("parallel.overlap_grad_reduce")),
      overlap_param_gather(options.get_bool("parallel.overlap_param_gather")),
      pipeline(options.get_i64("parallel.pipeline")),
      pipeline_first_layers(options.get_i64("parallel.pipeline_first_layers")),
      pipeline_last_layers(options.get_i64("parallel.pipeline_last_layers")),
      reduction_parts(options.get_i64("parallel.reduction_parts")),
      sequence_parallel(options.get_bool("parallel.sequence_parallel")),
      tensor(options.get_i64("parallel.tensor")),
      zero_group(options.get_i64("parallel.zero_group")),
      zero_stage(options.get_i64("parallel.zero_stage")),
      devices(options) {}

PipelineSettings::PipelineSettings(const OptionSet& options)
    : colocate(choice_of<PipelineColocate>(options, "pipeline.colocate")),
      discard_zero_advantage(options.get_bool("pipeline.discard_zero_advantage")),
      filter(choice_of<PipelineFilter>(options, "pipeline.filter")),
      filter_high(options.get_f64("pipeline.filter_high")),
      filter_low(options.get_f64("pipeline.filter_low")),
      filter_max_rounds(options.get_i64("pipeline.filter_max_rounds")),
      filter_spread(options.get_f64("pipeline.filter_spread")),
      free_lane_after_generation(options.get_bool("pipeline.free_lane_after_generation")),
      mask_off_policy_tokens(options.get_bool("pipeline.mask_off_policy_tokens")),
      max_concurrent_prompts_per_engine(options.get_i64("pipeline.max_concurrent_prompts_per_engine")),
      max_off_policy_steps(options.get_i64("pipeline.max_off_policy_steps")),
      max_staleness(options.get_i64("pipeline.max_staleness")),
      max_turns(options.get_i64("pipeline.max_turns")),
      mode(choice_of<PipelineMode>(options, "pipeline.mode")),
      over_sampling_prompts(options.get_i64("pipeline.over_sampling_prompts")),
      overlong_filter(options.get_bool("pipeline.overlong_filter")),
      partial_rollout(options.get_bool("pipeline.partial_rollout")),
      partial_rollout_max_aborts(options.get_i64("pipeline.partial_rollout_max_aborts")),
      placement(choice_of<PipelinePlacement>(options, "pipeline.placement")),
      prompt_prefetch(options.get_bool("pipeline.prompt_prefetch")),
      prompt_prefetch_size(options.get_i64("pipeline.prompt_prefetch_size")),
      prompts_per_step(options.get_i64("pipeline.prompts_per_step")),
      queue_size(options.get_i64("pipeline.queue_size")),
      record_path(options.get_string("pipeline.record_path")),
      repetition_filter(options.get_f64("pipeline.repetition_filter")),
      repetition_ngram(options.get_i64("pipeline.repetition_ngram")),
      replay_path(options.get_string("pipeline.replay_path")),
      reply_timeout_ns(options.get_i64("pipeline.reply_timeout_ns")),
      reward_timeout_ns(options.get_i64("pipeline.reward_timeout_ns")),
      role(choice_of<PipelineRole>(options, "pipeline.role")),
      rollout_turns(options.get_i64("pipeline.rollout_turns")),
      sample_lanes(choice_of<PipelineSampleLanes>(options, "pipeline.sample_lanes")),
      samples_per_prompt(options.get_i64("pipeline.samples_per_prompt")),
      score_events(choice_of<PipelineScoreEvents>(options, "pipeline.score_events")),
      total_steps(options.get_i64("pipeline.total_steps")),
      train_turns(options.get_i64("pipeline.train_turns")),
      turns(choice_of<PipelineTurns>(options, "pipeline.turns")),
      weights_dir(options.get_string("pipeline.weights_dir")) {}

ProfilerTimelineSettings::ProfilerTimelineSettings(const OptionSet& options)
    : dir(options.get_string("profiler.timeline.dir")),
      enable(options.get_bool("profiler.timeline.enable")) {}

ProfilerSettings::ProfilerSettings(const OptionSet& options)
    : timeline(options) {}

ReferenceSettings::ReferenceSettings(const OptionSet& options)
    : forward_max_tokens_per_device(options.get_i64("reference.forward_max_tokens_per_device")),
      micro_batch_size(options.get_i64("reference.micro_batch_size")),
      offload(options.get_bool("reference.offload")),
      weights(choice_of<ReferenceWeights>(options, "reference.weights")) {}

RewardSettings::RewardSettings(const OptionSet& options)
    : forward_max_tokens_per_device(options.get_i64("reward.forward_max_tokens_per_device")),
      micro_batch_size(options.get_i64("reward.micro_batch_size")) {}

RuntimeSettings::RuntimeSettings(const OptionSet& options)
    : busy_timeout_ns(options.get_i64("runtime.busy_timeout_ns")),
      cpus(options.get_i64_list("runtime.cpus")),
      device(choice_of<RuntimeDevice>(options, "runtime.device")),
      device_index(options.get_i64("runtime.device_index")),
      experiment(options.get_string("runtime.experiment")),
      gpu_ranges(options.get_bool("runtime.gpu_ranges")),
      host_memory_budget_bytes(options.get_u64("runtime.host_memory_budget_bytes")),
      instance(options.get_u64("runtime.instance")),
      log_level(parse_log_level(options.get_string("runtime.log_level"))),
      memory_budget_bytes(options.get_u64("runtime.memory_budget_bytes")),
      memory_margin_bytes(options.get_u64("runtime.memory_margin_bytes")),
      output_dir(options.get_string("runtime.output_dir")),
      seed(options.get_u64("runtime.seed")),
      threads(options.get_i64("runtime.threads")) {}

SamplingSettings::SamplingSettings(const OptionSet& options)
    : allowed_token_ids(options.get_i64_list("sampling.allowed_token_ids")),
      frequency_penalty(options.get_f64("sampling.frequency_penalty")),
      ignore_eos(options.get_bool("sampling.ignore_eos")),
      logit_bias(options.get_string_list("sampling.logit_bias")),
      logprobs(options.get_i64("sampling.logprobs")),
      max_new_tokens(options.get_i64("sampling.max_new_tokens")),
      min_new_tokens(options.get_i64("sampling.min_new_tokens")),
      min_p(options.get_f64("sampling.min_p")),
      presence_penalty(options.get_f64("sampling.presence_penalty")),
      prompt_logprobs(options.get_bool("sampling.prompt_logprobs")),
      repetition_penalty(options.get_f64("sampling.repetition_penalty")),
      seed(options.get_i64("sampling.seed")),
      stop(options.get_string_list("sampling.stop")),
      stop_token_ids(options.get_i64_list("sampling.stop_token_ids")),
      temperature(options.get_f64("sampling.temperature")),
      top_k(options.get_i64("sampling.top_k")),
      top_p(options.get_f64("sampling.top_p")) {}

ScheduleSettings::ScheduleSettings(const OptionSet& options)
    : min_lr(options.get_f64("schedule.min_lr")),
      name(parse_schedule(options.get_string("schedule.name"))),
      total_steps(options.get_i64("schedule.total_steps")),
      warmup_steps(options.get_i64("schedule.warmup_steps")) {}

SyncSettings::SyncSettings(const OptionSet& options)
    : bucket_bytes(options.get_u64("sync.bucket_bytes")) {}

TrainerSettings::TrainerSettings(const OptionSet& options)
    : activation_offload(options.get_bool("trainer.activation_offload")),
      backward_weights(choice_of<TrainerBackwardWeights>(options, "trainer.backward_weights")),
      balance(parse_balance_cost(options.get_string("trainer.balance"))),
      balance_groups(options.get_bool("trainer.balance_groups")),
      check_logprobs(options.get_bool("trainer.check_logprobs")),
      dynamic_batching(options.get_bool("trainer.dynamic_batching")),
      epochs(options.get_i64("trainer.epochs")),
      free_grad_buffers_on_publish(options.get_bool("trainer.free_grad_buffers_on_publish")),
      global_batch_size(options.get_i64("trainer.global_batch_size")),
      grad_dtype(choice_of<TrainerGradDtype>(options, "trainer.grad_dtype")),
      logprob_chunk_tokens(options.get_i64("trainer.logprob_chunk_tokens")),
      logprob_max_tokens_per_device(options.get_i64("trainer.logprob_max_tokens_per_device")),
      max_tokens_per_device(options.get_i64("trainer.max_tokens_per_device")),
      micro_batch_size(options.get_i64("trainer.micro_batch_size")),
      mlp_chunk_tokens(options.get_i64("trainer.mlp_chunk_tokens")),
      num_minibatches(options.get_i64("trainer.num_minibatches")),
      oversize(choice_of<TrainerOversize>(options, "trainer.oversize")),
      pad_to_multiple_of(options.get_i64("trainer.pad_to_multiple_of")),
      recompute_granularity(choice_of<TrainerRecomputeGranularity>(options, "trainer.recompute_granularity")),
      recompute_loss(options.get_bool("trainer.recompute_loss")),
      recompute_method(choice_of<TrainerRecomputeMethod>(options, "trainer.recompute_method")),
      recompute_modules(options.get_string_list("trainer.recompute_modules")),
      recompute_num_layers(options.get_i64("trainer.recompute_num_layers")),
      seq_len(options.get_i64("trainer.seq_len")),
      sequence_packing(options.get_bool("trainer.sequence_packing")),
      shared_prefix(options.get_bool("trainer.shared_prefix")),
      weights_backup(options.get_bool("trainer.weights_backup")) {}

Settings::Settings(const OptionSet& options)
    : set(options),
      algo(options),
      buffer(options),
      checkpoint(options),
      comm(options),
      critic(options),
      data(options),
      engine(options),
      eval(options),
      metrics(options),
      model(options),
      optimizer(options),
      parallel(options),
      pipeline(options),
      profiler(options),
      reference(options),
      reward(options),
      runtime(options),
      sampling(options),
      schedule(options),
      sync(options),
      trainer(options) {}

}  // namespace rl
