// Generated from abi/option_rules.yml and abi/option_presets.yml by tools/gen_options.py; edit the
// former and run the latter.
#include "core/option_rules.h"

#include <iterator>

namespace rl {
namespace {

constexpr OptionCondition kConditions_0[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.adv_norm_std", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_1[] = {
    {"algo.advantage", OptionCondition::kIs,
     "grpo", "", ""},
    {"pipeline.samples_per_prompt", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_2[] = {
    {"algo.clip_cov_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_3[] = {
    {"algo.clip_cov_low", OptionCondition::kAtLeast,
     "", "algo.clip_cov_high", ""},
};
constexpr OptionCondition kConditions_4[] = {
    {"algo.clip_cov_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_5[] = {
    {"algo.clip_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gspo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "cispo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gmpo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_tv", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_kl", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_6[] = {
    {"algo.clip_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gspo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "cispo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gmpo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_tv", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_kl", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_7[] = {
    {"algo.correction.batch_normalize", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_8[] = {
    {"algo.correction.high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_9[] = {
    {"algo.correction.is", OptionCondition::kIsNot,
     "none", "", ""},
    {"algo.correction.decoupled", OptionCondition::kIs,
     "false", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "none", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gpg", "", ""},
};
constexpr OptionCondition kConditions_10[] = {
    {"algo.correction.low", OptionCondition::kAbove,
     "", "algo.correction.high", ""},
};
constexpr OptionCondition kConditions_11[] = {
    {"algo.correction.low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_12[] = {
    {"algo.correction.mode", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_13[] = {
    {"algo.correction.rs_bounds", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.rs", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_14[] = {
    {"algo.cov_ratio", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "kl_cov", "", ""},
};
constexpr OptionCondition kConditions_15[] = {
    {"algo.dro_beta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dro", "", ""},
};
constexpr OptionCondition kConditions_16[] = {
    {"algo.dual_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_17[] = {
    {"algo.gspo_gradient", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gspo", "", ""},
};
constexpr OptionCondition kConditions_18[] = {
    {"algo.kl.coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_19[] = {
    {"algo.kl.estimator", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_20[] = {
    {"algo.kl_cov_coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "kl_cov", "", ""},
};
constexpr OptionCondition kConditions_21[] = {
    {"algo.loss_agg", OptionCondition::kIs,
     "seq_mean_token_sum_norm", "", ""},
    {"algo.loss_scale_factor", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_22[] = {
    {"algo.loss_scale_factor", OptionCondition::kChanged,
     "", "", ""},
    {"algo.loss_agg", OptionCondition::kIsNot,
     "seq_mean_token_sum_norm", "", ""},
};
constexpr OptionCondition kConditions_23[] = {
    {"algo.ratio_cap", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_tv", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_kl", "", ""},
};
constexpr OptionCondition kConditions_24[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIs,
     "gmpo", "", ""},
};
constexpr OptionCondition kConditions_25[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIs,
     "gpg", "", ""},
};
constexpr OptionCondition kConditions_26[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_27[] = {
    {"algo.sapo_tau_neg", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "sapo", "", ""},
};
constexpr OptionCondition kConditions_28[] = {
    {"algo.sapo_tau_pos", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "sapo", "", ""},
};
constexpr OptionCondition kConditions_29[] = {
    {"checkpoint.every_steps", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_30[] = {
    {"checkpoint.keep_last", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_31[] = {
    {"checkpoint.resume", OptionCondition::kIs,
     "auto", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_32[] = {
    {"data.shuffle_seed", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_33[] = {
    {"data.shuffle_seed", OptionCondition::kChanged,
     "", "", ""},
    {"data.shuffle", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_34[] = {
    {"engine.chunked_prefill", OptionCondition::kIs,
     "false", "", ""},
    {"engine.max_model_len", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_35[] = {
    {"engine.keep_kv_on_publish", OptionCondition::kIs,
     "true", "", ""},
    {"engine.preemption", OptionCondition::kIs,
     "recompute", "", ""},
};
constexpr OptionCondition kConditions_36[] = {
    {"engine.keep_kv_on_publish", OptionCondition::kChanged,
     "", "", ""},
    {"model.compute_copies", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_37[] = {
    {"engine.max_num_seqs", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_38[] = {
    {"engine.memory_fraction", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.memory_budget_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_39[] = {
    {"engine.preemption", OptionCondition::kIs,
     "swap", "", ""},
    {"engine.swap_space_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_40[] = {
    {"engine.prefill_chunk", OptionCondition::kChanged,
     "", "", ""},
    {"engine.chunked_prefill", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_41[] = {
    {"engine.prefill_chunk", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_42[] = {
    {"engine.swap_space_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"engine.preemption", OptionCondition::kIs,
     "recompute", "", ""},
};
constexpr OptionCondition kConditions_43[] = {
    {"eval.every_steps", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_44[] = {
    {"engine.max_model_len", OptionCondition::kIsNot,
     "0", "", ""},
    {"eval.max_new_tokens", OptionCondition::kAtLeast,
     "", "engine.max_model_len", ""},
};
constexpr OptionCondition kConditions_45[] = {
    {"eval.max_new_tokens", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_46[] = {
    {"eval.max_prompts", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_47[] = {
    {"eval.samples_per_prompt", OptionCondition::kAbove,
     "", "engine.max_num_seqs", ""},
};
constexpr OptionCondition kConditions_48[] = {
    {"eval.samples_per_prompt", OptionCondition::kChanged,
     "", "", ""},
    {"eval.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_49[] = {
    {"eval.temperature", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_50[] = {
    {"metrics.eval_jsonl", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_51[] = {
    {"metrics.interval_steps", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.jsonl", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_52[] = {
    {"metrics.max_samples", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.samples", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_53[] = {
    {"metrics.tensorboard", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.jsonl", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_54[] = {
    {"model.reference_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_55[] = {
    {"profiler.timeline.dir", OptionCondition::kChanged,
     "", "", ""},
    {"profiler.timeline.enable", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_56[] = {
    {"profiler.timeline.enable", OptionCondition::kIs,
     "true", "", ""},
    {"profiler.timeline.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_57[] = {
    {"runtime.experiment", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
    {"buffer.record_dir", OptionCondition::kIs,
     "", "", ""},
    {"profiler.timeline.dir", OptionCondition::kIs,
     "", "", ""},
    {"metrics.jsonl", OptionCondition::kIs,
     "", "", ""},
    {"metrics.eval_jsonl", OptionCondition::kIs,
     "", "", ""},
    {"metrics.samples", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_58[] = {
    {"runtime.memory_margin_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.memory_budget_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_59[] = {
    {"runtime.memory_budget_bytes", OptionCondition::kIsNot,
     "0", "", ""},
    {"runtime.memory_margin_bytes", OptionCondition::kAtLeast,
     "", "runtime.memory_budget_bytes", ""},
};
constexpr OptionCondition kConditions_60[] = {
    {"runtime.output_dir", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
    {"buffer.record_dir", OptionCondition::kIs,
     "", "", ""},
    {"profiler.timeline.dir", OptionCondition::kIs,
     "", "", ""},
    {"metrics.jsonl", OptionCondition::kIs,
     "", "", ""},
    {"metrics.eval_jsonl", OptionCondition::kIs,
     "", "", ""},
    {"metrics.samples", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_61[] = {
    {"engine.max_model_len", OptionCondition::kIsNot,
     "0", "", ""},
    {"sampling.max_new_tokens", OptionCondition::kAtLeast,
     "", "engine.max_model_len", ""},
};
constexpr OptionCondition kConditions_62[] = {
    {"sampling.min_new_tokens", OptionCondition::kAbove,
     "", "sampling.max_new_tokens", ""},
};
constexpr OptionCondition kConditions_63[] = {
    {"sampling.min_p", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_64[] = {
    {"sampling.top_k", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_65[] = {
    {"sampling.top_p", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_66[] = {
    {"schedule.min_lr", OptionCondition::kAbove,
     "", "optimizer.lr", ""},
};
constexpr OptionCondition kConditions_67[] = {
    {"schedule.min_lr", OptionCondition::kChanged,
     "", "", ""},
    {"schedule.name", OptionCondition::kIs,
     "constant", "", ""},
};
constexpr OptionCondition kConditions_68[] = {
    {"schedule.name", OptionCondition::kIsNot,
     "constant", "", ""},
    {"schedule.total_steps", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_69[] = {
    {"schedule.total_steps", OptionCondition::kChanged,
     "", "", ""},
    {"schedule.name", OptionCondition::kIs,
     "constant", "", ""},
};
constexpr OptionCondition kConditions_70[] = {
    {"schedule.total_steps", OptionCondition::kIsNot,
     "0", "", ""},
    {"schedule.warmup_steps", OptionCondition::kAbove,
     "", "schedule.total_steps", ""},
};
constexpr OptionCondition kConditions_71[] = {
    {"trainer.num_minibatches", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", "pipeline.samples_per_prompt"},
};

constexpr OptionRule kRules[] = {
    {"algo.adv_eps", "algo.adv_norm_std", kConditions_0, 2,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.adv_norm_std is {algo.adv_norm_std}"},
    {"algo.advantage", "pipeline.samples_per_prompt", kConditions_1, 2,
     "algo.advantage = grpo compares the samples of a prompt, but pipeline.samples_per_prompt is "
     "1: every advantage would be 0"},
    {"algo.clip_cov_high", "algo.policy_loss", kConditions_2, 2,
     "algo.clip_cov_high = {algo.clip_cov_high} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_cov_low", "algo.clip_cov_high", kConditions_3, 1,
     "algo.clip_cov_low is {algo.clip_cov_low} and leaves no covariance below "
     "algo.clip_cov_high, which is {algo.clip_cov_high}"},
    {"algo.clip_cov_low", "algo.policy_loss", kConditions_4, 2,
     "algo.clip_cov_low = {algo.clip_cov_low} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_high", "algo.policy_loss", kConditions_5, 8,
     "algo.clip_high = {algo.clip_high} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_low", "algo.policy_loss", kConditions_6, 8,
     "algo.clip_low = {algo.clip_low} has no effect while algo.policy_loss is {algo.policy_loss}"},
    {"algo.correction.batch_normalize", "algo.correction.is", kConditions_7, 2,
     "algo.correction.batch_normalize = {algo.correction.batch_normalize} has no effect while "
     "algo.correction.is is {algo.correction.is}"},
    {"algo.correction.high", "algo.correction.is", kConditions_8, 2,
     "algo.correction.high = {algo.correction.high} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.is", "algo.correction.decoupled", kConditions_9, 4,
     "algo.correction.is = {algo.correction.is} would count the mismatch twice: without "
     "algo.correction.decoupled the ratio of algo.policy_loss = {algo.policy_loss} is against "
     "the sampler already"},
    {"algo.correction.low", "algo.correction.high", kConditions_10, 1,
     "algo.correction.low is {algo.correction.low} but algo.correction.high is "
     "{algo.correction.high}"},
    {"algo.correction.low", "algo.correction.is", kConditions_11, 2,
     "algo.correction.low = {algo.correction.low} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.mode", "algo.correction.is", kConditions_12, 2,
     "algo.correction.mode = {algo.correction.mode} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.rs_bounds", "algo.correction.rs", kConditions_13, 2,
     "algo.correction.rs_bounds = {algo.correction.rs_bounds} has no effect while "
     "algo.correction.rs is {algo.correction.rs}"},
    {"algo.cov_ratio", "algo.policy_loss", kConditions_14, 3,
     "algo.cov_ratio = {algo.cov_ratio} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.dro_beta", "algo.policy_loss", kConditions_15, 2,
     "algo.dro_beta = {algo.dro_beta} has no effect while algo.policy_loss is {algo.policy_loss}"},
    {"algo.dual_clip", "algo.policy_loss", kConditions_16, 3,
     "algo.dual_clip = {algo.dual_clip} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.gspo_gradient", "algo.policy_loss", kConditions_17, 2,
     "algo.gspo_gradient = {algo.gspo_gradient} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.kl.coef", "algo.kl.where", kConditions_18, 2,
     "algo.kl.coef = {algo.kl.coef} has no effect while algo.kl.where is {algo.kl.where}"},
    {"algo.kl.estimator", "algo.kl.where", kConditions_19, 2,
     "algo.kl.estimator = {algo.kl.estimator} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"algo.kl_cov_coef", "algo.policy_loss", kConditions_20, 2,
     "algo.kl_cov_coef = {algo.kl_cov_coef} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.loss_agg", "algo.loss_scale_factor", kConditions_21, 2,
     "algo.loss_agg = seq_mean_token_sum_norm divides by algo.loss_scale_factor, which is 0"},
    {"algo.loss_scale_factor", "algo.loss_agg", kConditions_22, 2,
     "algo.loss_scale_factor = {algo.loss_scale_factor} has no effect while algo.loss_agg is "
     "{algo.loss_agg}"},
    {"algo.ratio_cap", "algo.policy_loss", kConditions_23, 4,
     "algo.ratio_cap = {algo.ratio_cap} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.ratio_log_clamp", "algo.policy_loss", kConditions_24, 2,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.ratio_log_clamp", "algo.policy_loss", kConditions_25, 2,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.ratio_log_clamp", "algo.policy_loss", kConditions_26, 2,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.sapo_tau_neg", "algo.policy_loss", kConditions_27, 2,
     "algo.sapo_tau_neg = {algo.sapo_tau_neg} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.sapo_tau_pos", "algo.policy_loss", kConditions_28, 2,
     "algo.sapo_tau_pos = {algo.sapo_tau_pos} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"checkpoint.every_steps", "checkpoint.dir", kConditions_29, 2,
     "checkpoint.every_steps = {checkpoint.every_steps} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.keep_last", "checkpoint.dir", kConditions_30, 2,
     "checkpoint.keep_last = {checkpoint.keep_last} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.resume", "checkpoint.dir", kConditions_31, 2,
     "checkpoint.resume = auto looks into checkpoint.dir, which is empty"},
    {"data.shuffle_seed", "data.path", kConditions_32, 2,
     "data.shuffle_seed = {data.shuffle_seed} has no effect while data.path is {data.path}"},
    {"data.shuffle_seed", "data.shuffle", kConditions_33, 2,
     "data.shuffle_seed = {data.shuffle_seed} has no effect while data.shuffle is {data.shuffle}"},
    {"engine.chunked_prefill", "engine.max_num_batched_tokens", kConditions_34, 2,
     "engine.chunked_prefill is false, so that a whole sequence must fit a forward: "
     "engine.max_num_batched_tokens is {engine.max_num_batched_tokens} but engine.max_model_len "
     "is {engine.max_model_len}"},
    {"engine.keep_kv_on_publish", "engine.preemption", kConditions_35, 2,
     "engine.keep_kv_on_publish needs engine.preemption = swap: a preempted sample would lose "
     "what it keeps"},
    {"engine.keep_kv_on_publish", "model.compute_copies", kConditions_36, 2,
     "engine.keep_kv_on_publish = {engine.keep_kv_on_publish} has no effect while "
     "model.compute_copies is {model.compute_copies}"},
    {"engine.max_num_seqs", "engine.max_num_batched_tokens", kConditions_37, 1,
     "engine.max_num_seqs is {engine.max_num_seqs} but must not exceed "
     "engine.max_num_batched_tokens, which is {engine.max_num_batched_tokens}"},
    {"engine.memory_fraction", "runtime.memory_budget_bytes", kConditions_38, 2,
     "engine.memory_fraction = {engine.memory_fraction} has no effect while "
     "runtime.memory_budget_bytes is {runtime.memory_budget_bytes}"},
    {"engine.preemption", "engine.swap_space_bytes", kConditions_39, 2,
     "engine.preemption = swap needs engine.swap_space_bytes, which is 0"},
    {"engine.prefill_chunk", "engine.chunked_prefill", kConditions_40, 2,
     "engine.prefill_chunk = {engine.prefill_chunk} has no effect while engine.chunked_prefill "
     "is {engine.chunked_prefill}"},
    {"engine.prefill_chunk", "engine.max_num_batched_tokens", kConditions_41, 1,
     "engine.prefill_chunk is {engine.prefill_chunk} but a forward has "
     "engine.max_num_batched_tokens = {engine.max_num_batched_tokens}"},
    {"engine.swap_space_bytes", "engine.preemption", kConditions_42, 2,
     "engine.swap_space_bytes = {engine.swap_space_bytes} has no effect while engine.preemption "
     "is {engine.preemption}"},
    {"eval.every_steps", "eval.path", kConditions_43, 2,
     "eval.every_steps = {eval.every_steps} has no effect while eval.path is {eval.path}"},
    {"eval.max_new_tokens", "engine.max_model_len", kConditions_44, 2,
     "eval.max_new_tokens is {eval.max_new_tokens} and leaves no room for a prompt: "
     "engine.max_model_len is {engine.max_model_len}"},
    {"eval.max_new_tokens", "eval.path", kConditions_45, 2,
     "eval.max_new_tokens = {eval.max_new_tokens} has no effect while eval.path is {eval.path}"},
    {"eval.max_prompts", "eval.path", kConditions_46, 2,
     "eval.max_prompts = {eval.max_prompts} has no effect while eval.path is {eval.path}"},
    {"eval.samples_per_prompt", "engine.max_num_seqs", kConditions_47, 1,
     "eval.samples_per_prompt is {eval.samples_per_prompt} but must not exceed "
     "engine.max_num_seqs, which is {engine.max_num_seqs}"},
    {"eval.samples_per_prompt", "eval.temperature", kConditions_48, 2,
     "eval.samples_per_prompt is {eval.samples_per_prompt}, but at eval.temperature 0 all "
     "answers to a prompt are equal"},
    {"eval.temperature", "eval.path", kConditions_49, 2,
     "eval.temperature = {eval.temperature} has no effect while eval.path is {eval.path}"},
    {"metrics.eval_jsonl", "eval.path", kConditions_50, 2,
     "metrics.eval_jsonl = {metrics.eval_jsonl} has no effect while eval.path is {eval.path}"},
    {"metrics.interval_steps", "metrics.jsonl", kConditions_51, 2,
     "metrics.interval_steps = {metrics.interval_steps} has no effect while metrics.jsonl is "
     "{metrics.jsonl}"},
    {"metrics.max_samples", "metrics.samples", kConditions_52, 2,
     "metrics.max_samples = {metrics.max_samples} has no effect while metrics.samples is "
     "{metrics.samples}"},
    {"metrics.tensorboard", "metrics.jsonl", kConditions_53, 2,
     "metrics.tensorboard = {metrics.tensorboard} has no effect while metrics.jsonl is "
     "{metrics.jsonl}"},
    {"model.reference_path", "algo.kl.where", kConditions_54, 2,
     "model.reference_path = {model.reference_path} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"profiler.timeline.dir", "profiler.timeline.enable", kConditions_55, 2,
     "profiler.timeline.dir = {profiler.timeline.dir} has no effect while "
     "profiler.timeline.enable is {profiler.timeline.enable}"},
    {"profiler.timeline.enable", "profiler.timeline.dir", kConditions_56, 2,
     "profiler.timeline.enable is true but profiler.timeline.dir is empty"},
    {"runtime.experiment", "checkpoint.dir", kConditions_57, 7,
     "runtime.experiment = {runtime.experiment} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"runtime.memory_margin_bytes", "runtime.memory_budget_bytes", kConditions_58, 2,
     "runtime.memory_margin_bytes = {runtime.memory_margin_bytes} has no effect while "
     "runtime.memory_budget_bytes is {runtime.memory_budget_bytes}"},
    {"runtime.memory_margin_bytes", "runtime.memory_budget_bytes", kConditions_59, 2,
     "runtime.memory_margin_bytes is {runtime.memory_margin_bytes} and leaves nothing of "
     "runtime.memory_budget_bytes, which is {runtime.memory_budget_bytes}"},
    {"runtime.output_dir", "checkpoint.dir", kConditions_60, 7,
     "runtime.output_dir = {runtime.output_dir} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"sampling.max_new_tokens", "engine.max_model_len", kConditions_61, 2,
     "sampling.max_new_tokens is {sampling.max_new_tokens} and leaves no room for a prompt: "
     "engine.max_model_len is {engine.max_model_len}"},
    {"sampling.min_new_tokens", "sampling.max_new_tokens", kConditions_62, 1,
     "sampling.min_new_tokens is {sampling.min_new_tokens} but must not exceed "
     "sampling.max_new_tokens, which is {sampling.max_new_tokens}"},
    {"sampling.min_p", "sampling.temperature", kConditions_63, 2,
     "sampling.min_p = {sampling.min_p} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"sampling.top_k", "sampling.temperature", kConditions_64, 2,
     "sampling.top_k = {sampling.top_k} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"sampling.top_p", "sampling.temperature", kConditions_65, 2,
     "sampling.top_p = {sampling.top_p} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"schedule.min_lr", "optimizer.lr", kConditions_66, 1,
     "schedule.min_lr is {schedule.min_lr} but optimizer.lr is {optimizer.lr}"},
    {"schedule.min_lr", "schedule.name", kConditions_67, 2,
     "schedule.min_lr = {schedule.min_lr} has no effect while schedule.name is {schedule.name}"},
    {"schedule.name", "schedule.total_steps", kConditions_68, 2,
     "schedule.name = {schedule.name} needs schedule.total_steps, which is 0"},
    {"schedule.total_steps", "schedule.name", kConditions_69, 2,
     "schedule.total_steps = {schedule.total_steps} has no effect while schedule.name is "
     "{schedule.name}"},
    {"schedule.warmup_steps", "schedule.total_steps", kConditions_70, 2,
     "schedule.warmup_steps is {schedule.warmup_steps} but must not exceed schedule.total_steps, "
     "which is {schedule.total_steps}"},
    {"trainer.num_minibatches", "pipeline.samples_per_prompt", kConditions_71, 1,
     "trainer.num_minibatches is {trainer.num_minibatches} but a step has "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} times pipeline.samples_per_prompt "
     "= {pipeline.samples_per_prompt} samples"},
};

constexpr PresetSetting kSettings_long_context[] = {
    {"engine.block_size", "64"},
    {"engine.max_num_batched_tokens", "2048"},
    {"engine.max_num_seqs", "16"},
    {"sampling.max_new_tokens", "1024"},
    {"trainer.logprob_chunk_tokens", "128"},
    {"trainer.max_tokens_per_device", "0"},
};
constexpr PresetSetting kSettings_low_memory[] = {
    {"engine.max_num_batched_tokens", "128"},
    {"engine.max_num_seqs", "8"},
    {"trainer.logprob_chunk_tokens", "64"},
    {"trainer.max_tokens_per_device", "0"},
};

constexpr OptionPreset kPresets[] = {
    {"long_context",
     "Long answers. Fewer sequences run at once, so that the KV pool of each can be long; "
     "prompts are read in larger chunks; the head of the training pass works on fewer tokens at "
     "a time. The longest sequence remains that of the model, or engine.max_model_len.",
     kSettings_long_context, 6},
    {"low_memory",
     "The least memory at the cost of speed. Small forwards and few sequences in the engine, the "
     "head of the training pass in small chunks, and a micro-batch that the plan fits into "
     "runtime.memory_budget_bytes.",
     kSettings_low_memory, 4},
};

}  // namespace

OptionRules option_rules() { return {kRules, std::size(kRules)}; }
OptionPresets option_presets() { return {kPresets, std::size(kPresets)}; }

}  // namespace rl
