// Generated from abi/option_rules.yml and abi/option_presets.yml by tools/gen_options.py; edit the
// former and run the latter.
#include "options/option_rules.h"

#include <iterator>

namespace rl {
namespace {

constexpr OptionCondition kConditions_algo_adv_ddof_and_algo_adv_norm_std[] = {
    {"algo.adv_ddof", OptionCondition::kChanged,
     "", "", ""},
    {"algo.adv_norm_std", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_ddof_and_algo_advantage[] = {
    {"algo.adv_ddof", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_ddof_and_algo_distill_rewards[] = {
    {"algo.adv_ddof", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_ddof_and_algo_objective[] = {
    {"algo.adv_ddof", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_eps_and_algo_adv_norm_std[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.adv_norm_std", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_eps_and_algo_advantage[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_eps_and_algo_distill_rewards[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_eps_and_algo_objective[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_norm_std_and_algo_advantage[] = {
    {"algo.adv_norm_std", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_norm_std_and_algo_distill_rewards[] = {
    {"algo.adv_norm_std", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_norm_std_and_algo_objective[] = {
    {"algo.adv_norm_std", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_singleton_and_algo_advantage[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "dr_grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "rloo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "opo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gpg", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "reinforce_pp_baseline", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_singleton_and_algo_distill_rewards[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_singleton_and_algo_objective[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_std_scope_and_algo_adv_norm_std[] = {
    {"algo.adv_std_scope", OptionCondition::kChanged,
     "", "", ""},
    {"algo.adv_norm_std", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_std_scope_and_algo_advantage[] = {
    {"algo.adv_std_scope", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_std_scope_and_algo_distill_rewards[] = {
    {"algo.adv_std_scope", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_adv_std_scope_and_algo_objective[] = {
    {"algo.adv_std_scope", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_advantage_and_algo_distill_rewards[] = {
    {"algo.advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_advantage_and_algo_gdpo_weights[] = {
    {"algo.advantage", OptionCondition::kIs,
     "gdpo", "", ""},
    {"algo.gdpo_weights", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_algo_advantage_and_algo_objective[] = {
    {"algo.advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_advantage_and_pipeline_samples_per_prompt[] = {
    {"pipeline.samples_per_prompt", OptionCondition::kIs,
     "1", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "sft", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "true", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "reinforce_pp", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "flash_reinforce", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "remax", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_algo_clip_cov_high_and_algo_policy_loss[] = {
    {"algo.clip_cov_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_algo_clip_cov_low_and_algo_clip_cov_high[] = {
    {"algo.clip_cov_low", OptionCondition::kAtLeast,
     "", "algo.clip_cov_high", ""},
};
constexpr OptionCondition kConditions_algo_clip_cov_low_and_algo_policy_loss[] = {
    {"algo.clip_cov_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_algo_clip_high_and_algo_objective[] = {
    {"algo.clip_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_clip_high_and_algo_policy_loss[] = {
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
constexpr OptionCondition kConditions_algo_clip_low_and_algo_objective[] = {
    {"algo.clip_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_clip_low_and_algo_policy_loss[] = {
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
constexpr OptionCondition kConditions_algo_correction_batch_normalize_and_algo_correction_is[] = {
    {"algo.correction.batch_normalize", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_decoupled_and_algo_objective[] = {
    {"algo.correction.decoupled", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_denominator_and_algo_correction_rs[] = {
    {"algo.correction.denominator", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.rs", OptionCondition::kIs,
     "", "", ""},
    {"algo.correction.veto", OptionCondition::kIs,
     "0", "", ""},
    {"algo.correction.opsm_delta", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_high_and_algo_correction_is[] = {
    {"algo.correction.high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_is_and_algo_correction_decoupled[] = {
    {"algo.correction.is", OptionCondition::kIsNot,
     "none", "", ""},
    {"algo.correction.decoupled", OptionCondition::kIs,
     "false", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "none", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gpg", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_log_clamp_and_algo_correction_is[] = {
    {"algo.correction.log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_low_and_algo_correction_high[] = {
    {"algo.correction.low", OptionCondition::kAbove,
     "", "algo.correction.high", ""},
};
constexpr OptionCondition kConditions_algo_correction_low_and_algo_correction_is[] = {
    {"algo.correction.low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_mode_and_algo_correction_is[] = {
    {"algo.correction.mode", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_opsm_delta_and_algo_objective[] = {
    {"algo.correction.opsm_delta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_rs_and_algo_objective[] = {
    {"algo.correction.rs", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_rs_bounds_and_algo_correction_rs[] = {
    {"algo.correction.rs_bounds", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.rs", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_algo_correction_veto_and_algo_objective[] = {
    {"algo.correction.veto", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_cov_ratio_and_algo_policy_loss[] = {
    {"algo.cov_ratio", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "kl_cov", "", ""},
};
constexpr OptionCondition kConditions_algo_critic_warmup_steps_and_algo_advantage[] = {
    {"algo.critic_warmup_steps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_algo_distill_beta_and_algo_distill_kl[] = {
    {"algo.distill.beta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.kl", OptionCondition::kIsNot,
     "mixed", "", ""},
};
constexpr OptionCondition kConditions_algo_distill_coef_and_algo_objective[] = {
    {"algo.distill.coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_distill_kl_and_algo_objective[] = {
    {"algo.distill.kl", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_distill_rewards_and_algo_kl_where[] = {
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "reward", "", ""},
};
constexpr OptionCondition kConditions_algo_distill_rewards_and_algo_objective[] = {
    {"algo.distill.rewards", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_dpo_beta_and_algo_objective[] = {
    {"algo.dpo.beta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_algo_dpo_ipo_and_algo_objective[] = {
    {"algo.dpo.ipo", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_algo_dpo_label_smoothing_and_algo_dpo_ipo[] = {
    {"algo.dpo.label_smoothing", OptionCondition::kChanged,
     "", "", ""},
    {"algo.dpo.ipo", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_algo_dpo_label_smoothing_and_algo_objective[] = {
    {"algo.dpo.label_smoothing", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_algo_dpo_nll_coef_and_algo_objective[] = {
    {"algo.dpo.nll_coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_algo_dro_beta_and_algo_policy_loss[] = {
    {"algo.dro_beta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dro", "", ""},
};
constexpr OptionCondition kConditions_algo_dual_clip_and_algo_objective[] = {
    {"algo.dual_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_dual_clip_and_algo_policy_loss[] = {
    {"algo.dual_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_algo_entropy_coef_and_algo_objective[] = {
    {"algo.entropy_coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_gae_masked_and_algo_advantage[] = {
    {"algo.gae_masked", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_algo_gamma_and_algo_advantage[] = {
    {"algo.gamma", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "reinforce_pp", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
    {"algo.kl.spread", OptionCondition::kIs,
     "sample", "", ""},
};
constexpr OptionCondition kConditions_algo_gdpo_weights_and_algo_advantage[] = {
    {"algo.gdpo_weights", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_algo_gspo_gradient_and_algo_policy_loss[] = {
    {"algo.gspo_gradient", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gspo", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_coef_and_algo_kl_where[] = {
    {"algo.kl.coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_controller_and_algo_kl_where[] = {
    {"algo.kl.controller", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_estimator_and_algo_kl_where[] = {
    {"algo.kl.estimator", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_horizon_and_algo_kl_controller[] = {
    {"algo.kl.horizon", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.controller", OptionCondition::kIs,
     "fixed", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_ratio_and_algo_kl_where[] = {
    {"algo.kl.ratio", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIsNot,
     "loss", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_ratio_cap_and_algo_kl_ratio[] = {
    {"algo.kl.ratio_cap", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.ratio", OptionCondition::kIsNot,
     "gradient", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_spread_and_algo_advantage[] = {
    {"algo.kl.spread", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "dr_grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "rloo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "opo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gpg", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "reinforce_pp_baseline", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "flash_reinforce", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_spread_and_algo_kl_where[] = {
    {"algo.kl.spread", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIsNot,
     "reward", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_target_and_algo_kl_controller[] = {
    {"algo.kl.target", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.controller", OptionCondition::kIs,
     "fixed", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_value_clamp_and_algo_kl_where[] = {
    {"algo.kl.value_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_where_and_algo_advantage[] = {
    {"algo.kl.where", OptionCondition::kIs,
     "reward", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_where_and_algo_objective[] = {
    {"algo.kl.where", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_kl_cov_coef_and_algo_policy_loss[] = {
    {"algo.kl_cov_coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "kl_cov", "", ""},
};
constexpr OptionCondition kConditions_algo_lambda_and_algo_advantage[] = {
    {"algo.lambda", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_algo_loss_agg_and_algo_loss_scale_factor[] = {
    {"algo.loss_agg", OptionCondition::kIs,
     "seq_mean_token_sum_norm", "", ""},
    {"algo.loss_scale_factor", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_algo_loss_agg_and_algo_objective[] = {
    {"algo.loss_agg", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "sft", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_loss_scale_factor_and_algo_loss_agg[] = {
    {"algo.loss_scale_factor", OptionCondition::kChanged,
     "", "", ""},
    {"algo.loss_agg", OptionCondition::kIsNot,
     "seq_mean_token_sum_norm", "", ""},
};
constexpr OptionCondition kConditions_algo_objective_and_model_teacher_path[] = {
    {"algo.objective", OptionCondition::kIs,
     "distill", "", ""},
    {"model.teacher_path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_algo_policy_loss_and_algo_objective[] = {
    {"algo.policy_loss", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_ratio_cap_and_algo_objective[] = {
    {"algo.ratio_cap", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_ratio_cap_and_algo_policy_loss[] = {
    {"algo.ratio_cap", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_tv", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_kl", "", ""},
};
constexpr OptionCondition kConditions_algo_ratio_log_clamp_and_algo_objective[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_ratio_log_clamp_and_algo_policy_loss[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gspo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "cispo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "sapo", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_tv", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_kl", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "kl_cov", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dro", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_clip_at_and_algo_advantage[] = {
    {"algo.reward.clip_at", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "dr_grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "rloo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "opo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gpg", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "reinforce_pp_baseline", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "flash_reinforce", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_clip_at_and_algo_reward_clip_low[] = {
    {"algo.reward.clip_at", OptionCondition::kChanged,
     "", "", ""},
    {"algo.reward.clip_low", OptionCondition::kIs,
     "0", "", ""},
    {"algo.reward.clip_high", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_clip_high_and_algo_distill_rewards[] = {
    {"algo.reward.clip_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_clip_high_and_algo_objective[] = {
    {"algo.reward.clip_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_clip_low_and_algo_distill_rewards[] = {
    {"algo.reward.clip_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_clip_low_and_algo_objective[] = {
    {"algo.reward.clip_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_clip_low_and_algo_reward_clip_high[] = {
    {"algo.reward.clip_low", OptionCondition::kAbove,
     "", "algo.reward.clip_high", ""},
};
constexpr OptionCondition kConditions_algo_reward_normalize_and_algo_distill_rewards[] = {
    {"algo.reward.normalize", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_normalize_and_algo_objective[] = {
    {"algo.reward.normalize", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_overlong_buffer_and_algo_distill_rewards[] = {
    {"algo.reward.overlong_buffer", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_overlong_buffer_and_algo_objective[] = {
    {"algo.reward.overlong_buffer", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_overlong_buffer_and_pipeline_turns[] = {
    {"algo.reward.overlong_buffer", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.turns", OptionCondition::kIsNot,
     "none", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_overlong_buffer_and_sampling_max_new_tokens[] = {
    {"algo.reward.overlong_buffer", OptionCondition::kAbove,
     "", "sampling.max_new_tokens", ""},
};
constexpr OptionCondition kConditions_algo_reward_overlong_penalty_and_algo_reward_overlong_buffer[] = {
    {"algo.reward.overlong_penalty", OptionCondition::kChanged,
     "", "", ""},
    {"algo.reward.overlong_buffer", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_truncation_penalty_and_algo_distill_rewards[] = {
    {"algo.reward.truncation_penalty", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_reward_truncation_penalty_and_algo_objective[] = {
    {"algo.reward.truncation_penalty", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_algo_sapo_tau_neg_and_algo_policy_loss[] = {
    {"algo.sapo_tau_neg", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "sapo", "", ""},
};
constexpr OptionCondition kConditions_algo_sapo_tau_pos_and_algo_policy_loss[] = {
    {"algo.sapo_tau_pos", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "sapo", "", ""},
};
constexpr OptionCondition kConditions_algo_value_clip_and_algo_advantage[] = {
    {"algo.value_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_algo_whiten_and_algo_distill_rewards[] = {
    {"algo.whiten", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_algo_whiten_and_algo_objective[] = {
    {"algo.whiten", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_buffer_num_storage_units_and_buffer_store_path[] = {
    {"buffer.num_storage_units", OptionCondition::kChanged,
     "", "", ""},
    {"buffer.store_path", OptionCondition::kIs,
     "", "", ""},
    {"buffer.spill_path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_buffer_spill_path_and_buffer_store_path[] = {
    {"buffer.spill_path", OptionCondition::kChanged,
     "", "", ""},
    {"buffer.store_path", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_async_and_checkpoint_dir[] = {
    {"checkpoint.async", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_contents_and_checkpoint_dir[] = {
    {"checkpoint.contents", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_every_steps_and_checkpoint_dir[] = {
    {"checkpoint.every_steps", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_keep_best_and_checkpoint_keep_last[] = {
    {"checkpoint.keep_best", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.keep_last", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_keep_best_and_checkpoint_metric[] = {
    {"checkpoint.keep_best", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.metric", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_keep_last_and_checkpoint_dir[] = {
    {"checkpoint.keep_last", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_metric_and_checkpoint_dir[] = {
    {"checkpoint.metric", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_metric_goal_and_checkpoint_keep_best[] = {
    {"checkpoint.metric_goal", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.keep_best", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_on_failure_and_checkpoint_dir[] = {
    {"checkpoint.on_failure", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_checkpoint_resume_and_checkpoint_dir[] = {
    {"checkpoint.resume", OptionCondition::kIs,
     "auto", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_comm_backend_and_comm_rendezvous[] = {
    {"comm.backend", OptionCondition::kIs,
     "nccl", "", ""},
    {"comm.rendezvous", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_comm_backend_and_comm_rendezvous_2[] = {
    {"comm.backend", OptionCondition::kIs,
     "gloo", "", ""},
    {"comm.rendezvous", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_comm_backend_and_parallel_data[] = {
    {"comm.backend", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.context", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.tensor", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.pipeline", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_comm_backend_and_runtime_device[] = {
    {"comm.backend", OptionCondition::kIs,
     "nccl", "", ""},
    {"runtime.device", OptionCondition::kIsNot,
     "cuda", "", ""},
};
constexpr OptionCondition kConditions_comm_memory_check_and_parallel_data[] = {
    {"comm.memory_check", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.tensor", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.context", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.pipeline", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_comm_memory_check_threshold_bytes_and_comm_memory_check[] = {
    {"comm.memory_check_threshold_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"comm.memory_check", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_comm_rank_and_comm_backend[] = {
    {"comm.rank", OptionCondition::kChanged,
     "", "", ""},
    {"comm.backend", OptionCondition::kIsNot,
     "gloo", "", ""},
    {"comm.backend", OptionCondition::kIsNot,
     "nccl", "", ""},
};
constexpr OptionCondition kConditions_comm_reduction_order_and_comm_backend[] = {
    {"comm.reduction_order", OptionCondition::kChanged,
     "", "", ""},
    {"comm.backend", OptionCondition::kIsNot,
     "nccl", "", ""},
};
constexpr OptionCondition kConditions_comm_reduction_order_and_parallel_data[] = {
    {"comm.reduction_order", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.context", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_comm_reduction_order_and_parallel_tensor[] = {
    {"comm.reduction_order", OptionCondition::kIs,
     "backend", "", ""},
    {"parallel.tensor", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_comm_rendezvous_and_comm_backend[] = {
    {"comm.rendezvous", OptionCondition::kChanged,
     "", "", ""},
    {"comm.backend", OptionCondition::kIsNot,
     "gloo", "", ""},
    {"comm.backend", OptionCondition::kIsNot,
     "nccl", "", ""},
};
constexpr OptionCondition kConditions_comm_timeout_ns_and_parallel_data[] = {
    {"comm.timeout_ns", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.tensor", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.context", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.pipeline", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_critic_forward_max_tokens_per_device_and_algo_advantage[] = {
    {"critic.forward_max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_critic_max_tokens_per_device_and_algo_advantage[] = {
    {"critic.max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_critic_max_tokens_per_device_and_trainer_dynamic_batching[] = {
    {"critic.max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_critic_micro_batch_size_and_algo_advantage[] = {
    {"critic.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_critic_micro_batch_size_and_trainer_dynamic_batching[] = {
    {"critic.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_critic_optimizer_grad_clip_and_algo_advantage[] = {
    {"critic.optimizer.grad_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_critic_optimizer_lr_and_algo_advantage[] = {
    {"critic.optimizer.lr", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_critic_optimizer_weight_decay_and_algo_advantage[] = {
    {"critic.optimizer.weight_decay", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_critic_recompute_granularity_and_algo_advantage[] = {
    {"critic.recompute_granularity", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_critic_recompute_granularity_and_trainer_recompute_method[] = {
    {"critic.recompute_granularity", OptionCondition::kIs,
     "full", "", ""},
    {"trainer.recompute_method", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_critic_recompute_granularity_and_trainer_recompute_num_layers[] = {
    {"critic.recompute_granularity", OptionCondition::kIs,
     "full", "", ""},
    {"trainer.recompute_num_layers", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_data_preprocess_workers_and_data_path[] = {
    {"data.preprocess_workers", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_data_shuffle_and_data_path[] = {
    {"data.shuffle", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_data_shuffle_seed_and_data_path[] = {
    {"data.shuffle_seed", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_data_shuffle_seed_and_data_shuffle[] = {
    {"data.shuffle_seed", OptionCondition::kChanged,
     "", "", ""},
    {"data.shuffle", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_data_streaming_and_data_path[] = {
    {"data.streaming", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_data_streaming_buffer_size_and_data_path[] = {
    {"data.streaming_buffer_size", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_data_streaming_buffer_size_and_data_streaming[] = {
    {"data.streaming_buffer_size", OptionCondition::kChanged,
     "", "", ""},
    {"data.streaming", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_engine_chunked_prefill_and_engine_max_num_batched_tokens[] = {
    {"engine.chunked_prefill", OptionCondition::kIs,
     "false", "", ""},
    {"engine.max_model_len", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_engine_graph_batch_sizes_and_runtime_device[] = {
    {"engine.graph_batch_sizes", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.device", OptionCondition::kIs,
     "cpu", "", ""},
};
constexpr OptionCondition kConditions_engine_graph_batch_sizes_and_runtime_device_2[] = {
    {"engine.graph_batch_sizes", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.device", OptionCondition::kIs,
     "cuda", "", ""},
};
constexpr OptionCondition kConditions_engine_keep_kv_on_publish_and_engine_preemption[] = {
    {"engine.keep_kv_on_publish", OptionCondition::kIs,
     "true", "", ""},
    {"engine.preemption", OptionCondition::kIs,
     "recompute", "", ""},
};
constexpr OptionCondition kConditions_engine_keep_kv_on_publish_and_model_compute_copies[] = {
    {"engine.keep_kv_on_publish", OptionCondition::kChanged,
     "", "", ""},
    {"model.compute_copies", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_engine_max_num_seqs_and_engine_max_num_batched_tokens[] = {
    {"engine.max_num_seqs", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_engine_memory_fraction_and_runtime_memory_budget_bytes[] = {
    {"engine.memory_fraction", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.memory_budget_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_engine_preemption_and_engine_swap_space_bytes[] = {
    {"engine.preemption", OptionCondition::kIs,
     "swap", "", ""},
    {"engine.swap_space_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_engine_prefill_chunk_and_engine_chunked_prefill[] = {
    {"engine.prefill_chunk", OptionCondition::kChanged,
     "", "", ""},
    {"engine.chunked_prefill", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_engine_prefill_chunk_and_engine_max_num_batched_tokens[] = {
    {"engine.prefill_chunk", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_engine_swap_space_bytes_and_engine_preemption[] = {
    {"engine.swap_space_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"engine.preemption", OptionCondition::kIs,
     "recompute", "", ""},
};
constexpr OptionCondition kConditions_engine_tensor_parallel_size_and_parallel_tensor[] = {
    {"engine.tensor_parallel_size", OptionCondition::kIsNot,
     "1", "", ""},
    {"engine.tensor_parallel_size", OptionCondition::kAbove,
     "", "parallel.tensor", ""},
};
constexpr OptionCondition kConditions_engine_tensor_parallel_size_and_parallel_tensor_2[] = {
    {"engine.tensor_parallel_size", OptionCondition::kIsNot,
     "0", "", ""},
    {"engine.tensor_parallel_size", OptionCondition::kIsNot,
     "1", "", ""},
    {"parallel.tensor", OptionCondition::kAbove,
     "", "engine.tensor_parallel_size", ""},
};
constexpr OptionCondition kConditions_engine_tensor_parallel_size_and_pipeline_role[] = {
    {"engine.tensor_parallel_size", OptionCondition::kIs,
     "1", "", ""},
    {"pipeline.role", OptionCondition::kIs,
     "rollout", "", ""},
    {"parallel.tensor", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_engine_tensor_parallel_size_and_pipeline_role_2[] = {
    {"engine.tensor_parallel_size", OptionCondition::kIs,
     "1", "", ""},
    {"pipeline.role", OptionCondition::kIs,
     "rollout", "", ""},
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_eval_every_steps_and_eval_path[] = {
    {"eval.every_steps", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_eval_max_new_tokens_and_algo_objective[] = {
    {"eval.max_new_tokens", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_eval_max_new_tokens_and_engine_max_model_len[] = {
    {"engine.max_model_len", OptionCondition::kIsNot,
     "0", "", ""},
    {"eval.max_new_tokens", OptionCondition::kAtLeast,
     "", "engine.max_model_len", ""},
};
constexpr OptionCondition kConditions_eval_max_new_tokens_and_eval_path[] = {
    {"eval.max_new_tokens", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_eval_max_prompts_and_eval_path[] = {
    {"eval.max_prompts", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_eval_samples_per_prompt_and_eval_temperature[] = {
    {"eval.samples_per_prompt", OptionCondition::kChanged,
     "", "", ""},
    {"eval.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_eval_temperature_and_algo_objective[] = {
    {"eval.temperature", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_eval_temperature_and_eval_path[] = {
    {"eval.temperature", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_eval_top_p_and_eval_temperature[] = {
    {"eval.top_p", OptionCondition::kChanged,
     "", "", ""},
    {"eval.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_eval_weights_and_eval_path[] = {
    {"eval.weights", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_eval_weights_and_optimizer_ema[] = {
    {"eval.weights", OptionCondition::kChanged,
     "", "", ""},
    {"optimizer.ema", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_metrics_eval_jsonl_and_eval_path[] = {
    {"metrics.eval_jsonl", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_metrics_interval_steps_and_metrics_jsonl[] = {
    {"metrics.interval_steps", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.jsonl", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_metrics_max_samples_and_eval_path[] = {
    {"metrics.max_samples", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_metrics_max_samples_and_metrics_samples[] = {
    {"metrics.max_samples", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.samples", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_metrics_samples_and_algo_objective[] = {
    {"metrics.samples", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_metrics_samples_and_algo_objective_2[] = {
    {"metrics.samples", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_metrics_tensorboard_and_metrics_jsonl[] = {
    {"metrics.tensorboard", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.jsonl", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_model_compute_copies_and_algo_objective[] = {
    {"model.compute_copies", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_model_critic_path_and_algo_advantage[] = {
    {"model.critic_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_model_reference_path_and_algo_kl_where[] = {
    {"model.reference_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_model_reward_path_and_algo_gdpo_weights[] = {
    {"model.reward_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.gdpo_weights", OptionCondition::kIsNot,
     "", "", ""},
};
constexpr OptionCondition kConditions_model_reward_path_and_algo_objective[] = {
    {"model.reward_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
};
constexpr OptionCondition kConditions_model_teacher_path_and_algo_objective[] = {
    {"model.teacher_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_model_train_only_and_model_freeze[] = {
    {"model.train_only", OptionCondition::kChanged,
     "", "", ""},
    {"model.freeze", OptionCondition::kIsNot,
     "", "", ""},
};
constexpr OptionCondition kConditions_optimizer_cpu_offload_and_optimizer_name[] = {
    {"optimizer.name", OptionCondition::kIs,
     "muon", "", ""},
    {"optimizer.cpu_offload", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_optimizer_cpu_offload_fraction_and_optimizer_cpu_offload[] = {
    {"optimizer.cpu_offload_fraction", OptionCondition::kChanged,
     "", "", ""},
    {"optimizer.cpu_offload", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_optimizer_muon_momentum_and_optimizer_name[] = {
    {"optimizer.muon_momentum", OptionCondition::kChanged,
     "", "", ""},
    {"optimizer.name", OptionCondition::kIs,
     "adamw", "", ""},
};
constexpr OptionCondition kConditions_optimizer_muon_ns_steps_and_optimizer_name[] = {
    {"optimizer.muon_ns_steps", OptionCondition::kChanged,
     "", "", ""},
    {"optimizer.name", OptionCondition::kIs,
     "adamw", "", ""},
};
constexpr OptionCondition kConditions_optimizer_overlap_d2h_h2d_and_optimizer_cpu_offload[] = {
    {"optimizer.overlap_d2h_h2d", OptionCondition::kChanged,
     "", "", ""},
    {"optimizer.cpu_offload", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_optimizer_state_dtype_and_optimizer_name[] = {
    {"optimizer.name", OptionCondition::kIs,
     "muon", "", ""},
    {"optimizer.state_dtype", OptionCondition::kIsNot,
     "fp32", "", ""},
};
constexpr OptionCondition kConditions_parallel_context_and_pipeline_mode[] = {
    {"parallel.context", OptionCondition::kIsNot,
     "1", "", ""},
    {"pipeline.mode", OptionCondition::kIsNot,
     "sync", "", ""},
    {"pipeline.role", OptionCondition::kIs,
     "both", "", ""},
};
constexpr OptionCondition kConditions_parallel_context_kind_and_parallel_context[] = {
    {"parallel.context_kind", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.context", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_context_zigzag_and_parallel_context[] = {
    {"parallel.context_zigzag", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.context", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_context_zigzag_and_parallel_context_kind[] = {
    {"parallel.context_zigzag", OptionCondition::kIs,
     "true", "", ""},
    {"parallel.context_kind", OptionCondition::kIs,
     "ulysses", "", ""},
};
constexpr OptionCondition kConditions_parallel_data_and_pipeline_mode[] = {
    {"parallel.data", OptionCondition::kIsNot,
     "1", "", ""},
    {"pipeline.mode", OptionCondition::kIsNot,
     "sync", "", ""},
    {"pipeline.role", OptionCondition::kIs,
     "both", "", ""},
};
constexpr OptionCondition kConditions_parallel_devices_critic_and_pipeline_colocate[] = {
    {"parallel.devices.critic", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.colocate", OptionCondition::kIs,
     "all", "", ""},
};
constexpr OptionCondition kConditions_parallel_devices_engine_and_pipeline_colocate[] = {
    {"parallel.devices.engine", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.colocate", OptionCondition::kIs,
     "all", "", ""},
};
constexpr OptionCondition kConditions_parallel_devices_reference_and_pipeline_colocate[] = {
    {"parallel.devices.reference", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.colocate", OptionCondition::kIs,
     "all", "", ""},
};
constexpr OptionCondition kConditions_parallel_devices_reward_and_pipeline_colocate[] = {
    {"parallel.devices.reward", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.colocate", OptionCondition::kIs,
     "all", "", ""},
};
constexpr OptionCondition kConditions_parallel_devices_trainer_and_pipeline_colocate[] = {
    {"parallel.devices.trainer", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.colocate", OptionCondition::kIs,
     "all", "", ""},
};
constexpr OptionCondition kConditions_parallel_overlap_grad_reduce_and_parallel_data[] = {
    {"parallel.overlap_grad_reduce", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.context", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_overlap_grad_reduce_and_parallel_pipeline[] = {
    {"parallel.overlap_grad_reduce", OptionCondition::kIs,
     "true", "", ""},
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_overlap_param_gather_and_model_compute_copies[] = {
    {"parallel.overlap_param_gather", OptionCondition::kIs,
     "true", "", ""},
    {"model.compute_copies", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_overlap_param_gather_and_parallel_zero_stage[] = {
    {"parallel.overlap_param_gather", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.zero_stage", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_algo_advantage[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_algo_objective[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_algo_objective_2[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_engine_preemption[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"engine.preemption", OptionCondition::kIs,
     "swap", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_engine_thread[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"engine.thread", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_model_compute_copies[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"model.compute_copies", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_model_freeze[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"model.freeze", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_model_train_only[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"model.train_only", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_optimizer_name[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"optimizer.name", OptionCondition::kIs,
     "muon", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_optimizer_state_dtype[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"optimizer.state_dtype", OptionCondition::kIsNot,
     "fp32", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_trainer_activation_offload[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"trainer.activation_offload", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_and_trainer_grad_dtype[] = {
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
    {"trainer.grad_dtype", OptionCondition::kIsNot,
     "fp32", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_first_layers_and_parallel_pipeline[] = {
    {"parallel.pipeline_first_layers", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.pipeline", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_pipeline_last_layers_and_parallel_pipeline[] = {
    {"parallel.pipeline_last_layers", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.pipeline", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_reduction_parts_and_optimizer_name[] = {
    {"parallel.reduction_parts", OptionCondition::kIsNot,
     "1", "", ""},
    {"optimizer.name", OptionCondition::kIs,
     "muon", "", ""},
};
constexpr OptionCondition kConditions_parallel_sequence_parallel_and_parallel_context[] = {
    {"parallel.sequence_parallel", OptionCondition::kIs,
     "true", "", ""},
    {"parallel.context", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_sequence_parallel_and_parallel_pipeline[] = {
    {"parallel.sequence_parallel", OptionCondition::kIs,
     "true", "", ""},
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_sequence_parallel_and_parallel_tensor[] = {
    {"parallel.sequence_parallel", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.tensor", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_tensor_and_engine_thread[] = {
    {"parallel.tensor", OptionCondition::kIsNot,
     "1", "", ""},
    {"engine.thread", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_parallel_tensor_and_model_compute_copies[] = {
    {"parallel.tensor", OptionCondition::kIsNot,
     "1", "", ""},
    {"model.compute_copies", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_zero_group_and_comm_backend[] = {
    {"parallel.zero_group", OptionCondition::kChanged,
     "", "", ""},
    {"comm.backend", OptionCondition::kIs,
     "nccl", "", ""},
};
constexpr OptionCondition kConditions_parallel_zero_group_and_parallel_zero_stage[] = {
    {"parallel.zero_group", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.zero_stage", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_parallel_zero_group_and_parallel_zero_stage_2[] = {
    {"parallel.zero_group", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.zero_stage", OptionCondition::kIsNot,
     "0", "", ""},
};
constexpr OptionCondition kConditions_parallel_zero_stage_and_eval_weights[] = {
    {"parallel.zero_stage", OptionCondition::kIsNot,
     "0", "", ""},
    {"eval.weights", OptionCondition::kIs,
     "ema", "", ""},
};
constexpr OptionCondition kConditions_parallel_zero_stage_and_model_compute_copies[] = {
    {"parallel.zero_stage", OptionCondition::kIs,
     "3", "", ""},
    {"model.compute_copies", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_zero_stage_and_parallel_data[] = {
    {"parallel.zero_stage", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.context", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_parallel_zero_stage_and_reference_weights[] = {
    {"parallel.zero_stage", OptionCondition::kIsNot,
     "0", "", ""},
    {"reference.weights", OptionCondition::kIs,
     "ema", "", ""},
};
constexpr OptionCondition kConditions_parallel_zero_stage_and_trainer_weights_backup[] = {
    {"parallel.zero_stage", OptionCondition::kIs,
     "3", "", ""},
    {"trainer.weights_backup", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_pipeline_colocate_and_runtime_device[] = {
    {"pipeline.colocate", OptionCondition::kIsNot,
     "all", "", ""},
    {"runtime.device", OptionCondition::kIs,
     "cpu", "", ""},
};
constexpr OptionCondition kConditions_pipeline_colocate_and_runtime_device_2[] = {
    {"pipeline.colocate", OptionCondition::kIsNot,
     "all", "", ""},
    {"runtime.device", OptionCondition::kIs,
     "cuda", "", ""},
};
constexpr OptionCondition kConditions_pipeline_discard_zero_advantage_and_algo_advantage[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "dr_grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "rloo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "opo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gpg", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "reinforce_pp_baseline", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_pipeline_discard_zero_advantage_and_algo_objective[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_discard_zero_advantage_and_algo_objective_2[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kIs,
     "true", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_filter_and_algo_objective[] = {
    {"pipeline.filter", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_filter_high_and_pipeline_filter[] = {
    {"pipeline.filter_high", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.filter", OptionCondition::kIsNot,
     "mean", "", ""},
};
constexpr OptionCondition kConditions_pipeline_filter_low_and_pipeline_filter[] = {
    {"pipeline.filter_low", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.filter", OptionCondition::kIsNot,
     "mean", "", ""},
};
constexpr OptionCondition kConditions_pipeline_filter_low_and_pipeline_filter_high[] = {
    {"pipeline.filter_low", OptionCondition::kAtLeast,
     "", "pipeline.filter_high", ""},
};
constexpr OptionCondition kConditions_pipeline_filter_max_rounds_and_pipeline_filter[] = {
    {"pipeline.filter_max_rounds", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.filter", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_pipeline_filter_max_rounds_and_pipeline_mode[] = {
    {"pipeline.filter_max_rounds", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIs,
     "async", "", ""},
};
constexpr OptionCondition kConditions_pipeline_filter_spread_and_pipeline_filter[] = {
    {"pipeline.filter_spread", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.filter", OptionCondition::kIsNot,
     "spread", "", ""},
};
constexpr OptionCondition kConditions_pipeline_free_lane_after_generation_and_pipeline_max_concurrent_prompts_per_engine[] = {
    {"pipeline.free_lane_after_generation", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.max_concurrent_prompts_per_engine", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_pipeline_free_lane_after_generation_and_pipeline_sample_lanes[] = {
    {"pipeline.free_lane_after_generation", OptionCondition::kIs,
     "false", "", ""},
    {"pipeline.sample_lanes", OptionCondition::kIs,
     "group", "", ""},
};
constexpr OptionCondition kConditions_pipeline_mask_off_policy_tokens_and_pipeline_partial_rollout[] = {
    {"pipeline.mask_off_policy_tokens", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.partial_rollout", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_pipeline_max_concurrent_prompts_per_engine_and_algo_objective[] = {
    {"pipeline.max_concurrent_prompts_per_engine", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_max_concurrent_prompts_per_engine_and_pipeline_turns[] = {
    {"pipeline.max_concurrent_prompts_per_engine", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.turns", OptionCondition::kIsNot,
     "none", "", ""},
};
constexpr OptionCondition kConditions_pipeline_max_off_policy_steps_and_pipeline_max_staleness[] = {
    {"pipeline.max_off_policy_steps", OptionCondition::kAtLeast,
     "", "pipeline.max_staleness", ""},
};
constexpr OptionCondition kConditions_pipeline_max_off_policy_steps_and_pipeline_mode[] = {
    {"pipeline.max_off_policy_steps", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIsNot,
     "async", "", ""},
};
constexpr OptionCondition kConditions_pipeline_max_staleness_and_pipeline_mode[] = {
    {"pipeline.max_staleness", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIsNot,
     "async", "", ""},
};
constexpr OptionCondition kConditions_pipeline_max_turns_and_pipeline_turns[] = {
    {"pipeline.max_turns", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.turns", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_pipeline_mode_and_algo_objective[] = {
    {"pipeline.mode", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_mode_and_checkpoint_dir[] = {
    {"pipeline.mode", OptionCondition::kIsNot,
     "sync", "", ""},
    {"pipeline.role", OptionCondition::kIsNot,
     "train", "", ""},
    {"checkpoint.dir", OptionCondition::kIsNot,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_mode_and_eval_weights[] = {
    {"pipeline.mode", OptionCondition::kIsNot,
     "sync", "", ""},
    {"eval.weights", OptionCondition::kIs,
     "ema", "", ""},
};
constexpr OptionCondition kConditions_pipeline_mode_and_model_compute_copies[] = {
    {"pipeline.mode", OptionCondition::kIsNot,
     "sync", "", ""},
    {"pipeline.role", OptionCondition::kIs,
     "both", "", ""},
    {"model.compute_copies", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_mode_and_pipeline_turns[] = {
    {"pipeline.mode", OptionCondition::kIs,
     "async", "", ""},
    {"pipeline.turns", OptionCondition::kIsNot,
     "none", "", ""},
    {"pipeline.partial_rollout", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_pipeline_mode_and_trainer_free_grad_buffers_on_publish[] = {
    {"pipeline.mode", OptionCondition::kIsNot,
     "sync", "", ""},
    {"trainer.free_grad_buffers_on_publish", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_pipeline_over_sampling_prompts_and_pipeline_mode[] = {
    {"pipeline.over_sampling_prompts", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIsNot,
     "async", "", ""},
};
constexpr OptionCondition kConditions_pipeline_over_sampling_prompts_and_pipeline_queue_size[] = {
    {"pipeline.over_sampling_prompts", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIs,
     "async", "", ""},
    {"pipeline.queue_size", OptionCondition::kAtLeast,
     "", "pipeline.max_staleness", ""},
};
constexpr OptionCondition kConditions_pipeline_overlong_filter_and_algo_objective[] = {
    {"pipeline.overlong_filter", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_partial_rollout_and_pipeline_mode[] = {
    {"pipeline.partial_rollout", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIsNot,
     "async", "", ""},
};
constexpr OptionCondition kConditions_pipeline_prompt_prefetch_and_data_path[] = {
    {"pipeline.prompt_prefetch", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_prompt_prefetch_size_and_pipeline_prompt_prefetch[] = {
    {"pipeline.prompt_prefetch_size", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.prompt_prefetch", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_pipeline_queue_size_and_pipeline_max_staleness[] = {
    {"pipeline.role", OptionCondition::kIsNot,
     "train", "", ""},
    {"pipeline.queue_size", OptionCondition::kAbove,
     "", "pipeline.max_staleness", ""},
};
constexpr OptionCondition kConditions_pipeline_queue_size_and_pipeline_mode[] = {
    {"pipeline.queue_size", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIsNot,
     "async", "", ""},
};
constexpr OptionCondition kConditions_pipeline_record_path_and_algo_objective[] = {
    {"pipeline.record_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_record_path_and_data_path[] = {
    {"pipeline.record_path", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_record_path_and_parallel_context[] = {
    {"pipeline.record_path", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.context", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_record_path_and_parallel_data[] = {
    {"pipeline.record_path", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_record_path_and_parallel_pipeline[] = {
    {"pipeline.record_path", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_record_path_and_parallel_tensor[] = {
    {"pipeline.record_path", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.tensor", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_record_path_and_pipeline_replay_path[] = {
    {"pipeline.record_path", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.replay_path", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_record_path_and_pipeline_turns[] = {
    {"pipeline.record_path", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.turns", OptionCondition::kIsNot,
     "none", "", ""},
};
constexpr OptionCondition kConditions_pipeline_repetition_filter_and_algo_objective[] = {
    {"pipeline.repetition_filter", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_repetition_ngram_and_pipeline_repetition_filter[] = {
    {"pipeline.repetition_ngram", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.repetition_filter", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_replay_path_and_algo_objective[] = {
    {"pipeline.replay_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_replay_path_and_data_path[] = {
    {"pipeline.replay_path", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_replay_path_and_parallel_context[] = {
    {"pipeline.replay_path", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.context", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_replay_path_and_parallel_data[] = {
    {"pipeline.replay_path", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_replay_path_and_parallel_pipeline[] = {
    {"pipeline.replay_path", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.pipeline", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_replay_path_and_parallel_tensor[] = {
    {"pipeline.replay_path", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.tensor", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_replay_path_and_pipeline_turns[] = {
    {"pipeline.replay_path", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.turns", OptionCondition::kIsNot,
     "none", "", ""},
};
constexpr OptionCondition kConditions_pipeline_reply_timeout_ns_and_pipeline_turns[] = {
    {"pipeline.reply_timeout_ns", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.turns", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_pipeline_reward_timeout_ns_and_algo_objective[] = {
    {"pipeline.reward_timeout_ns", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_reward_timeout_ns_and_algo_objective_2[] = {
    {"pipeline.reward_timeout_ns", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_pipeline_reward_timeout_ns_and_model_reward_path[] = {
    {"pipeline.reward_timeout_ns", OptionCondition::kChanged,
     "", "", ""},
    {"model.reward_path", OptionCondition::kIsNot,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_role_and_model_compute_copies[] = {
    {"pipeline.role", OptionCondition::kIsNot,
     "both", "", ""},
    {"model.compute_copies", OptionCondition::kIs,
     "2", "", ""},
};
constexpr OptionCondition kConditions_pipeline_role_and_parallel_context[] = {
    {"pipeline.role", OptionCondition::kIs,
     "rollout", "", ""},
    {"parallel.context", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_role_and_parallel_data[] = {
    {"pipeline.role", OptionCondition::kIs,
     "rollout", "", ""},
    {"parallel.data", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_pipeline_role_and_pipeline_mode[] = {
    {"pipeline.role", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIsNot,
     "async", "", ""},
};
constexpr OptionCondition kConditions_pipeline_rollout_turns_and_pipeline_mode[] = {
    {"pipeline.rollout_turns", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIs,
     "sync", "", ""},
};
constexpr OptionCondition kConditions_pipeline_sample_lanes_and_pipeline_max_concurrent_prompts_per_engine[] = {
    {"pipeline.sample_lanes", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.max_concurrent_prompts_per_engine", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_pipeline_samples_per_prompt_and_algo_objective[] = {
    {"pipeline.samples_per_prompt", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_pipeline_score_events_and_algo_objective[] = {
    {"pipeline.score_events", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_score_events_and_algo_objective_2[] = {
    {"pipeline.score_events", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_pipeline_score_events_and_model_reward_path[] = {
    {"pipeline.score_events", OptionCondition::kChanged,
     "", "", ""},
    {"model.reward_path", OptionCondition::kIsNot,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_train_turns_and_pipeline_mode[] = {
    {"pipeline.train_turns", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.mode", OptionCondition::kIs,
     "sync", "", ""},
};
constexpr OptionCondition kConditions_pipeline_turns_and_algo_objective[] = {
    {"pipeline.turns", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_turns_and_algo_objective_2[] = {
    {"pipeline.turns", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_pipeline_turns_and_sampling_stop[] = {
    {"pipeline.turns", OptionCondition::kIs,
     "stop_string", "", ""},
    {"sampling.stop", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_pipeline_weights_dir_and_pipeline_role[] = {
    {"pipeline.weights_dir", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.role", OptionCondition::kIsNot,
     "rollout", "", ""},
};
constexpr OptionCondition kConditions_profiler_timeline_dir_and_profiler_timeline_enable[] = {
    {"profiler.timeline.dir", OptionCondition::kChanged,
     "", "", ""},
    {"profiler.timeline.enable", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_profiler_timeline_enable_and_profiler_timeline_dir[] = {
    {"profiler.timeline.enable", OptionCondition::kIs,
     "true", "", ""},
    {"profiler.timeline.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_reference_forward_max_tokens_per_device_and_algo_kl_where[] = {
    {"reference.forward_max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_reference_micro_batch_size_and_algo_kl_where[] = {
    {"reference.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_reference_micro_batch_size_and_reference_forward_max_tokens_per_device[] = {
    {"reference.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"reference.forward_max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_reference_micro_batch_size_and_trainer_dynamic_batching[] = {
    {"reference.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_reference_offload_and_algo_kl_where[] = {
    {"reference.offload", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_reference_weights_and_algo_kl_where[] = {
    {"reference.weights", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_reference_weights_and_model_reference_path[] = {
    {"reference.weights", OptionCondition::kIs,
     "ema", "", ""},
    {"model.reference_path", OptionCondition::kIsNot,
     "", "", ""},
};
constexpr OptionCondition kConditions_reference_weights_and_optimizer_ema[] = {
    {"reference.weights", OptionCondition::kChanged,
     "", "", ""},
    {"optimizer.ema", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_reward_forward_max_tokens_per_device_and_model_reward_path[] = {
    {"reward.forward_max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"model.reward_path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_reward_micro_batch_size_and_model_reward_path[] = {
    {"reward.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"model.reward_path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_reward_micro_batch_size_and_reward_forward_max_tokens_per_device[] = {
    {"reward.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"reward.forward_max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_reward_micro_batch_size_and_trainer_dynamic_batching[] = {
    {"reward.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_runtime_device_index_and_runtime_device[] = {
    {"runtime.device_index", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.device", OptionCondition::kIs,
     "cpu", "", ""},
};
constexpr OptionCondition kConditions_runtime_experiment_and_checkpoint_dir[] = {
    {"runtime.experiment", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
    {"buffer.record_dir", OptionCondition::kIs,
     "", "", ""},
    {"pipeline.record_path", OptionCondition::kIs,
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
constexpr OptionCondition kConditions_runtime_gpu_ranges_and_runtime_device[] = {
    {"runtime.gpu_ranges", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.device", OptionCondition::kIs,
     "cpu", "", ""},
};
constexpr OptionCondition kConditions_runtime_memory_margin_bytes_and_runtime_memory_budget_bytes[] = {
    {"runtime.memory_margin_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.memory_budget_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_runtime_memory_margin_bytes_and_runtime_memory_budget_bytes_2[] = {
    {"runtime.memory_budget_bytes", OptionCondition::kIsNot,
     "0", "", ""},
    {"runtime.memory_margin_bytes", OptionCondition::kAtLeast,
     "", "runtime.memory_budget_bytes", ""},
};
constexpr OptionCondition kConditions_runtime_output_dir_and_checkpoint_dir[] = {
    {"runtime.output_dir", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
    {"buffer.record_dir", OptionCondition::kIs,
     "", "", ""},
    {"pipeline.record_path", OptionCondition::kIs,
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
constexpr OptionCondition kConditions_sampling_max_new_tokens_and_engine_max_model_len[] = {
    {"engine.max_model_len", OptionCondition::kIsNot,
     "0", "", ""},
    {"sampling.max_new_tokens", OptionCondition::kAtLeast,
     "", "engine.max_model_len", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "sft", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_sampling_max_new_tokens_and_engine_max_model_len_2[] = {
    {"engine.max_model_len", OptionCondition::kIsNot,
     "0", "", ""},
    {"sampling.max_new_tokens", OptionCondition::kAtLeast,
     "", "engine.max_model_len", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
    {"eval.path", OptionCondition::kIsNot,
     "", "", ""},
};
constexpr OptionCondition kConditions_sampling_min_new_tokens_and_sampling_max_new_tokens[] = {
    {"sampling.min_new_tokens", OptionCondition::kAbove,
     "", "sampling.max_new_tokens", ""},
};
constexpr OptionCondition kConditions_sampling_min_p_and_sampling_temperature[] = {
    {"sampling.min_p", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_sampling_top_k_and_sampling_temperature[] = {
    {"sampling.top_k", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_sampling_top_p_and_sampling_temperature[] = {
    {"sampling.top_p", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_schedule_min_lr_and_optimizer_lr[] = {
    {"schedule.min_lr", OptionCondition::kAbove,
     "", "optimizer.lr", ""},
};
constexpr OptionCondition kConditions_schedule_min_lr_and_schedule_name[] = {
    {"schedule.min_lr", OptionCondition::kChanged,
     "", "", ""},
    {"schedule.name", OptionCondition::kIs,
     "constant", "", ""},
};
constexpr OptionCondition kConditions_schedule_name_and_schedule_total_steps[] = {
    {"schedule.name", OptionCondition::kIsNot,
     "constant", "", ""},
    {"schedule.total_steps", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_schedule_total_steps_and_schedule_name[] = {
    {"schedule.total_steps", OptionCondition::kChanged,
     "", "", ""},
    {"schedule.name", OptionCondition::kIs,
     "constant", "", ""},
};
constexpr OptionCondition kConditions_schedule_warmup_steps_and_schedule_total_steps[] = {
    {"schedule.total_steps", OptionCondition::kIsNot,
     "0", "", ""},
    {"schedule.warmup_steps", OptionCondition::kAbove,
     "", "schedule.total_steps", ""},
};
constexpr OptionCondition kConditions_sync_bucket_bytes_and_engine_tensor_parallel_size[] = {
    {"sync.bucket_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"engine.tensor_parallel_size", OptionCondition::kIsNot,
     "1", "", ""},
};
constexpr OptionCondition kConditions_sync_bucket_bytes_and_parallel_tensor[] = {
    {"sync.bucket_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.tensor", OptionCondition::kIs,
     "1", "", ""},
    {"parallel.pipeline", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_trainer_balance_and_trainer_dynamic_batching[] = {
    {"trainer.balance", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_trainer_balance_and_trainer_sequence_packing[] = {
    {"trainer.balance", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.sequence_packing", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_trainer_balance_groups_and_parallel_data[] = {
    {"trainer.balance_groups", OptionCondition::kChanged,
     "", "", ""},
    {"parallel.data", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_trainer_check_logprobs_and_algo_objective[] = {
    {"trainer.check_logprobs", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_trainer_global_batch_size_and_pipeline_prompts_per_step[] = {
    {"trainer.global_batch_size", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_trainer_global_batch_size_and_pipeline_samples_per_prompt[] = {
    {"trainer.global_batch_size", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", "pipeline.samples_per_prompt"},
    {"algo.objective", OptionCondition::kIsNot,
     "sft", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_trainer_logprob_chunk_tokens_and_algo_objective[] = {
    {"trainer.logprob_chunk_tokens", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_trainer_max_tokens_per_device_and_trainer_dynamic_batching[] = {
    {"trainer.max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_trainer_micro_batch_size_and_trainer_dynamic_batching[] = {
    {"trainer.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_trainer_num_minibatches_and_pipeline_prompts_per_step[] = {
    {"trainer.num_minibatches", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_trainer_num_minibatches_and_pipeline_samples_per_prompt[] = {
    {"trainer.num_minibatches", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", "pipeline.samples_per_prompt"},
    {"algo.objective", OptionCondition::kIsNot,
     "sft", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_trainer_num_minibatches_and_trainer_global_batch_size[] = {
    {"trainer.num_minibatches", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.global_batch_size", OptionCondition::kIsNot,
     "0", "", ""},
};
constexpr OptionCondition kConditions_trainer_oversize_and_algo_objective[] = {
    {"trainer.oversize", OptionCondition::kIs,
     "cut", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_trainer_oversize_and_trainer_max_tokens_per_device[] = {
    {"trainer.oversize", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.max_tokens_per_device", OptionCondition::kIs,
     "0", "", ""},
    {"trainer.seq_len", OptionCondition::kIs,
     "0", "", ""},
    {"trainer.logprob_max_tokens_per_device", OptionCondition::kIs,
     "0", "", ""},
    {"critic.max_tokens_per_device", OptionCondition::kIs,
     "0", "", ""},
    {"critic.forward_max_tokens_per_device", OptionCondition::kIs,
     "0", "", ""},
    {"reference.forward_max_tokens_per_device", OptionCondition::kIs,
     "0", "", ""},
    {"reward.forward_max_tokens_per_device", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_trainer_oversize_and_trainer_seq_len[] = {
    {"trainer.oversize", OptionCondition::kIs,
     "cut", "", ""},
    {"trainer.seq_len", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_trainer_pad_to_multiple_of_and_trainer_seq_len[] = {
    {"trainer.pad_to_multiple_of", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.seq_len", OptionCondition::kIsNot,
     "0", "", ""},
};
constexpr OptionCondition kConditions_trainer_recompute_granularity_and_trainer_recompute_method[] = {
    {"trainer.recompute_granularity", OptionCondition::kIs,
     "full", "", ""},
    {"trainer.recompute_method", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_trainer_recompute_granularity_and_trainer_recompute_num_layers[] = {
    {"trainer.recompute_granularity", OptionCondition::kIs,
     "full", "", ""},
    {"trainer.recompute_num_layers", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_trainer_recompute_loss_and_algo_distill_kl[] = {
    {"trainer.recompute_loss", OptionCondition::kIs,
     "true", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "distill", "", ""},
    {"algo.distill.kl", OptionCondition::kIsNot,
     "sampled", "", ""},
};
constexpr OptionCondition kConditions_trainer_recompute_loss_and_algo_objective[] = {
    {"trainer.recompute_loss", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_trainer_recompute_method_and_trainer_recompute_granularity[] = {
    {"trainer.recompute_method", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.recompute_granularity", OptionCondition::kIsNot,
     "full", "", ""},
    {"critic.recompute_granularity", OptionCondition::kIsNot,
     "full", "", ""},
};
constexpr OptionCondition kConditions_trainer_recompute_modules_and_trainer_recompute_granularity[] = {
    {"trainer.recompute_modules", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.recompute_granularity", OptionCondition::kIsNot,
     "selective", "", ""},
    {"critic.recompute_granularity", OptionCondition::kIsNot,
     "selective", "", ""},
};
constexpr OptionCondition kConditions_trainer_recompute_num_layers_and_trainer_recompute_granularity[] = {
    {"trainer.recompute_num_layers", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.recompute_granularity", OptionCondition::kIsNot,
     "full", "", ""},
    {"critic.recompute_granularity", OptionCondition::kIsNot,
     "full", "", ""},
};
constexpr OptionCondition kConditions_trainer_seq_len_and_trainer_dynamic_batching[] = {
    {"trainer.seq_len", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "false", "", ""},
    {"trainer.sequence_packing", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_trainer_seq_len_and_trainer_max_tokens_per_device[] = {
    {"trainer.seq_len", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.sequence_packing", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_trainer_weights_backup_and_model_compute_copies[] = {
    {"trainer.weights_backup", OptionCondition::kIs,
     "true", "", ""},
    {"model.compute_copies", OptionCondition::kIs,
     "2", "", ""},
};

constexpr OptionRule kRules[] = {
    {"algo.adv_ddof", "algo.adv_norm_std",
     kConditions_algo_adv_ddof_and_algo_adv_norm_std, 2,
     "algo.adv_ddof = {algo.adv_ddof} has no effect while algo.adv_norm_std is "
     "{algo.adv_norm_std}"},
    {"algo.adv_ddof", "algo.advantage",
     kConditions_algo_adv_ddof_and_algo_advantage, 4,
     "algo.adv_ddof = {algo.adv_ddof} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.adv_ddof", "algo.distill.rewards",
     kConditions_algo_adv_ddof_and_algo_distill_rewards, 2,
     "algo.adv_ddof = {algo.adv_ddof} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_ddof", "algo.objective",
     kConditions_algo_adv_ddof_and_algo_objective, 3,
     "algo.adv_ddof = {algo.adv_ddof} has no effect while algo.objective is {algo.objective}"},
    {"algo.adv_eps", "algo.adv_norm_std",
     kConditions_algo_adv_eps_and_algo_adv_norm_std, 2,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.adv_norm_std is {algo.adv_norm_std}"},
    {"algo.adv_eps", "algo.advantage",
     kConditions_algo_adv_eps_and_algo_advantage, 4,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.adv_eps", "algo.distill.rewards",
     kConditions_algo_adv_eps_and_algo_distill_rewards, 2,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_eps", "algo.objective",
     kConditions_algo_adv_eps_and_algo_objective, 3,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.objective is {algo.objective}"},
    {"algo.adv_norm_std", "algo.advantage",
     kConditions_algo_adv_norm_std_and_algo_advantage, 4,
     "algo.adv_norm_std = {algo.adv_norm_std} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_norm_std", "algo.distill.rewards",
     kConditions_algo_adv_norm_std_and_algo_distill_rewards, 2,
     "algo.adv_norm_std = {algo.adv_norm_std} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_norm_std", "algo.objective",
     kConditions_algo_adv_norm_std_and_algo_objective, 3,
     "algo.adv_norm_std = {algo.adv_norm_std} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.adv_singleton", "algo.advantage",
     kConditions_algo_adv_singleton_and_algo_advantage, 9,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_singleton", "algo.distill.rewards",
     kConditions_algo_adv_singleton_and_algo_distill_rewards, 2,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_singleton", "algo.objective",
     kConditions_algo_adv_singleton_and_algo_objective, 3,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.adv_std_scope", "algo.adv_norm_std",
     kConditions_algo_adv_std_scope_and_algo_adv_norm_std, 2,
     "algo.adv_std_scope = {algo.adv_std_scope} has no effect while algo.adv_norm_std is "
     "{algo.adv_norm_std}"},
    {"algo.adv_std_scope", "algo.advantage",
     kConditions_algo_adv_std_scope_and_algo_advantage, 4,
     "algo.adv_std_scope = {algo.adv_std_scope} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_std_scope", "algo.distill.rewards",
     kConditions_algo_adv_std_scope_and_algo_distill_rewards, 2,
     "algo.adv_std_scope = {algo.adv_std_scope} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_std_scope", "algo.objective",
     kConditions_algo_adv_std_scope_and_algo_objective, 3,
     "algo.adv_std_scope = {algo.adv_std_scope} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.advantage", "algo.distill.rewards",
     kConditions_algo_advantage_and_algo_distill_rewards, 2,
     "algo.advantage = {algo.advantage} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.advantage", "algo.gdpo_weights",
     kConditions_algo_advantage_and_algo_gdpo_weights, 2,
     "algo.advantage = gdpo needs a weight for each kind of reward, but algo.gdpo_weights is "
     "empty"},
    {"algo.advantage", "algo.objective",
     kConditions_algo_advantage_and_algo_objective, 3,
     "algo.advantage = {algo.advantage} has no effect while algo.objective is {algo.objective}"},
    {"algo.advantage", "pipeline.samples_per_prompt",
     kConditions_algo_advantage_and_pipeline_samples_per_prompt, 10,
     "algo.advantage = {algo.advantage} compares the samples of a prompt, but "
     "pipeline.samples_per_prompt is 1: there is nothing to compare with"},
    {"algo.clip_cov_high", "algo.policy_loss",
     kConditions_algo_clip_cov_high_and_algo_policy_loss, 2,
     "algo.clip_cov_high = {algo.clip_cov_high} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_cov_low", "algo.clip_cov_high",
     kConditions_algo_clip_cov_low_and_algo_clip_cov_high, 1,
     "algo.clip_cov_low is {algo.clip_cov_low} and leaves no covariance below "
     "algo.clip_cov_high, which is {algo.clip_cov_high}"},
    {"algo.clip_cov_low", "algo.policy_loss",
     kConditions_algo_clip_cov_low_and_algo_policy_loss, 2,
     "algo.clip_cov_low = {algo.clip_cov_low} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_high", "algo.objective",
     kConditions_algo_clip_high_and_algo_objective, 3,
     "algo.clip_high = {algo.clip_high} has no effect while algo.objective is {algo.objective}"},
    {"algo.clip_high", "algo.policy_loss",
     kConditions_algo_clip_high_and_algo_policy_loss, 8,
     "algo.clip_high = {algo.clip_high} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_low", "algo.objective",
     kConditions_algo_clip_low_and_algo_objective, 3,
     "algo.clip_low = {algo.clip_low} has no effect while algo.objective is {algo.objective}"},
    {"algo.clip_low", "algo.policy_loss",
     kConditions_algo_clip_low_and_algo_policy_loss, 8,
     "algo.clip_low = {algo.clip_low} has no effect while algo.policy_loss is {algo.policy_loss}"},
    {"algo.correction.batch_normalize", "algo.correction.is",
     kConditions_algo_correction_batch_normalize_and_algo_correction_is, 2,
     "algo.correction.batch_normalize = {algo.correction.batch_normalize} has no effect while "
     "algo.correction.is is {algo.correction.is}"},
    {"algo.correction.decoupled", "algo.objective",
     kConditions_algo_correction_decoupled_and_algo_objective, 3,
     "algo.correction.decoupled = {algo.correction.decoupled} has no effect while algo.objective "
     "is {algo.objective}"},
    {"algo.correction.denominator", "algo.correction.rs",
     kConditions_algo_correction_denominator_and_algo_correction_rs, 4,
     "algo.correction.denominator = {algo.correction.denominator} has no effect while "
     "algo.correction.rs is {algo.correction.rs}"},
    {"algo.correction.high", "algo.correction.is",
     kConditions_algo_correction_high_and_algo_correction_is, 2,
     "algo.correction.high = {algo.correction.high} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.is", "algo.correction.decoupled",
     kConditions_algo_correction_is_and_algo_correction_decoupled, 5,
     "algo.correction.is = {algo.correction.is} would count the mismatch twice: without "
     "algo.correction.decoupled the ratio of algo.policy_loss = {algo.policy_loss} is already "
     "relative to the sampler"},
    {"algo.correction.log_clamp", "algo.correction.is",
     kConditions_algo_correction_log_clamp_and_algo_correction_is, 2,
     "algo.correction.log_clamp = {algo.correction.log_clamp} has no effect while "
     "algo.correction.is is {algo.correction.is}"},
    {"algo.correction.low", "algo.correction.high",
     kConditions_algo_correction_low_and_algo_correction_high, 1,
     "algo.correction.low is {algo.correction.low} but algo.correction.high is "
     "{algo.correction.high}"},
    {"algo.correction.low", "algo.correction.is",
     kConditions_algo_correction_low_and_algo_correction_is, 2,
     "algo.correction.low = {algo.correction.low} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.mode", "algo.correction.is",
     kConditions_algo_correction_mode_and_algo_correction_is, 2,
     "algo.correction.mode = {algo.correction.mode} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.opsm_delta", "algo.objective",
     kConditions_algo_correction_opsm_delta_and_algo_objective, 3,
     "algo.correction.opsm_delta = {algo.correction.opsm_delta} has no effect while "
     "algo.objective is {algo.objective}"},
    {"algo.correction.rs", "algo.objective",
     kConditions_algo_correction_rs_and_algo_objective, 3,
     "algo.correction.rs = {algo.correction.rs} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.correction.rs_bounds", "algo.correction.rs",
     kConditions_algo_correction_rs_bounds_and_algo_correction_rs, 2,
     "algo.correction.rs_bounds = {algo.correction.rs_bounds} has no effect while "
     "algo.correction.rs is {algo.correction.rs}"},
    {"algo.correction.veto", "algo.objective",
     kConditions_algo_correction_veto_and_algo_objective, 3,
     "algo.correction.veto = {algo.correction.veto} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.cov_ratio", "algo.policy_loss",
     kConditions_algo_cov_ratio_and_algo_policy_loss, 3,
     "algo.cov_ratio = {algo.cov_ratio} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.critic_warmup_steps", "algo.advantage",
     kConditions_algo_critic_warmup_steps_and_algo_advantage, 2,
     "algo.critic_warmup_steps = {algo.critic_warmup_steps} has no effect while algo.advantage "
     "is {algo.advantage}"},
    {"algo.distill.beta", "algo.distill.kl",
     kConditions_algo_distill_beta_and_algo_distill_kl, 2,
     "algo.distill.beta = {algo.distill.beta} has no effect while algo.distill.kl is "
     "{algo.distill.kl}"},
    {"algo.distill.coef", "algo.objective",
     kConditions_algo_distill_coef_and_algo_objective, 2,
     "algo.distill.coef = {algo.distill.coef} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.distill.kl", "algo.objective",
     kConditions_algo_distill_kl_and_algo_objective, 2,
     "algo.distill.kl = {algo.distill.kl} has no effect while algo.objective is {algo.objective}"},
    {"algo.distill.rewards", "algo.kl.where",
     kConditions_algo_distill_rewards_and_algo_kl_where, 2,
     "algo.kl.where = reward subtracts the KL from rewards, but algo.distill.rewards = false "
     "ignores rewards"},
    {"algo.distill.rewards", "algo.objective",
     kConditions_algo_distill_rewards_and_algo_objective, 2,
     "algo.distill.rewards = {algo.distill.rewards} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.dpo.beta", "algo.objective",
     kConditions_algo_dpo_beta_and_algo_objective, 2,
     "algo.dpo.beta = {algo.dpo.beta} has no effect while algo.objective is {algo.objective}"},
    {"algo.dpo.ipo", "algo.objective",
     kConditions_algo_dpo_ipo_and_algo_objective, 2,
     "algo.dpo.ipo = {algo.dpo.ipo} has no effect while algo.objective is {algo.objective}"},
    {"algo.dpo.label_smoothing", "algo.dpo.ipo",
     kConditions_algo_dpo_label_smoothing_and_algo_dpo_ipo, 2,
     "algo.dpo.label_smoothing = {algo.dpo.label_smoothing} has no effect while algo.dpo.ipo is "
     "{algo.dpo.ipo}"},
    {"algo.dpo.label_smoothing", "algo.objective",
     kConditions_algo_dpo_label_smoothing_and_algo_objective, 2,
     "algo.dpo.label_smoothing = {algo.dpo.label_smoothing} has no effect while algo.objective "
     "is {algo.objective}"},
    {"algo.dpo.nll_coef", "algo.objective",
     kConditions_algo_dpo_nll_coef_and_algo_objective, 2,
     "algo.dpo.nll_coef = {algo.dpo.nll_coef} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.dro_beta", "algo.policy_loss",
     kConditions_algo_dro_beta_and_algo_policy_loss, 2,
     "algo.dro_beta = {algo.dro_beta} has no effect while algo.policy_loss is {algo.policy_loss}"},
    {"algo.dual_clip", "algo.objective",
     kConditions_algo_dual_clip_and_algo_objective, 3,
     "algo.dual_clip = {algo.dual_clip} has no effect while algo.objective is {algo.objective}"},
    {"algo.dual_clip", "algo.policy_loss",
     kConditions_algo_dual_clip_and_algo_policy_loss, 3,
     "algo.dual_clip = {algo.dual_clip} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.entropy_coef", "algo.objective",
     kConditions_algo_entropy_coef_and_algo_objective, 3,
     "algo.entropy_coef = {algo.entropy_coef} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.gae_masked", "algo.advantage",
     kConditions_algo_gae_masked_and_algo_advantage, 2,
     "algo.gae_masked = {algo.gae_masked} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.gamma", "algo.advantage",
     kConditions_algo_gamma_and_algo_advantage, 4,
     "algo.gamma = {algo.gamma} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.gdpo_weights", "algo.advantage",
     kConditions_algo_gdpo_weights_and_algo_advantage, 3,
     "algo.gdpo_weights = {algo.gdpo_weights} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.gspo_gradient", "algo.policy_loss",
     kConditions_algo_gspo_gradient_and_algo_policy_loss, 2,
     "algo.gspo_gradient = {algo.gspo_gradient} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.kl.coef", "algo.kl.where",
     kConditions_algo_kl_coef_and_algo_kl_where, 2,
     "algo.kl.coef = {algo.kl.coef} has no effect while algo.kl.where is {algo.kl.where}"},
    {"algo.kl.controller", "algo.kl.where",
     kConditions_algo_kl_controller_and_algo_kl_where, 2,
     "algo.kl.controller = {algo.kl.controller} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"algo.kl.estimator", "algo.kl.where",
     kConditions_algo_kl_estimator_and_algo_kl_where, 2,
     "algo.kl.estimator = {algo.kl.estimator} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"algo.kl.horizon", "algo.kl.controller",
     kConditions_algo_kl_horizon_and_algo_kl_controller, 2,
     "algo.kl.horizon = {algo.kl.horizon} has no effect while algo.kl.controller is "
     "{algo.kl.controller}"},
    {"algo.kl.ratio", "algo.kl.where",
     kConditions_algo_kl_ratio_and_algo_kl_where, 2,
     "algo.kl.ratio = {algo.kl.ratio} has no effect while algo.kl.where is {algo.kl.where}"},
    {"algo.kl.ratio_cap", "algo.kl.ratio",
     kConditions_algo_kl_ratio_cap_and_algo_kl_ratio, 2,
     "algo.kl.ratio_cap = {algo.kl.ratio_cap} has no effect while algo.kl.ratio is "
     "{algo.kl.ratio}"},
    {"algo.kl.spread", "algo.advantage",
     kConditions_algo_kl_spread_and_algo_advantage, 10,
     "algo.kl.spread = {algo.kl.spread} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.kl.spread", "algo.kl.where",
     kConditions_algo_kl_spread_and_algo_kl_where, 2,
     "algo.kl.spread = {algo.kl.spread} has no effect while algo.kl.where is {algo.kl.where}"},
    {"algo.kl.target", "algo.kl.controller",
     kConditions_algo_kl_target_and_algo_kl_controller, 2,
     "algo.kl.target = {algo.kl.target} has no effect while algo.kl.controller is "
     "{algo.kl.controller}"},
    {"algo.kl.value_clamp", "algo.kl.where",
     kConditions_algo_kl_value_clamp_and_algo_kl_where, 2,
     "algo.kl.value_clamp = {algo.kl.value_clamp} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"algo.kl.where", "algo.advantage",
     kConditions_algo_kl_where_and_algo_advantage, 2,
     "algo.kl.where = reward changes the reward of a sample, but algo.advantage = gdpo reads the "
     "parts of the reward"},
    {"algo.kl.where", "algo.objective",
     kConditions_algo_kl_where_and_algo_objective, 3,
     "algo.kl.where = {algo.kl.where} has no effect while algo.objective is {algo.objective}"},
    {"algo.kl_cov_coef", "algo.policy_loss",
     kConditions_algo_kl_cov_coef_and_algo_policy_loss, 2,
     "algo.kl_cov_coef = {algo.kl_cov_coef} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.lambda", "algo.advantage",
     kConditions_algo_lambda_and_algo_advantage, 2,
     "algo.lambda = {algo.lambda} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.loss_agg", "algo.loss_scale_factor",
     kConditions_algo_loss_agg_and_algo_loss_scale_factor, 2,
     "algo.loss_agg = seq_mean_token_sum_norm divides by algo.loss_scale_factor, which is 0"},
    {"algo.loss_agg", "algo.objective",
     kConditions_algo_loss_agg_and_algo_objective, 4,
     "algo.loss_agg = {algo.loss_agg} has no effect while algo.objective is {algo.objective}"},
    {"algo.loss_scale_factor", "algo.loss_agg",
     kConditions_algo_loss_scale_factor_and_algo_loss_agg, 2,
     "algo.loss_scale_factor = {algo.loss_scale_factor} has no effect while algo.loss_agg is "
     "{algo.loss_agg}"},
    {"algo.objective", "model.teacher_path",
     kConditions_algo_objective_and_model_teacher_path, 2,
     "algo.objective = distill needs model.teacher_path, which is empty"},
    {"algo.policy_loss", "algo.objective",
     kConditions_algo_policy_loss_and_algo_objective, 3,
     "algo.policy_loss = {algo.policy_loss} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.ratio_cap", "algo.objective",
     kConditions_algo_ratio_cap_and_algo_objective, 3,
     "algo.ratio_cap = {algo.ratio_cap} has no effect while algo.objective is {algo.objective}"},
    {"algo.ratio_cap", "algo.policy_loss",
     kConditions_algo_ratio_cap_and_algo_policy_loss, 4,
     "algo.ratio_cap = {algo.ratio_cap} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.ratio_log_clamp", "algo.objective",
     kConditions_algo_ratio_log_clamp_and_algo_objective, 3,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.ratio_log_clamp", "algo.policy_loss",
     kConditions_algo_ratio_log_clamp_and_algo_policy_loss, 10,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.reward.clip_at", "algo.advantage",
     kConditions_algo_reward_clip_at_and_algo_advantage, 9,
     "algo.reward.clip_at = {algo.reward.clip_at} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.reward.clip_at", "algo.reward.clip_low",
     kConditions_algo_reward_clip_at_and_algo_reward_clip_low, 3,
     "algo.reward.clip_at = {algo.reward.clip_at} has no effect while algo.reward.clip_low is "
     "{algo.reward.clip_low}"},
    {"algo.reward.clip_high", "algo.distill.rewards",
     kConditions_algo_reward_clip_high_and_algo_distill_rewards, 2,
     "algo.reward.clip_high = {algo.reward.clip_high} has no effect while algo.distill.rewards "
     "is {algo.distill.rewards}"},
    {"algo.reward.clip_high", "algo.objective",
     kConditions_algo_reward_clip_high_and_algo_objective, 3,
     "algo.reward.clip_high = {algo.reward.clip_high} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.reward.clip_low", "algo.distill.rewards",
     kConditions_algo_reward_clip_low_and_algo_distill_rewards, 2,
     "algo.reward.clip_low = {algo.reward.clip_low} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.reward.clip_low", "algo.objective",
     kConditions_algo_reward_clip_low_and_algo_objective, 3,
     "algo.reward.clip_low = {algo.reward.clip_low} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.reward.clip_low", "algo.reward.clip_high",
     kConditions_algo_reward_clip_low_and_algo_reward_clip_high, 1,
     "algo.reward.clip_low is {algo.reward.clip_low} but algo.reward.clip_high is "
     "{algo.reward.clip_high}"},
    {"algo.reward.normalize", "algo.distill.rewards",
     kConditions_algo_reward_normalize_and_algo_distill_rewards, 2,
     "algo.reward.normalize = {algo.reward.normalize} has no effect while algo.distill.rewards "
     "is {algo.distill.rewards}"},
    {"algo.reward.normalize", "algo.objective",
     kConditions_algo_reward_normalize_and_algo_objective, 3,
     "algo.reward.normalize = {algo.reward.normalize} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.reward.overlong_buffer", "algo.distill.rewards",
     kConditions_algo_reward_overlong_buffer_and_algo_distill_rewards, 2,
     "algo.reward.overlong_buffer = {algo.reward.overlong_buffer} has no effect while "
     "algo.distill.rewards is {algo.distill.rewards}"},
    {"algo.reward.overlong_buffer", "algo.objective",
     kConditions_algo_reward_overlong_buffer_and_algo_objective, 3,
     "algo.reward.overlong_buffer = {algo.reward.overlong_buffer} has no effect while "
     "algo.objective is {algo.objective}"},
    {"algo.reward.overlong_buffer", "pipeline.turns",
     kConditions_algo_reward_overlong_buffer_and_pipeline_turns, 2,
     "algo.reward.overlong_buffer = {algo.reward.overlong_buffer} compares the length of a "
     "response with sampling.max_new_tokens, which with pipeline.turns = {pipeline.turns} bounds "
     "a turn"},
    {"algo.reward.overlong_buffer", "sampling.max_new_tokens",
     kConditions_algo_reward_overlong_buffer_and_sampling_max_new_tokens, 1,
     "algo.reward.overlong_buffer is {algo.reward.overlong_buffer} but a response has at most "
     "sampling.max_new_tokens = {sampling.max_new_tokens}"},
    {"algo.reward.overlong_penalty", "algo.reward.overlong_buffer",
     kConditions_algo_reward_overlong_penalty_and_algo_reward_overlong_buffer, 2,
     "algo.reward.overlong_penalty = {algo.reward.overlong_penalty} has no effect while "
     "algo.reward.overlong_buffer is {algo.reward.overlong_buffer}"},
    {"algo.reward.truncation_penalty", "algo.distill.rewards",
     kConditions_algo_reward_truncation_penalty_and_algo_distill_rewards, 2,
     "algo.reward.truncation_penalty = {algo.reward.truncation_penalty} has no effect while "
     "algo.distill.rewards is {algo.distill.rewards}"},
    {"algo.reward.truncation_penalty", "algo.objective",
     kConditions_algo_reward_truncation_penalty_and_algo_objective, 3,
     "algo.reward.truncation_penalty = {algo.reward.truncation_penalty} has no effect while "
     "algo.objective is {algo.objective}"},
    {"algo.sapo_tau_neg", "algo.policy_loss",
     kConditions_algo_sapo_tau_neg_and_algo_policy_loss, 2,
     "algo.sapo_tau_neg = {algo.sapo_tau_neg} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.sapo_tau_pos", "algo.policy_loss",
     kConditions_algo_sapo_tau_pos_and_algo_policy_loss, 2,
     "algo.sapo_tau_pos = {algo.sapo_tau_pos} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.value_clip", "algo.advantage",
     kConditions_algo_value_clip_and_algo_advantage, 2,
     "algo.value_clip = {algo.value_clip} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.whiten", "algo.distill.rewards",
     kConditions_algo_whiten_and_algo_distill_rewards, 2,
     "algo.whiten = {algo.whiten} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.whiten", "algo.objective",
     kConditions_algo_whiten_and_algo_objective, 3,
     "algo.whiten = {algo.whiten} has no effect while algo.objective is {algo.objective}"},
    {"buffer.num_storage_units", "buffer.store_path",
     kConditions_buffer_num_storage_units_and_buffer_store_path, 3,
     "buffer.num_storage_units = {buffer.num_storage_units} has no effect while "
     "buffer.store_path is {buffer.store_path}"},
    {"buffer.spill_path", "buffer.store_path",
     kConditions_buffer_spill_path_and_buffer_store_path, 2,
     "buffer.spill_path is {buffer.spill_path} and buffer.store_path is {buffer.store_path}, but "
     "groups wait in one of them"},
    {"checkpoint.async", "checkpoint.dir",
     kConditions_checkpoint_async_and_checkpoint_dir, 2,
     "checkpoint.async = {checkpoint.async} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.contents", "checkpoint.dir",
     kConditions_checkpoint_contents_and_checkpoint_dir, 2,
     "checkpoint.contents = {checkpoint.contents} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.every_steps", "checkpoint.dir",
     kConditions_checkpoint_every_steps_and_checkpoint_dir, 2,
     "checkpoint.every_steps = {checkpoint.every_steps} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.keep_best", "checkpoint.keep_last",
     kConditions_checkpoint_keep_best_and_checkpoint_keep_last, 2,
     "checkpoint.keep_best = {checkpoint.keep_best} has no effect while checkpoint.keep_last is "
     "{checkpoint.keep_last}"},
    {"checkpoint.keep_best", "checkpoint.metric",
     kConditions_checkpoint_keep_best_and_checkpoint_metric, 2,
     "checkpoint.keep_best = {checkpoint.keep_best} has no effect while checkpoint.metric is "
     "{checkpoint.metric}"},
    {"checkpoint.keep_last", "checkpoint.dir",
     kConditions_checkpoint_keep_last_and_checkpoint_dir, 2,
     "checkpoint.keep_last = {checkpoint.keep_last} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.metric", "checkpoint.dir",
     kConditions_checkpoint_metric_and_checkpoint_dir, 2,
     "checkpoint.metric = {checkpoint.metric} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.metric_goal", "checkpoint.keep_best",
     kConditions_checkpoint_metric_goal_and_checkpoint_keep_best, 2,
     "checkpoint.metric_goal = {checkpoint.metric_goal} has no effect while checkpoint.keep_best "
     "is {checkpoint.keep_best}"},
    {"checkpoint.on_failure", "checkpoint.dir",
     kConditions_checkpoint_on_failure_and_checkpoint_dir, 2,
     "checkpoint.on_failure = {checkpoint.on_failure} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.resume", "checkpoint.dir",
     kConditions_checkpoint_resume_and_checkpoint_dir, 2,
     "checkpoint.resume = auto needs checkpoint.dir, which is empty"},
    {"comm.backend", "comm.rendezvous",
     kConditions_comm_backend_and_comm_rendezvous, 2,
     "comm.backend = nccl needs comm.rendezvous, where its processes meet"},
    {"comm.backend", "comm.rendezvous",
     kConditions_comm_backend_and_comm_rendezvous_2, 2,
     "comm.backend = gloo needs comm.rendezvous, where its processes meet"},
    {"comm.backend", "parallel.data",
     kConditions_comm_backend_and_parallel_data, 5,
     "comm.backend = {comm.backend} has no effect while parallel.data is {parallel.data}"},
    {"comm.backend", "runtime.device",
     kConditions_comm_backend_and_runtime_device, 2,
     "comm.backend is nccl, whose ranks exchange values of GPUs, but runtime.device is "
     "{runtime.device}"},
    {"comm.memory_check", "parallel.data",
     kConditions_comm_memory_check_and_parallel_data, 5,
     "comm.memory_check = {comm.memory_check} has no effect while parallel.data is "
     "{parallel.data}"},
    {"comm.memory_check_threshold_bytes", "comm.memory_check",
     kConditions_comm_memory_check_threshold_bytes_and_comm_memory_check, 2,
     "comm.memory_check_threshold_bytes = {comm.memory_check_threshold_bytes} has no effect "
     "while comm.memory_check is {comm.memory_check}"},
    {"comm.rank", "comm.backend",
     kConditions_comm_rank_and_comm_backend, 3,
     "comm.rank = {comm.rank} has no effect while comm.backend is {comm.backend}"},
    {"comm.reduction_order", "comm.backend",
     kConditions_comm_reduction_order_and_comm_backend, 2,
     "comm.reduction_order = {comm.reduction_order} has no effect while comm.backend is "
     "{comm.backend}"},
    {"comm.reduction_order", "parallel.data",
     kConditions_comm_reduction_order_and_parallel_data, 3,
     "comm.reduction_order = {comm.reduction_order} has no effect while parallel.data is "
     "{parallel.data}"},
    {"comm.reduction_order", "parallel.tensor",
     kConditions_comm_reduction_order_and_parallel_tensor, 2,
     "comm.reduction_order is backend, but the parallel.tensor = {parallel.tensor} ranks that "
     "divide a model all have its norms, whose gradients they would add up in groups with orders "
     "of their own"},
    {"comm.rendezvous", "comm.backend",
     kConditions_comm_rendezvous_and_comm_backend, 3,
     "comm.rendezvous = {comm.rendezvous} has no effect while comm.backend is {comm.backend}"},
    {"comm.timeout_ns", "parallel.data",
     kConditions_comm_timeout_ns_and_parallel_data, 5,
     "comm.timeout_ns = {comm.timeout_ns} has no effect while parallel.data, parallel.tensor, "
     "parallel.context and parallel.pipeline are 1"},
    {"critic.forward_max_tokens_per_device", "algo.advantage",
     kConditions_critic_forward_max_tokens_per_device_and_algo_advantage, 2,
     "critic.forward_max_tokens_per_device = {critic.forward_max_tokens_per_device} has no "
     "effect while algo.advantage is {algo.advantage}"},
    {"critic.max_tokens_per_device", "algo.advantage",
     kConditions_critic_max_tokens_per_device_and_algo_advantage, 2,
     "critic.max_tokens_per_device = {critic.max_tokens_per_device} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"critic.max_tokens_per_device", "trainer.dynamic_batching",
     kConditions_critic_max_tokens_per_device_and_trainer_dynamic_batching, 2,
     "critic.max_tokens_per_device = {critic.max_tokens_per_device} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"critic.micro_batch_size", "algo.advantage",
     kConditions_critic_micro_batch_size_and_algo_advantage, 2,
     "critic.micro_batch_size = {critic.micro_batch_size} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"critic.micro_batch_size", "trainer.dynamic_batching",
     kConditions_critic_micro_batch_size_and_trainer_dynamic_batching, 2,
     "critic.micro_batch_size = {critic.micro_batch_size} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"critic.optimizer.grad_clip", "algo.advantage",
     kConditions_critic_optimizer_grad_clip_and_algo_advantage, 2,
     "critic.optimizer.grad_clip = {critic.optimizer.grad_clip} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"critic.optimizer.lr", "algo.advantage",
     kConditions_critic_optimizer_lr_and_algo_advantage, 2,
     "critic.optimizer.lr = {critic.optimizer.lr} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"critic.optimizer.weight_decay", "algo.advantage",
     kConditions_critic_optimizer_weight_decay_and_algo_advantage, 2,
     "critic.optimizer.weight_decay = {critic.optimizer.weight_decay} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"critic.recompute_granularity", "algo.advantage",
     kConditions_critic_recompute_granularity_and_algo_advantage, 2,
     "critic.recompute_granularity = {critic.recompute_granularity} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"critic.recompute_granularity", "trainer.recompute_method",
     kConditions_critic_recompute_granularity_and_trainer_recompute_method, 2,
     "critic.recompute_granularity = full needs trainer.recompute_method, which is none"},
    {"critic.recompute_granularity", "trainer.recompute_num_layers",
     kConditions_critic_recompute_granularity_and_trainer_recompute_num_layers, 2,
     "critic.recompute_granularity = full needs trainer.recompute_num_layers, which is 0"},
    {"data.preprocess_workers", "data.path",
     kConditions_data_preprocess_workers_and_data_path, 2,
     "data.preprocess_workers = {data.preprocess_workers} has no effect while data.path is "
     "{data.path}"},
    {"data.shuffle", "data.path",
     kConditions_data_shuffle_and_data_path, 2,
     "data.shuffle = {data.shuffle} has no effect while data.path is {data.path}"},
    {"data.shuffle_seed", "data.path",
     kConditions_data_shuffle_seed_and_data_path, 2,
     "data.shuffle_seed = {data.shuffle_seed} has no effect while data.path is {data.path}"},
    {"data.shuffle_seed", "data.shuffle",
     kConditions_data_shuffle_seed_and_data_shuffle, 2,
     "data.shuffle_seed = {data.shuffle_seed} has no effect while data.shuffle is {data.shuffle}"},
    {"data.streaming", "data.path",
     kConditions_data_streaming_and_data_path, 2,
     "data.streaming = {data.streaming} has no effect while data.path is {data.path}"},
    {"data.streaming_buffer_size", "data.path",
     kConditions_data_streaming_buffer_size_and_data_path, 2,
     "data.streaming_buffer_size = {data.streaming_buffer_size} has no effect while data.path is "
     "{data.path}"},
    {"data.streaming_buffer_size", "data.streaming",
     kConditions_data_streaming_buffer_size_and_data_streaming, 2,
     "data.streaming_buffer_size = {data.streaming_buffer_size} has no effect while "
     "data.streaming is {data.streaming}"},
    {"engine.chunked_prefill", "engine.max_num_batched_tokens",
     kConditions_engine_chunked_prefill_and_engine_max_num_batched_tokens, 2,
     "engine.chunked_prefill is false, so a whole sequence must fit into one forward: "
     "engine.max_num_batched_tokens is {engine.max_num_batched_tokens} but engine.max_model_len "
     "is {engine.max_model_len}"},
    {"engine.graph_batch_sizes", "runtime.device",
     kConditions_engine_graph_batch_sizes_and_runtime_device, 2,
     "engine.graph_batch_sizes = {engine.graph_batch_sizes} has no effect while runtime.device "
     "is {runtime.device}"},
    {"engine.graph_batch_sizes", "runtime.device",
     kConditions_engine_graph_batch_sizes_and_runtime_device_2, 2,
     "engine.graph_batch_sizes asks for graphs, but this build captures none on runtime.device = "
     "cuda"},
    {"engine.keep_kv_on_publish", "engine.preemption",
     kConditions_engine_keep_kv_on_publish_and_engine_preemption, 2,
     "engine.keep_kv_on_publish needs engine.preemption = swap: a preempted sample would lose "
     "its KV"},
    {"engine.keep_kv_on_publish", "model.compute_copies",
     kConditions_engine_keep_kv_on_publish_and_model_compute_copies, 2,
     "engine.keep_kv_on_publish = {engine.keep_kv_on_publish} has no effect while "
     "model.compute_copies is {model.compute_copies}"},
    {"engine.max_num_seqs", "engine.max_num_batched_tokens",
     kConditions_engine_max_num_seqs_and_engine_max_num_batched_tokens, 1,
     "engine.max_num_seqs is {engine.max_num_seqs} but must not exceed "
     "engine.max_num_batched_tokens, which is {engine.max_num_batched_tokens}"},
    {"engine.memory_fraction", "runtime.memory_budget_bytes",
     kConditions_engine_memory_fraction_and_runtime_memory_budget_bytes, 2,
     "engine.memory_fraction = {engine.memory_fraction} has no effect while "
     "runtime.memory_budget_bytes is {runtime.memory_budget_bytes}"},
    {"engine.preemption", "engine.swap_space_bytes",
     kConditions_engine_preemption_and_engine_swap_space_bytes, 2,
     "engine.preemption = swap needs engine.swap_space_bytes, which is 0"},
    {"engine.prefill_chunk", "engine.chunked_prefill",
     kConditions_engine_prefill_chunk_and_engine_chunked_prefill, 2,
     "engine.prefill_chunk = {engine.prefill_chunk} has no effect while engine.chunked_prefill "
     "is {engine.chunked_prefill}"},
    {"engine.prefill_chunk", "engine.max_num_batched_tokens",
     kConditions_engine_prefill_chunk_and_engine_max_num_batched_tokens, 1,
     "engine.prefill_chunk is {engine.prefill_chunk} but a forward has at most "
     "engine.max_num_batched_tokens = {engine.max_num_batched_tokens}"},
    {"engine.swap_space_bytes", "engine.preemption",
     kConditions_engine_swap_space_bytes_and_engine_preemption, 2,
     "engine.swap_space_bytes = {engine.swap_space_bytes} has no effect while engine.preemption "
     "is {engine.preemption}"},
    {"engine.tensor_parallel_size", "parallel.tensor",
     kConditions_engine_tensor_parallel_size_and_parallel_tensor, 2,
     "engine.tensor_parallel_size is {engine.tensor_parallel_size}, but a model is divided among "
     "parallel.tensor = {parallel.tensor} ranks; engine.num_engines makes replicas within a rank"},
    {"engine.tensor_parallel_size", "parallel.tensor",
     kConditions_engine_tensor_parallel_size_and_parallel_tensor_2, 3,
     "engine.tensor_parallel_size is {engine.tensor_parallel_size}, but in this build an engine "
     "has all parts of a model (1) or those of a rank of parallel.tensor = {parallel.tensor} (0)"},
    {"engine.tensor_parallel_size", "pipeline.role",
     kConditions_engine_tensor_parallel_size_and_pipeline_role, 3,
     "engine.tensor_parallel_size = 1 gives each of the parallel.tensor = {parallel.tensor} "
     "ranks an engine of its own, but those of pipeline.role = rollout generate together: start "
     "several pipelines of this role instead"},
    {"engine.tensor_parallel_size", "pipeline.role",
     kConditions_engine_tensor_parallel_size_and_pipeline_role_2, 3,
     "engine.tensor_parallel_size = 1 gives each of the parallel.pipeline = {parallel.pipeline} "
     "stages an engine of its own, but those of pipeline.role = rollout generate together: start "
     "several pipelines of this role instead"},
    {"eval.every_steps", "eval.path",
     kConditions_eval_every_steps_and_eval_path, 2,
     "eval.every_steps = {eval.every_steps} has no effect while eval.path is {eval.path}"},
    {"eval.max_new_tokens", "algo.objective",
     kConditions_eval_max_new_tokens_and_algo_objective, 2,
     "eval.max_new_tokens = {eval.max_new_tokens} has no effect while algo.objective is "
     "{algo.objective}"},
    {"eval.max_new_tokens", "engine.max_model_len",
     kConditions_eval_max_new_tokens_and_engine_max_model_len, 2,
     "eval.max_new_tokens is {eval.max_new_tokens} and leaves no room for a prompt: "
     "engine.max_model_len is {engine.max_model_len}"},
    {"eval.max_new_tokens", "eval.path",
     kConditions_eval_max_new_tokens_and_eval_path, 2,
     "eval.max_new_tokens = {eval.max_new_tokens} has no effect while eval.path is {eval.path}"},
    {"eval.max_prompts", "eval.path",
     kConditions_eval_max_prompts_and_eval_path, 2,
     "eval.max_prompts = {eval.max_prompts} has no effect while eval.path is {eval.path}"},
    {"eval.samples_per_prompt", "eval.temperature",
     kConditions_eval_samples_per_prompt_and_eval_temperature, 2,
     "eval.samples_per_prompt is {eval.samples_per_prompt}, but at eval.temperature 0 all "
     "responses to a prompt are equal"},
    {"eval.temperature", "algo.objective",
     kConditions_eval_temperature_and_algo_objective, 2,
     "eval.temperature = {eval.temperature} has no effect while algo.objective is "
     "{algo.objective}"},
    {"eval.temperature", "eval.path",
     kConditions_eval_temperature_and_eval_path, 2,
     "eval.temperature = {eval.temperature} has no effect while eval.path is {eval.path}"},
    {"eval.top_p", "eval.temperature",
     kConditions_eval_top_p_and_eval_temperature, 2,
     "eval.top_p = {eval.top_p} has no effect while eval.temperature is {eval.temperature}"},
    {"eval.weights", "eval.path",
     kConditions_eval_weights_and_eval_path, 2,
     "eval.weights = {eval.weights} has no effect while eval.path is {eval.path}"},
    {"eval.weights", "optimizer.ema",
     kConditions_eval_weights_and_optimizer_ema, 2,
     "eval.weights = {eval.weights} has no effect while optimizer.ema is {optimizer.ema}"},
    {"metrics.eval_jsonl", "eval.path",
     kConditions_metrics_eval_jsonl_and_eval_path, 2,
     "metrics.eval_jsonl = {metrics.eval_jsonl} has no effect while eval.path is {eval.path}"},
    {"metrics.interval_steps", "metrics.jsonl",
     kConditions_metrics_interval_steps_and_metrics_jsonl, 2,
     "metrics.interval_steps = {metrics.interval_steps} has no effect while metrics.jsonl is "
     "{metrics.jsonl}"},
    {"metrics.max_samples", "eval.path",
     kConditions_metrics_max_samples_and_eval_path, 2,
     "metrics.max_samples = {metrics.max_samples} has no effect while eval.path is {eval.path}"},
    {"metrics.max_samples", "metrics.samples",
     kConditions_metrics_max_samples_and_metrics_samples, 2,
     "metrics.max_samples = {metrics.max_samples} has no effect while metrics.samples is "
     "{metrics.samples}"},
    {"metrics.samples", "algo.objective",
     kConditions_metrics_samples_and_algo_objective, 5,
     "metrics.samples = {metrics.samples} has no effect while algo.objective is {algo.objective}"},
    {"metrics.samples", "algo.objective",
     kConditions_metrics_samples_and_algo_objective_2, 2,
     "metrics.samples = {metrics.samples} has no effect while algo.objective is {algo.objective}"},
    {"metrics.tensorboard", "metrics.jsonl",
     kConditions_metrics_tensorboard_and_metrics_jsonl, 2,
     "metrics.tensorboard = {metrics.tensorboard} has no effect while metrics.jsonl is "
     "{metrics.jsonl}"},
    {"model.compute_copies", "algo.objective",
     kConditions_model_compute_copies_and_algo_objective, 2,
     "model.compute_copies = {model.compute_copies} has no effect while algo.objective is "
     "{algo.objective}"},
    {"model.critic_path", "algo.advantage",
     kConditions_model_critic_path_and_algo_advantage, 2,
     "model.critic_path = {model.critic_path} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"model.reference_path", "algo.kl.where",
     kConditions_model_reference_path_and_algo_kl_where, 3,
     "model.reference_path = {model.reference_path} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"model.reward_path", "algo.gdpo_weights",
     kConditions_model_reward_path_and_algo_gdpo_weights, 2,
     "algo.gdpo_weights needs kinds of reward, but the reward model of model.reward_path gives "
     "one number"},
    {"model.reward_path", "algo.objective",
     kConditions_model_reward_path_and_algo_objective, 2,
     "model.reward_path = {model.reward_path} has no effect while algo.objective is "
     "{algo.objective}"},
    {"model.teacher_path", "algo.objective",
     kConditions_model_teacher_path_and_algo_objective, 2,
     "model.teacher_path = {model.teacher_path} has no effect while algo.objective is "
     "{algo.objective}"},
    {"model.train_only", "model.freeze",
     kConditions_model_train_only_and_model_freeze, 2,
     "model.train_only = {model.train_only} has no effect while model.freeze is {model.freeze}"},
    {"optimizer.cpu_offload", "optimizer.name",
     kConditions_optimizer_cpu_offload_and_optimizer_name, 2,
     "optimizer.cpu_offload = true takes steps on the host, but optimizer.name = muon multiplies "
     "whole matrices, which stay on the device"},
    {"optimizer.cpu_offload_fraction", "optimizer.cpu_offload",
     kConditions_optimizer_cpu_offload_fraction_and_optimizer_cpu_offload, 2,
     "optimizer.cpu_offload_fraction = {optimizer.cpu_offload_fraction} has no effect while "
     "optimizer.cpu_offload is {optimizer.cpu_offload}"},
    {"optimizer.muon_momentum", "optimizer.name",
     kConditions_optimizer_muon_momentum_and_optimizer_name, 2,
     "optimizer.muon_momentum = {optimizer.muon_momentum} has no effect while optimizer.name is "
     "{optimizer.name}"},
    {"optimizer.muon_ns_steps", "optimizer.name",
     kConditions_optimizer_muon_ns_steps_and_optimizer_name, 2,
     "optimizer.muon_ns_steps = {optimizer.muon_ns_steps} has no effect while optimizer.name is "
     "{optimizer.name}"},
    {"optimizer.overlap_d2h_h2d", "optimizer.cpu_offload",
     kConditions_optimizer_overlap_d2h_h2d_and_optimizer_cpu_offload, 2,
     "optimizer.overlap_d2h_h2d = {optimizer.overlap_d2h_h2d} has no effect while "
     "optimizer.cpu_offload is {optimizer.cpu_offload}"},
    {"optimizer.state_dtype", "optimizer.name",
     kConditions_optimizer_state_dtype_and_optimizer_name, 2,
     "optimizer.state_dtype = {optimizer.state_dtype} is a form of AdamW's moments, but "
     "optimizer.name = muon keeps its momentum in fp32"},
    {"parallel.context", "pipeline.mode",
     kConditions_parallel_context_and_pipeline_mode, 3,
     "parallel.context is {parallel.context}, but with pipeline.mode = {pipeline.mode} ranks "
     "that generate while they train would take different batches; a pipeline of pipeline.role = "
     "train has ranks of its own"},
    {"parallel.context_kind", "parallel.context",
     kConditions_parallel_context_kind_and_parallel_context, 2,
     "parallel.context_kind = {parallel.context_kind} has no effect while parallel.context is "
     "{parallel.context}"},
    {"parallel.context_zigzag", "parallel.context",
     kConditions_parallel_context_zigzag_and_parallel_context, 2,
     "parallel.context_zigzag = {parallel.context_zigzag} has no effect while parallel.context "
     "is {parallel.context}"},
    {"parallel.context_zigzag", "parallel.context_kind",
     kConditions_parallel_context_zigzag_and_parallel_context_kind, 2,
     "parallel.context_zigzag has no use with parallel.context_kind = ulysses, which divides "
     "attention by heads"},
    {"parallel.data", "pipeline.mode",
     kConditions_parallel_data_and_pipeline_mode, 3,
     "parallel.data is {parallel.data}, but with pipeline.mode = {pipeline.mode} ranks that "
     "generate while they train would take different batches; a pipeline of pipeline.role = "
     "train has ranks of its own"},
    {"parallel.devices.critic", "pipeline.colocate",
     kConditions_parallel_devices_critic_and_pipeline_colocate, 2,
     "parallel.devices.critic = {parallel.devices.critic} has no effect while pipeline.colocate "
     "is {pipeline.colocate}"},
    {"parallel.devices.engine", "pipeline.colocate",
     kConditions_parallel_devices_engine_and_pipeline_colocate, 2,
     "parallel.devices.engine = {parallel.devices.engine} has no effect while pipeline.colocate "
     "is {pipeline.colocate}"},
    {"parallel.devices.reference", "pipeline.colocate",
     kConditions_parallel_devices_reference_and_pipeline_colocate, 2,
     "parallel.devices.reference = {parallel.devices.reference} has no effect while "
     "pipeline.colocate is {pipeline.colocate}"},
    {"parallel.devices.reward", "pipeline.colocate",
     kConditions_parallel_devices_reward_and_pipeline_colocate, 2,
     "parallel.devices.reward = {parallel.devices.reward} has no effect while pipeline.colocate "
     "is {pipeline.colocate}"},
    {"parallel.devices.trainer", "pipeline.colocate",
     kConditions_parallel_devices_trainer_and_pipeline_colocate, 2,
     "parallel.devices.trainer = {parallel.devices.trainer} has no effect while "
     "pipeline.colocate is {pipeline.colocate}"},
    {"parallel.overlap_grad_reduce", "parallel.data",
     kConditions_parallel_overlap_grad_reduce_and_parallel_data, 3,
     "parallel.overlap_grad_reduce = {parallel.overlap_grad_reduce} has no effect while "
     "parallel.data is {parallel.data}"},
    {"parallel.overlap_grad_reduce", "parallel.pipeline",
     kConditions_parallel_overlap_grad_reduce_and_parallel_pipeline, 2,
     "parallel.overlap_grad_reduce is true, but each of the parallel.pipeline = "
     "{parallel.pipeline} stages has backwards of other micro-batches to run until the minibatch "
     "ends"},
    {"parallel.overlap_param_gather", "model.compute_copies",
     kConditions_parallel_overlap_param_gather_and_model_compute_copies, 2,
     "parallel.overlap_param_gather is true, so weights are packed as they come, but with "
     "model.compute_copies = {model.compute_copies} engines may still read the copy that is "
     "packed"},
    {"parallel.overlap_param_gather", "parallel.zero_stage",
     kConditions_parallel_overlap_param_gather_and_parallel_zero_stage, 2,
     "parallel.overlap_param_gather = {parallel.overlap_param_gather} has no effect while "
     "parallel.zero_stage is {parallel.zero_stage}"},
    {"parallel.pipeline", "algo.advantage",
     kConditions_parallel_pipeline_and_algo_advantage, 2,
     "parallel.pipeline is {parallel.pipeline}, but the critic of algo.advantage = gae has no "
     "stages in this build"},
    {"parallel.pipeline", "algo.objective",
     kConditions_parallel_pipeline_and_algo_objective, 2,
     "parallel.pipeline is {parallel.pipeline}, but a model of algo.objective = reward_model has "
     "no stages in this build"},
    {"parallel.pipeline", "algo.objective",
     kConditions_parallel_pipeline_and_algo_objective_2, 2,
     "parallel.pipeline is {parallel.pipeline}, but the teacher of algo.objective = distill has "
     "no stages in this build"},
    {"parallel.pipeline", "engine.preemption",
     kConditions_parallel_pipeline_and_engine_preemption, 2,
     "engine.preemption = swap has engine.swap_space_bytes for as many blocks as they hold, "
     "which are not the same number on each stage of parallel.pipeline = {parallel.pipeline}"},
    {"parallel.pipeline", "engine.thread",
     kConditions_parallel_pipeline_and_engine_thread, 2,
     "parallel.pipeline is {parallel.pipeline}, but with engine.thread = true the engines of "
     "stages would not step together"},
    {"parallel.pipeline", "model.compute_copies",
     kConditions_parallel_pipeline_and_model_compute_copies, 2,
     "parallel.pipeline is {parallel.pipeline}, but with model.compute_copies = "
     "{model.compute_copies} each stage would choose for itself whether it generates or trains "
     "next; pipelines of pipeline.role = rollout and train do one of the two"},
    {"parallel.pipeline", "model.freeze",
     kConditions_parallel_pipeline_and_model_freeze, 2,
     "parallel.pipeline is {parallel.pipeline}, but the stages of this build train all that they "
     "have, and model.freeze is {model.freeze}"},
    {"parallel.pipeline", "model.train_only",
     kConditions_parallel_pipeline_and_model_train_only, 2,
     "parallel.pipeline is {parallel.pipeline}, but the stages of this build train all that they "
     "have, and model.train_only is {model.train_only}"},
    {"parallel.pipeline", "optimizer.name",
     kConditions_parallel_pipeline_and_optimizer_name, 2,
     "parallel.pipeline is {parallel.pipeline}, but checkpoints of stages have the states of "
     "AdamW in this build, and optimizer.name is muon"},
    {"parallel.pipeline", "optimizer.state_dtype",
     kConditions_parallel_pipeline_and_optimizer_state_dtype, 2,
     "optimizer.state_dtype is {optimizer.state_dtype}, but its rounding follows from the place "
     "of a parameter among all, which no stage of parallel.pipeline = {parallel.pipeline} has"},
    {"parallel.pipeline", "trainer.activation_offload",
     kConditions_parallel_pipeline_and_trainer_activation_offload, 2,
     "trainer.activation_offload has a place in host memory for one micro-batch, but a stage of "
     "parallel.pipeline = {parallel.pipeline} holds several"},
    {"parallel.pipeline", "trainer.grad_dtype",
     kConditions_parallel_pipeline_and_trainer_grad_dtype, 2,
     "trainer.grad_dtype is {trainer.grad_dtype}, but its rounding follows from the place of a "
     "parameter among all, which no stage of parallel.pipeline = {parallel.pipeline} has"},
    {"parallel.pipeline_first_layers", "parallel.pipeline",
     kConditions_parallel_pipeline_first_layers_and_parallel_pipeline, 2,
     "parallel.pipeline_first_layers = {parallel.pipeline_first_layers} has no effect while "
     "parallel.pipeline is {parallel.pipeline}"},
    {"parallel.pipeline_last_layers", "parallel.pipeline",
     kConditions_parallel_pipeline_last_layers_and_parallel_pipeline, 2,
     "parallel.pipeline_last_layers = {parallel.pipeline_last_layers} has no effect while "
     "parallel.pipeline is {parallel.pipeline}"},
    {"parallel.reduction_parts", "optimizer.name",
     kConditions_parallel_reduction_parts_and_optimizer_name, 2,
     "parallel.reduction_parts is {parallel.reduction_parts}, but optimizer.name = muon needs "
     "whole matrices"},
    {"parallel.sequence_parallel", "parallel.context",
     kConditions_parallel_sequence_parallel_and_parallel_context, 2,
     "parallel.sequence_parallel = true, but in this build the rows of a rank of "
     "parallel.context = {parallel.context} are not divided once more"},
    {"parallel.sequence_parallel", "parallel.pipeline",
     kConditions_parallel_sequence_parallel_and_parallel_pipeline, 2,
     "parallel.sequence_parallel = true, but in this build the stages of parallel.pipeline = "
     "{parallel.pipeline} send each other all rows"},
    {"parallel.sequence_parallel", "parallel.tensor",
     kConditions_parallel_sequence_parallel_and_parallel_tensor, 2,
     "parallel.sequence_parallel = {parallel.sequence_parallel} has no effect while "
     "parallel.tensor is {parallel.tensor}"},
    {"parallel.tensor", "engine.thread",
     kConditions_parallel_tensor_and_engine_thread, 2,
     "parallel.tensor is {parallel.tensor}, but with engine.thread = true the engines of ranks "
     "that divide a model would not step together"},
    {"parallel.tensor", "model.compute_copies",
     kConditions_parallel_tensor_and_model_compute_copies, 2,
     "parallel.tensor is {parallel.tensor}, but with model.compute_copies = "
     "{model.compute_copies} each rank would choose for itself whether it generates or trains "
     "next; pipelines of pipeline.role = rollout and train do one of the two"},
    {"parallel.zero_group", "comm.backend",
     kConditions_parallel_zero_group_and_comm_backend, 2,
     "parallel.zero_group is {parallel.zero_group}, but in this build ranks of comm.backend = "
     "nccl add up in one group of all; gloo adds over groups"},
    {"parallel.zero_group", "parallel.zero_stage",
     kConditions_parallel_zero_group_and_parallel_zero_stage, 2,
     "parallel.zero_group = {parallel.zero_group} has no effect while parallel.zero_stage is "
     "{parallel.zero_stage}"},
    {"parallel.zero_group", "parallel.zero_stage",
     kConditions_parallel_zero_group_and_parallel_zero_stage_2, 2,
     "parallel.zero_group is 1, so each rank would have everything, but parallel.zero_stage = "
     "{parallel.zero_stage} divides it; set parallel.zero_stage to 0 for that"},
    {"parallel.zero_stage", "eval.weights",
     kConditions_parallel_zero_stage_and_eval_weights, 2,
     "eval.weights = ema needs all averages on rank 0, but with parallel.zero_stage = "
     "{parallel.zero_stage} it has a part of them"},
    {"parallel.zero_stage", "model.compute_copies",
     kConditions_parallel_zero_stage_and_model_compute_copies, 2,
     "parallel.zero_stage is 3, so all ranks pack a version together, but with "
     "model.compute_copies = {model.compute_copies} each may do so only once its own engines "
     "have left the copy"},
    {"parallel.zero_stage", "parallel.data",
     kConditions_parallel_zero_stage_and_parallel_data, 3,
     "parallel.zero_stage = {parallel.zero_stage} has no effect while parallel.data is "
     "{parallel.data}"},
    {"parallel.zero_stage", "reference.weights",
     kConditions_parallel_zero_stage_and_reference_weights, 2,
     "reference.weights = ema needs all averages on each rank, but with parallel.zero_stage = "
     "{parallel.zero_stage} it has a part of them"},
    {"parallel.zero_stage", "trainer.weights_backup",
     kConditions_parallel_zero_stage_and_trainer_weights_backup, 2,
     "parallel.zero_stage is 3, so all ranks pack weights together, but with "
     "trainer.weights_backup = true a rank would pack those that it restores alone"},
    {"pipeline.colocate", "runtime.device",
     kConditions_pipeline_colocate_and_runtime_device, 2,
     "pipeline.colocate = {pipeline.colocate} gives roles CPUs of their own, but in this build "
     "the roles of a run with runtime.device = cpu compute in turn on the same ones: only all "
     "works, and pipeline.rollout_turns and pipeline.train_turns divide the time"},
    {"pipeline.colocate", "runtime.device",
     kConditions_pipeline_colocate_and_runtime_device_2, 2,
     "pipeline.colocate = {pipeline.colocate} gives roles GPUs of their own, but in this build "
     "the roles of a run with runtime.device = cuda share one: only all works"},
    {"pipeline.discard_zero_advantage", "algo.advantage",
     kConditions_pipeline_discard_zero_advantage_and_algo_advantage, 9,
     "pipeline.discard_zero_advantage = {pipeline.discard_zero_advantage} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"pipeline.discard_zero_advantage", "algo.objective",
     kConditions_pipeline_discard_zero_advantage_and_algo_objective, 3,
     "pipeline.discard_zero_advantage = {pipeline.discard_zero_advantage} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.discard_zero_advantage", "algo.objective",
     kConditions_pipeline_discard_zero_advantage_and_algo_objective_2, 2,
     "pipeline.discard_zero_advantage drops groups of equal rewards, but with algo.objective = "
     "distill their tokens learn from the teacher"},
    {"pipeline.filter", "algo.objective",
     kConditions_pipeline_filter_and_algo_objective, 3,
     "pipeline.filter = {pipeline.filter} has no effect while algo.objective is {algo.objective}"},
    {"pipeline.filter_high", "pipeline.filter",
     kConditions_pipeline_filter_high_and_pipeline_filter, 2,
     "pipeline.filter_high = {pipeline.filter_high} has no effect while pipeline.filter is "
     "{pipeline.filter}"},
    {"pipeline.filter_low", "pipeline.filter",
     kConditions_pipeline_filter_low_and_pipeline_filter, 2,
     "pipeline.filter_low = {pipeline.filter_low} has no effect while pipeline.filter is "
     "{pipeline.filter}"},
    {"pipeline.filter_low", "pipeline.filter_high",
     kConditions_pipeline_filter_low_and_pipeline_filter_high, 1,
     "pipeline.filter_low is {pipeline.filter_low} but pipeline.filter_high is "
     "{pipeline.filter_high}"},
    {"pipeline.filter_max_rounds", "pipeline.filter",
     kConditions_pipeline_filter_max_rounds_and_pipeline_filter, 2,
     "pipeline.filter_max_rounds = {pipeline.filter_max_rounds} has no effect while "
     "pipeline.filter is {pipeline.filter}"},
    {"pipeline.filter_max_rounds", "pipeline.mode",
     kConditions_pipeline_filter_max_rounds_and_pipeline_mode, 2,
     "pipeline.filter_max_rounds = {pipeline.filter_max_rounds} has no effect while "
     "pipeline.mode is {pipeline.mode}"},
    {"pipeline.filter_spread", "pipeline.filter",
     kConditions_pipeline_filter_spread_and_pipeline_filter, 2,
     "pipeline.filter_spread = {pipeline.filter_spread} has no effect while pipeline.filter is "
     "{pipeline.filter}"},
    {"pipeline.free_lane_after_generation", "pipeline.max_concurrent_prompts_per_engine",
     kConditions_pipeline_free_lane_after_generation_and_pipeline_max_concurrent_prompts_per_engine, 2,
     "pipeline.free_lane_after_generation = {pipeline.free_lane_after_generation} has no effect "
     "while pipeline.max_concurrent_prompts_per_engine is "
     "{pipeline.max_concurrent_prompts_per_engine}"},
    {"pipeline.free_lane_after_generation", "pipeline.sample_lanes",
     kConditions_pipeline_free_lane_after_generation_and_pipeline_sample_lanes, 2,
     "pipeline.free_lane_after_generation = false keeps the lane of a sample, but with "
     "pipeline.sample_lanes = group the samples of a group leave theirs together"},
    {"pipeline.mask_off_policy_tokens", "pipeline.partial_rollout",
     kConditions_pipeline_mask_off_policy_tokens_and_pipeline_partial_rollout, 2,
     "pipeline.mask_off_policy_tokens = {pipeline.mask_off_policy_tokens} has no effect while "
     "pipeline.partial_rollout is {pipeline.partial_rollout}"},
    {"pipeline.max_concurrent_prompts_per_engine", "algo.objective",
     kConditions_pipeline_max_concurrent_prompts_per_engine_and_algo_objective, 3,
     "pipeline.max_concurrent_prompts_per_engine = {pipeline.max_concurrent_prompts_per_engine} "
     "has no effect while algo.objective is {algo.objective}"},
    {"pipeline.max_concurrent_prompts_per_engine", "pipeline.turns",
     kConditions_pipeline_max_concurrent_prompts_per_engine_and_pipeline_turns, 2,
     "pipeline.max_concurrent_prompts_per_engine = {pipeline.max_concurrent_prompts_per_engine} "
     "gives lanes to samples of one turn, but pipeline.turns is {pipeline.turns}"},
    {"pipeline.max_off_policy_steps", "pipeline.max_staleness",
     kConditions_pipeline_max_off_policy_steps_and_pipeline_max_staleness, 1,
     "pipeline.max_off_policy_steps is {pipeline.max_off_policy_steps}, but a step waits for "
     "groups before they live through more than pipeline.max_staleness = "
     "{pipeline.max_staleness} publications"},
    {"pipeline.max_off_policy_steps", "pipeline.mode",
     kConditions_pipeline_max_off_policy_steps_and_pipeline_mode, 2,
     "pipeline.max_off_policy_steps = {pipeline.max_off_policy_steps} has no effect while "
     "pipeline.mode is {pipeline.mode}"},
    {"pipeline.max_staleness", "pipeline.mode",
     kConditions_pipeline_max_staleness_and_pipeline_mode, 2,
     "pipeline.max_staleness = {pipeline.max_staleness} has no effect while pipeline.mode is "
     "{pipeline.mode}"},
    {"pipeline.max_turns", "pipeline.turns",
     kConditions_pipeline_max_turns_and_pipeline_turns, 2,
     "pipeline.max_turns = {pipeline.max_turns} has no effect while pipeline.turns is "
     "{pipeline.turns}"},
    {"pipeline.mode", "algo.objective",
     kConditions_pipeline_mode_and_algo_objective, 3,
     "pipeline.mode = {pipeline.mode} has no effect while algo.objective is {algo.objective}"},
    {"pipeline.mode", "checkpoint.dir",
     kConditions_pipeline_mode_and_checkpoint_dir, 4,
     "checkpoint.dir is set, but with pipeline.mode = {pipeline.mode} a run that resumes draws "
     "some prompts again, which a feed cannot: data.path is empty"},
    {"pipeline.mode", "eval.weights",
     kConditions_pipeline_mode_and_eval_weights, 2,
     "eval.weights = ema replaces the weights for the time of an evaluation, but pipeline.mode = "
     "{pipeline.mode} has samples of steps under way then"},
    {"pipeline.mode", "model.compute_copies",
     kConditions_pipeline_mode_and_model_compute_copies, 3,
     "pipeline.mode = {pipeline.mode} generates while it trains, so engines read one copy of the "
     "weights while the other is written, but model.compute_copies is 1"},
    {"pipeline.mode", "pipeline.turns",
     kConditions_pipeline_mode_and_pipeline_turns, 3,
     "pipeline.mode = async with pipeline.turns = {pipeline.turns} needs "
     "pipeline.partial_rollout, because samples that wait for a reply go on after a publication"},
    {"pipeline.mode", "trainer.free_grad_buffers_on_publish",
     kConditions_pipeline_mode_and_trainer_free_grad_buffers_on_publish, 2,
     "trainer.free_grad_buffers_on_publish lends the memory of gradients to rollout, but with "
     "pipeline.mode = {pipeline.mode} both are in use at the same time"},
    {"pipeline.over_sampling_prompts", "pipeline.mode",
     kConditions_pipeline_over_sampling_prompts_and_pipeline_mode, 2,
     "pipeline.over_sampling_prompts = {pipeline.over_sampling_prompts} has no effect while "
     "pipeline.mode is {pipeline.mode}"},
    {"pipeline.over_sampling_prompts", "pipeline.queue_size",
     kConditions_pipeline_over_sampling_prompts_and_pipeline_queue_size, 3,
     "pipeline.over_sampling_prompts = {pipeline.over_sampling_prompts} prompts are drawn for a "
     "later step, but pipeline.queue_size = {pipeline.queue_size} batches are already as many as "
     "pipeline.max_staleness = {pipeline.max_staleness} allows"},
    {"pipeline.overlong_filter", "algo.objective",
     kConditions_pipeline_overlong_filter_and_algo_objective, 3,
     "pipeline.overlong_filter = {pipeline.overlong_filter} has no effect while algo.objective "
     "is {algo.objective}"},
    {"pipeline.partial_rollout", "pipeline.mode",
     kConditions_pipeline_partial_rollout_and_pipeline_mode, 2,
     "pipeline.partial_rollout = {pipeline.partial_rollout} has no effect while pipeline.mode is "
     "{pipeline.mode}"},
    {"pipeline.prompt_prefetch", "data.path",
     kConditions_pipeline_prompt_prefetch_and_data_path, 2,
     "pipeline.prompt_prefetch = {pipeline.prompt_prefetch} has no effect while data.path is "
     "{data.path}"},
    {"pipeline.prompt_prefetch_size", "pipeline.prompt_prefetch",
     kConditions_pipeline_prompt_prefetch_size_and_pipeline_prompt_prefetch, 2,
     "pipeline.prompt_prefetch_size = {pipeline.prompt_prefetch_size} has no effect while "
     "pipeline.prompt_prefetch is {pipeline.prompt_prefetch}"},
    {"pipeline.queue_size", "pipeline.max_staleness",
     kConditions_pipeline_queue_size_and_pipeline_max_staleness, 2,
     "pipeline.queue_size is {pipeline.queue_size} batches, but with pipeline.max_staleness = "
     "{pipeline.max_staleness} no more than that many wait"},
    {"pipeline.queue_size", "pipeline.mode",
     kConditions_pipeline_queue_size_and_pipeline_mode, 2,
     "pipeline.queue_size = {pipeline.queue_size} has no effect while pipeline.mode is "
     "{pipeline.mode}"},
    {"pipeline.record_path", "algo.objective",
     kConditions_pipeline_record_path_and_algo_objective, 3,
     "pipeline.record_path = {pipeline.record_path} has no effect while algo.objective is "
     "{algo.objective}"},
    {"pipeline.record_path", "data.path",
     kConditions_pipeline_record_path_and_data_path, 2,
     "pipeline.record_path names prompts by their rows in data.path, which is empty"},
    {"pipeline.record_path", "parallel.context",
     kConditions_pipeline_record_path_and_parallel_context, 2,
     "pipeline.record_path has the schedule of one rank, but parallel.context is "
     "{parallel.context}"},
    {"pipeline.record_path", "parallel.data",
     kConditions_pipeline_record_path_and_parallel_data, 2,
     "pipeline.record_path has the schedule of one rank, but parallel.data is {parallel.data}"},
    {"pipeline.record_path", "parallel.pipeline",
     kConditions_pipeline_record_path_and_parallel_pipeline, 2,
     "pipeline.record_path has the schedule of one rank, but parallel.pipeline is "
     "{parallel.pipeline}"},
    {"pipeline.record_path", "parallel.tensor",
     kConditions_pipeline_record_path_and_parallel_tensor, 2,
     "pipeline.record_path has the schedule of one rank, but parallel.tensor is {parallel.tensor}"},
    {"pipeline.record_path", "pipeline.replay_path",
     kConditions_pipeline_record_path_and_pipeline_replay_path, 2,
     "pipeline.record_path would have what pipeline.replay_path has"},
    {"pipeline.record_path", "pipeline.turns",
     kConditions_pipeline_record_path_and_pipeline_turns, 2,
     "pipeline.record_path has scores, but no replies to turns, and pipeline.turns is "
     "{pipeline.turns}"},
    {"pipeline.repetition_filter", "algo.objective",
     kConditions_pipeline_repetition_filter_and_algo_objective, 3,
     "pipeline.repetition_filter = {pipeline.repetition_filter} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.repetition_ngram", "pipeline.repetition_filter",
     kConditions_pipeline_repetition_ngram_and_pipeline_repetition_filter, 2,
     "pipeline.repetition_ngram = {pipeline.repetition_ngram} has no effect while "
     "pipeline.repetition_filter is {pipeline.repetition_filter}"},
    {"pipeline.replay_path", "algo.objective",
     kConditions_pipeline_replay_path_and_algo_objective, 3,
     "pipeline.replay_path = {pipeline.replay_path} has no effect while algo.objective is "
     "{algo.objective}"},
    {"pipeline.replay_path", "data.path",
     kConditions_pipeline_replay_path_and_data_path, 2,
     "pipeline.replay_path reads the prompts of the recorded run again, but data.path is empty"},
    {"pipeline.replay_path", "parallel.context",
     kConditions_pipeline_replay_path_and_parallel_context, 2,
     "pipeline.replay_path has the schedule of one rank, but parallel.context is "
     "{parallel.context}"},
    {"pipeline.replay_path", "parallel.data",
     kConditions_pipeline_replay_path_and_parallel_data, 2,
     "pipeline.replay_path has the schedule of one rank, but parallel.data is {parallel.data}"},
    {"pipeline.replay_path", "parallel.pipeline",
     kConditions_pipeline_replay_path_and_parallel_pipeline, 2,
     "pipeline.replay_path has the schedule of one rank, but parallel.pipeline is "
     "{parallel.pipeline}"},
    {"pipeline.replay_path", "parallel.tensor",
     kConditions_pipeline_replay_path_and_parallel_tensor, 2,
     "pipeline.replay_path has the schedule of one rank, but parallel.tensor is {parallel.tensor}"},
    {"pipeline.replay_path", "pipeline.turns",
     kConditions_pipeline_replay_path_and_pipeline_turns, 2,
     "pipeline.replay_path has no replies to turns, but pipeline.turns is {pipeline.turns}"},
    {"pipeline.reply_timeout_ns", "pipeline.turns",
     kConditions_pipeline_reply_timeout_ns_and_pipeline_turns, 2,
     "pipeline.reply_timeout_ns = {pipeline.reply_timeout_ns} has no effect while pipeline.turns "
     "is {pipeline.turns}"},
    {"pipeline.reward_timeout_ns", "algo.objective",
     kConditions_pipeline_reward_timeout_ns_and_algo_objective, 5,
     "pipeline.reward_timeout_ns = {pipeline.reward_timeout_ns} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.reward_timeout_ns", "algo.objective",
     kConditions_pipeline_reward_timeout_ns_and_algo_objective_2, 2,
     "pipeline.reward_timeout_ns = {pipeline.reward_timeout_ns} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.reward_timeout_ns", "model.reward_path",
     kConditions_pipeline_reward_timeout_ns_and_model_reward_path, 2,
     "pipeline.reward_timeout_ns = {pipeline.reward_timeout_ns} has no effect while "
     "model.reward_path is {model.reward_path}"},
    {"pipeline.role", "model.compute_copies",
     kConditions_pipeline_role_and_model_compute_copies, 2,
     "pipeline.role = {pipeline.role} either generates or trains, so model.compute_copies = 2 "
     "has no use"},
    {"pipeline.role", "parallel.context",
     kConditions_pipeline_role_and_parallel_context, 2,
     "pipeline.role = rollout trains on no rows that ranks could divide, but parallel.context is "
     "{parallel.context}"},
    {"pipeline.role", "parallel.data",
     kConditions_pipeline_role_and_parallel_data, 2,
     "pipeline.role = rollout generates with one rank, or with ranks that divide its model, but "
     "parallel.data is {parallel.data}: start several pipelines of this role, each with a "
     "runtime.instance and a runtime.seed of its own"},
    {"pipeline.role", "pipeline.mode",
     kConditions_pipeline_role_and_pipeline_mode, 2,
     "pipeline.role = {pipeline.role} has no effect while pipeline.mode is {pipeline.mode}"},
    {"pipeline.rollout_turns", "pipeline.mode",
     kConditions_pipeline_rollout_turns_and_pipeline_mode, 2,
     "pipeline.rollout_turns = {pipeline.rollout_turns} has no effect while pipeline.mode is "
     "{pipeline.mode}"},
    {"pipeline.sample_lanes", "pipeline.max_concurrent_prompts_per_engine",
     kConditions_pipeline_sample_lanes_and_pipeline_max_concurrent_prompts_per_engine, 2,
     "pipeline.sample_lanes = {pipeline.sample_lanes} has no effect while "
     "pipeline.max_concurrent_prompts_per_engine is {pipeline.max_concurrent_prompts_per_engine}"},
    {"pipeline.samples_per_prompt", "algo.objective",
     kConditions_pipeline_samples_per_prompt_and_algo_objective, 3,
     "pipeline.samples_per_prompt = {pipeline.samples_per_prompt} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.score_events", "algo.objective",
     kConditions_pipeline_score_events_and_algo_objective, 5,
     "pipeline.score_events = {pipeline.score_events} has no effect while algo.objective is "
     "{algo.objective}"},
    {"pipeline.score_events", "algo.objective",
     kConditions_pipeline_score_events_and_algo_objective_2, 2,
     "pipeline.score_events = {pipeline.score_events} has no effect while algo.objective is "
     "{algo.objective}"},
    {"pipeline.score_events", "model.reward_path",
     kConditions_pipeline_score_events_and_model_reward_path, 2,
     "pipeline.score_events = {pipeline.score_events} has no effect while model.reward_path is "
     "{model.reward_path}"},
    {"pipeline.train_turns", "pipeline.mode",
     kConditions_pipeline_train_turns_and_pipeline_mode, 2,
     "pipeline.train_turns = {pipeline.train_turns} has no effect while pipeline.mode is "
     "{pipeline.mode}"},
    {"pipeline.turns", "algo.objective",
     kConditions_pipeline_turns_and_algo_objective, 5,
     "pipeline.turns = {pipeline.turns} has no effect while algo.objective is {algo.objective}"},
    {"pipeline.turns", "algo.objective",
     kConditions_pipeline_turns_and_algo_objective_2, 2,
     "pipeline.turns = {pipeline.turns} has no effect while algo.objective is {algo.objective}"},
    {"pipeline.turns", "sampling.stop",
     kConditions_pipeline_turns_and_sampling_stop, 2,
     "pipeline.turns = stop_string waits for a text of sampling.stop, which is empty"},
    {"pipeline.weights_dir", "pipeline.role",
     kConditions_pipeline_weights_dir_and_pipeline_role, 2,
     "pipeline.weights_dir = {pipeline.weights_dir} has no effect while pipeline.role is "
     "{pipeline.role}"},
    {"profiler.timeline.dir", "profiler.timeline.enable",
     kConditions_profiler_timeline_dir_and_profiler_timeline_enable, 2,
     "profiler.timeline.dir = {profiler.timeline.dir} has no effect while "
     "profiler.timeline.enable is {profiler.timeline.enable}"},
    {"profiler.timeline.enable", "profiler.timeline.dir",
     kConditions_profiler_timeline_enable_and_profiler_timeline_dir, 2,
     "profiler.timeline.enable is true but profiler.timeline.dir is empty"},
    {"reference.forward_max_tokens_per_device", "algo.kl.where",
     kConditions_reference_forward_max_tokens_per_device_and_algo_kl_where, 3,
     "reference.forward_max_tokens_per_device = {reference.forward_max_tokens_per_device} has no "
     "effect while algo.kl.where is {algo.kl.where}"},
    {"reference.micro_batch_size", "algo.kl.where",
     kConditions_reference_micro_batch_size_and_algo_kl_where, 3,
     "reference.micro_batch_size = {reference.micro_batch_size} has no effect while "
     "algo.kl.where is {algo.kl.where}"},
    {"reference.micro_batch_size", "reference.forward_max_tokens_per_device",
     kConditions_reference_micro_batch_size_and_reference_forward_max_tokens_per_device, 2,
     "reference.micro_batch_size = {reference.micro_batch_size} counts the sequences of a "
     "micro-batch, but reference.forward_max_tokens_per_device = "
     "{reference.forward_max_tokens_per_device} its tokens"},
    {"reference.micro_batch_size", "trainer.dynamic_batching",
     kConditions_reference_micro_batch_size_and_trainer_dynamic_batching, 2,
     "reference.micro_batch_size = {reference.micro_batch_size} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"reference.offload", "algo.kl.where",
     kConditions_reference_offload_and_algo_kl_where, 3,
     "reference.offload = {reference.offload} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"reference.weights", "algo.kl.where",
     kConditions_reference_weights_and_algo_kl_where, 3,
     "reference.weights = {reference.weights} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"reference.weights", "model.reference_path",
     kConditions_reference_weights_and_model_reference_path, 2,
     "reference.weights = ema takes the averages of the policy, but model.reference_path names "
     "another model"},
    {"reference.weights", "optimizer.ema",
     kConditions_reference_weights_and_optimizer_ema, 2,
     "reference.weights = {reference.weights} has no effect while optimizer.ema is "
     "{optimizer.ema}"},
    {"reward.forward_max_tokens_per_device", "model.reward_path",
     kConditions_reward_forward_max_tokens_per_device_and_model_reward_path, 2,
     "reward.forward_max_tokens_per_device = {reward.forward_max_tokens_per_device} has no "
     "effect while model.reward_path is {model.reward_path}"},
    {"reward.micro_batch_size", "model.reward_path",
     kConditions_reward_micro_batch_size_and_model_reward_path, 2,
     "reward.micro_batch_size = {reward.micro_batch_size} has no effect while model.reward_path "
     "is {model.reward_path}"},
    {"reward.micro_batch_size", "reward.forward_max_tokens_per_device",
     kConditions_reward_micro_batch_size_and_reward_forward_max_tokens_per_device, 2,
     "reward.micro_batch_size = {reward.micro_batch_size} counts the sequences of a micro-batch, "
     "but reward.forward_max_tokens_per_device = {reward.forward_max_tokens_per_device} its "
     "tokens"},
    {"reward.micro_batch_size", "trainer.dynamic_batching",
     kConditions_reward_micro_batch_size_and_trainer_dynamic_batching, 2,
     "reward.micro_batch_size = {reward.micro_batch_size} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"runtime.device_index", "runtime.device",
     kConditions_runtime_device_index_and_runtime_device, 2,
     "runtime.device_index = {runtime.device_index} has no effect while runtime.device is "
     "{runtime.device}"},
    {"runtime.experiment", "checkpoint.dir",
     kConditions_runtime_experiment_and_checkpoint_dir, 8,
     "runtime.experiment = {runtime.experiment} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"runtime.gpu_ranges", "runtime.device",
     kConditions_runtime_gpu_ranges_and_runtime_device, 2,
     "runtime.gpu_ranges = {runtime.gpu_ranges} has no effect while runtime.device is "
     "{runtime.device}"},
    {"runtime.memory_margin_bytes", "runtime.memory_budget_bytes",
     kConditions_runtime_memory_margin_bytes_and_runtime_memory_budget_bytes, 2,
     "runtime.memory_margin_bytes = {runtime.memory_margin_bytes} has no effect while "
     "runtime.memory_budget_bytes is {runtime.memory_budget_bytes}"},
    {"runtime.memory_margin_bytes", "runtime.memory_budget_bytes",
     kConditions_runtime_memory_margin_bytes_and_runtime_memory_budget_bytes_2, 2,
     "runtime.memory_margin_bytes is {runtime.memory_margin_bytes} and leaves nothing of "
     "runtime.memory_budget_bytes, which is {runtime.memory_budget_bytes}"},
    {"runtime.output_dir", "checkpoint.dir",
     kConditions_runtime_output_dir_and_checkpoint_dir, 8,
     "runtime.output_dir = {runtime.output_dir} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"sampling.max_new_tokens", "engine.max_model_len",
     kConditions_sampling_max_new_tokens_and_engine_max_model_len, 5,
     "sampling.max_new_tokens is {sampling.max_new_tokens} and leaves no room for a prompt: "
     "engine.max_model_len is {engine.max_model_len}"},
    {"sampling.max_new_tokens", "engine.max_model_len",
     kConditions_sampling_max_new_tokens_and_engine_max_model_len_2, 6,
     "sampling.max_new_tokens is {sampling.max_new_tokens} and leaves no room for a prompt: "
     "engine.max_model_len is {engine.max_model_len}"},
    {"sampling.min_new_tokens", "sampling.max_new_tokens",
     kConditions_sampling_min_new_tokens_and_sampling_max_new_tokens, 1,
     "sampling.min_new_tokens is {sampling.min_new_tokens} but must not exceed "
     "sampling.max_new_tokens, which is {sampling.max_new_tokens}"},
    {"sampling.min_p", "sampling.temperature",
     kConditions_sampling_min_p_and_sampling_temperature, 2,
     "sampling.min_p = {sampling.min_p} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"sampling.top_k", "sampling.temperature",
     kConditions_sampling_top_k_and_sampling_temperature, 2,
     "sampling.top_k = {sampling.top_k} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"sampling.top_p", "sampling.temperature",
     kConditions_sampling_top_p_and_sampling_temperature, 2,
     "sampling.top_p = {sampling.top_p} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"schedule.min_lr", "optimizer.lr",
     kConditions_schedule_min_lr_and_optimizer_lr, 1,
     "schedule.min_lr is {schedule.min_lr} but optimizer.lr is {optimizer.lr}"},
    {"schedule.min_lr", "schedule.name",
     kConditions_schedule_min_lr_and_schedule_name, 2,
     "schedule.min_lr = {schedule.min_lr} has no effect while schedule.name is {schedule.name}"},
    {"schedule.name", "schedule.total_steps",
     kConditions_schedule_name_and_schedule_total_steps, 2,
     "schedule.name = {schedule.name} needs schedule.total_steps, which is 0"},
    {"schedule.total_steps", "schedule.name",
     kConditions_schedule_total_steps_and_schedule_name, 2,
     "schedule.total_steps = {schedule.total_steps} has no effect while schedule.name is "
     "{schedule.name}"},
    {"schedule.warmup_steps", "schedule.total_steps",
     kConditions_schedule_warmup_steps_and_schedule_total_steps, 2,
     "schedule.warmup_steps is {schedule.warmup_steps} but must not exceed schedule.total_steps, "
     "which is {schedule.total_steps}"},
    {"sync.bucket_bytes", "engine.tensor_parallel_size",
     kConditions_sync_bucket_bytes_and_engine_tensor_parallel_size, 2,
     "sync.bucket_bytes = {sync.bucket_bytes} has no effect while engine.tensor_parallel_size is "
     "{engine.tensor_parallel_size}"},
    {"sync.bucket_bytes", "parallel.tensor",
     kConditions_sync_bucket_bytes_and_parallel_tensor, 3,
     "sync.bucket_bytes = {sync.bucket_bytes} has no effect while parallel.tensor is "
     "{parallel.tensor}"},
    {"trainer.balance", "trainer.dynamic_batching",
     kConditions_trainer_balance_and_trainer_dynamic_batching, 2,
     "trainer.balance = {trainer.balance} has no effect while trainer.dynamic_batching is "
     "{trainer.dynamic_batching}"},
    {"trainer.balance", "trainer.sequence_packing",
     kConditions_trainer_balance_and_trainer_sequence_packing, 2,
     "trainer.balance = {trainer.balance} has no effect while trainer.sequence_packing is "
     "{trainer.sequence_packing}"},
    {"trainer.balance_groups", "parallel.data",
     kConditions_trainer_balance_groups_and_parallel_data, 2,
     "trainer.balance_groups = {trainer.balance_groups} has no effect while parallel.data is "
     "{parallel.data}"},
    {"trainer.check_logprobs", "algo.objective",
     kConditions_trainer_check_logprobs_and_algo_objective, 3,
     "trainer.check_logprobs = {trainer.check_logprobs} has no effect while algo.objective is "
     "{algo.objective}"},
    {"trainer.global_batch_size", "pipeline.prompts_per_step",
     kConditions_trainer_global_batch_size_and_pipeline_prompts_per_step, 3,
     "trainer.global_batch_size is {trainer.global_batch_size} but a step has the responses of "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} rows"},
    {"trainer.global_batch_size", "pipeline.samples_per_prompt",
     kConditions_trainer_global_batch_size_and_pipeline_samples_per_prompt, 4,
     "trainer.global_batch_size is {trainer.global_batch_size} but a step has "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} times pipeline.samples_per_prompt "
     "= {pipeline.samples_per_prompt} samples"},
    {"trainer.logprob_chunk_tokens", "algo.objective",
     kConditions_trainer_logprob_chunk_tokens_and_algo_objective, 2,
     "trainer.logprob_chunk_tokens = {trainer.logprob_chunk_tokens} has no effect while "
     "algo.objective is {algo.objective}"},
    {"trainer.max_tokens_per_device", "trainer.dynamic_batching",
     kConditions_trainer_max_tokens_per_device_and_trainer_dynamic_batching, 2,
     "trainer.max_tokens_per_device = {trainer.max_tokens_per_device} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"trainer.micro_batch_size", "trainer.dynamic_batching",
     kConditions_trainer_micro_batch_size_and_trainer_dynamic_batching, 2,
     "trainer.micro_batch_size = {trainer.micro_batch_size} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"trainer.num_minibatches", "pipeline.prompts_per_step",
     kConditions_trainer_num_minibatches_and_pipeline_prompts_per_step, 3,
     "trainer.num_minibatches is {trainer.num_minibatches} but a step has the responses of "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} rows"},
    {"trainer.num_minibatches", "pipeline.samples_per_prompt",
     kConditions_trainer_num_minibatches_and_pipeline_samples_per_prompt, 4,
     "trainer.num_minibatches is {trainer.num_minibatches} but a step has "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} times pipeline.samples_per_prompt "
     "= {pipeline.samples_per_prompt} samples"},
    {"trainer.num_minibatches", "trainer.global_batch_size",
     kConditions_trainer_num_minibatches_and_trainer_global_batch_size, 2,
     "trainer.num_minibatches = {trainer.num_minibatches} has no effect while "
     "trainer.global_batch_size is {trainer.global_batch_size}"},
    {"trainer.oversize", "algo.objective",
     kConditions_trainer_oversize_and_algo_objective, 2,
     "trainer.oversize = cut would take away the last token, which algo.objective = reward_model "
     "scores"},
    {"trainer.oversize", "trainer.max_tokens_per_device",
     kConditions_trainer_oversize_and_trainer_max_tokens_per_device, 8,
     "trainer.oversize = {trainer.oversize} has no effect while trainer.max_tokens_per_device is "
     "{trainer.max_tokens_per_device}"},
    {"trainer.oversize", "trainer.seq_len",
     kConditions_trainer_oversize_and_trainer_seq_len, 2,
     "trainer.oversize = cut needs the length to cut at, trainer.seq_len, which is 0"},
    {"trainer.pad_to_multiple_of", "trainer.seq_len",
     kConditions_trainer_pad_to_multiple_of_and_trainer_seq_len, 2,
     "trainer.pad_to_multiple_of = {trainer.pad_to_multiple_of} has no effect while "
     "trainer.seq_len is {trainer.seq_len}"},
    {"trainer.recompute_granularity", "trainer.recompute_method",
     kConditions_trainer_recompute_granularity_and_trainer_recompute_method, 2,
     "trainer.recompute_granularity = full needs trainer.recompute_method, which is none"},
    {"trainer.recompute_granularity", "trainer.recompute_num_layers",
     kConditions_trainer_recompute_granularity_and_trainer_recompute_num_layers, 2,
     "trainer.recompute_granularity = full needs trainer.recompute_num_layers, which is 0"},
    {"trainer.recompute_loss", "algo.distill.kl",
     kConditions_trainer_recompute_loss_and_algo_distill_kl, 3,
     "trainer.recompute_loss = true keeps logits of a part of a chunk, but algo.distill.kl = "
     "{algo.distill.kl} compares all of them with the teacher's"},
    {"trainer.recompute_loss", "algo.objective",
     kConditions_trainer_recompute_loss_and_algo_objective, 2,
     "trainer.recompute_loss = {trainer.recompute_loss} has no effect while algo.objective is "
     "{algo.objective}"},
    {"trainer.recompute_method", "trainer.recompute_granularity",
     kConditions_trainer_recompute_method_and_trainer_recompute_granularity, 3,
     "trainer.recompute_method = {trainer.recompute_method} has no effect while "
     "trainer.recompute_granularity is {trainer.recompute_granularity}"},
    {"trainer.recompute_modules", "trainer.recompute_granularity",
     kConditions_trainer_recompute_modules_and_trainer_recompute_granularity, 3,
     "trainer.recompute_modules = {trainer.recompute_modules} has no effect while "
     "trainer.recompute_granularity is {trainer.recompute_granularity}"},
    {"trainer.recompute_num_layers", "trainer.recompute_granularity",
     kConditions_trainer_recompute_num_layers_and_trainer_recompute_granularity, 3,
     "trainer.recompute_num_layers = {trainer.recompute_num_layers} has no effect while "
     "trainer.recompute_granularity is {trainer.recompute_granularity}"},
    {"trainer.seq_len", "trainer.dynamic_batching",
     kConditions_trainer_seq_len_and_trainer_dynamic_batching, 3,
     "trainer.seq_len = {trainer.seq_len} is the token budget of a packed micro-batch, but with "
     "trainer.dynamic_batching = false micro-batches are counted in sequences"},
    {"trainer.seq_len", "trainer.max_tokens_per_device",
     kConditions_trainer_seq_len_and_trainer_max_tokens_per_device, 3,
     "trainer.seq_len is {trainer.seq_len}, the token budget of a packed micro-batch, but "
     "trainer.max_tokens_per_device sets a different one, {trainer.max_tokens_per_device}"},
    {"trainer.weights_backup", "model.compute_copies",
     kConditions_trainer_weights_backup_and_model_compute_copies, 2,
     "trainer.weights_backup = true restores the weights that engines read, but with "
     "model.compute_copies = 2 they read while a step trains"},
};

constexpr PresetSetting kSettings_async_fast[] = {
    {"algo.correction.decoupled", "true", false},
    {"algo.correction.is", "token", false},
    {"algo.correction.mode", "tis", false},
    {"model.compute_copies", "2", false},
    {"optimizer.no_decay", "norms,biases", false},
    {"pipeline.max_staleness", "2", false},
    {"pipeline.mode", "async", false},
    {"pipeline.partial_rollout", "true", false},
    {"pipeline.queue_size", "1", false},
};
constexpr PresetSetting kSettings_colocate_dense[] = {
    {"engine.max_num_batched_tokens", "2048", false},
    {"engine.max_num_seqs", "256", false},
    {"model.compute_copies", "1", false},
    {"optimizer.no_decay", "norms,biases", false},
    {"pipeline.mode", "sync", false},
    {"trainer.backward_weights", "by_layer", false},
    {"trainer.max_tokens_per_device", "0", false},
};
constexpr PresetSetting kSettings_hybrid_stable[] = {
    {"algo.correction.decoupled", "true", false},
    {"algo.correction.is", "token", false},
    {"algo.correction.mode", "tis", false},
    {"buffer.max_staleness", "1", false},
    {"model.compute_copies", "2", false},
    {"optimizer.no_decay", "norms,biases", false},
};
constexpr PresetSetting kSettings_long_context[] = {
    {"engine.max_num_batched_tokens", "2048", false},
    {"engine.max_num_seqs", "16", false},
    {"optimizer.no_decay", "norms,biases", false},
    {"sampling.max_new_tokens", "1024", false},
    {"trainer.logprob_chunk_tokens", "128", false},
    {"trainer.max_tokens_per_device", "0", false},
    {"trainer.recompute_granularity", "full", false},
    {"trainer.recompute_method", "uniform", false},
    {"trainer.recompute_num_layers", "1", false},
};
constexpr PresetSetting kSettings_low_memory[] = {
    {"engine.max_num_batched_tokens", "128", true},
    {"engine.max_num_seqs", "8", true},
    {"engine.num_engines", "1", true},
    {"optimizer.no_decay", "norms,biases", false},
    {"trainer.backward_weights", "by_layer", false},
    {"trainer.logprob_chunk_tokens", "64", true},
    {"trainer.recompute_granularity", "full", false},
    {"trainer.recompute_method", "uniform", false},
    {"trainer.recompute_num_layers", "1", false},
};

constexpr OptionPreset kPresets[] = {
    {"async_fast",
     "A pipeline whose scorers take time or whose responses differ much in length. Rollout runs "
     "up to two versions ahead, weights are published without a wait for samples under way, and "
     "truncated importance weights, with ratios against the weights at the beginning of a step, "
     "correct for their age. It costs one more copy of the packed weights, a workspace each for "
     "engine and training, and a forward a step; runs depend on time.",
     kSettings_async_fast, 9},
    {"colocate_dense",
     "A pipeline of a dense model whose roles take turns on one device. One copy of the weights, "
     "and many sequences at once: their KV lies in the working memory that training needs "
     "anyway, so the samples of a step need fewer waves at the same memory.",
     kSettings_colocate_dense, 7},
    {"hybrid_stable",
     "A host's own loop whose engine generates while its trainer computes. The second copy of "
     "the weights lets publications come at any time; samples more than one version behind are "
     "dropped, ratios are against the weights at the beginning of a step, and truncated "
     "importance weights correct for what generated the sample. It costs one more copy of the "
     "packed weights and a forward a step. A pipeline refuses it.",
     kSettings_hybrid_stable, 6},
    {"long_context",
     "Long responses. Fewer sequences run at once, so that the KV of each can be long; prompts "
     "are prefilled in larger chunks; in training the head computes fewer tokens at a time, and "
     "of each layer only the input is kept. The longest sequence remains that of the model, or "
     "engine.max_model_len.",
     kSettings_long_context, 9},
    {"low_memory",
     "Least memory, at the cost of speed. Small forwards and few sequences in one engine, small "
     "chunks of the head in training, memory for one layer of the backward's weights, and of "
     "each layer's activations only the input. It enlarges nothing: what is smaller stays as it "
     "is. runtime.memory_budget_bytes, which it does not set, also bounds KV and micro-batches.",
     kSettings_low_memory, 9},
};

}  // namespace

OptionRules option_rules() { return {kRules, std::size(kRules)}; }
OptionPresets option_presets() { return {kPresets, std::size(kPresets)}; }

}  // namespace rl
