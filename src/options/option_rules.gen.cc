// Generated from abi/option_rules.yml and abi/option_presets.yml by tools/gen_options.py; edit the
// former and run the latter.
#include "options/option_rules.h"

#include <iterator>

namespace rl {
namespace {

constexpr OptionCondition kConditions_0[] = {
    {"algo.adv_ddof", OptionCondition::kChanged,
     "", "", ""},
    {"algo.adv_norm_std", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_1[] = {
    {"algo.adv_ddof", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_2[] = {
    {"algo.adv_ddof", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_3[] = {
    {"algo.adv_ddof", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_4[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.adv_norm_std", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_5[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_6[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_7[] = {
    {"algo.adv_eps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_8[] = {
    {"algo.adv_norm_std", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_9[] = {
    {"algo.adv_norm_std", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_10[] = {
    {"algo.adv_norm_std", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_11[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_12[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "reinforce_pp", "", ""},
};
constexpr OptionCondition kConditions_13[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "remax", "", ""},
};
constexpr OptionCondition kConditions_14[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_15[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_16[] = {
    {"algo.adv_singleton", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_17[] = {
    {"algo.adv_std_scope", OptionCondition::kChanged,
     "", "", ""},
    {"algo.adv_norm_std", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_18[] = {
    {"algo.adv_std_scope", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "grpo_passk", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_19[] = {
    {"algo.adv_std_scope", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_20[] = {
    {"algo.adv_std_scope", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_21[] = {
    {"algo.advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_22[] = {
    {"algo.advantage", OptionCondition::kIs,
     "gdpo", "", ""},
    {"algo.gdpo_weights", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_23[] = {
    {"algo.advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_24[] = {
    {"pipeline.samples_per_prompt", OptionCondition::kIs,
     "1", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "reinforce_pp", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "remax", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "custom", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "sft", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_25[] = {
    {"algo.clip_cov_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_26[] = {
    {"algo.clip_cov_low", OptionCondition::kAtLeast,
     "", "algo.clip_cov_high", ""},
};
constexpr OptionCondition kConditions_27[] = {
    {"algo.clip_cov_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_28[] = {
    {"algo.clip_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_29[] = {
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
constexpr OptionCondition kConditions_30[] = {
    {"algo.clip_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_31[] = {
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
constexpr OptionCondition kConditions_32[] = {
    {"algo.correction.batch_normalize", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_33[] = {
    {"algo.correction.decoupled", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_34[] = {
    {"algo.correction.denominator", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.rs", OptionCondition::kIs,
     "", "", ""},
    {"algo.correction.veto", OptionCondition::kIs,
     "0", "", ""},
    {"algo.correction.opsm_delta", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_35[] = {
    {"algo.correction.high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_36[] = {
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
constexpr OptionCondition kConditions_37[] = {
    {"algo.correction.log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_38[] = {
    {"algo.correction.low", OptionCondition::kAbove,
     "", "algo.correction.high", ""},
};
constexpr OptionCondition kConditions_39[] = {
    {"algo.correction.low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_40[] = {
    {"algo.correction.mode", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.is", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_41[] = {
    {"algo.correction.opsm_delta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_42[] = {
    {"algo.correction.rs", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_43[] = {
    {"algo.correction.rs_bounds", OptionCondition::kChanged,
     "", "", ""},
    {"algo.correction.rs", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_44[] = {
    {"algo.correction.veto", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_45[] = {
    {"algo.cov_ratio", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "kl_cov", "", ""},
};
constexpr OptionCondition kConditions_46[] = {
    {"algo.critic_warmup_steps", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_47[] = {
    {"algo.distill.beta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.kl", OptionCondition::kIsNot,
     "mixed", "", ""},
};
constexpr OptionCondition kConditions_48[] = {
    {"algo.distill.coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_49[] = {
    {"algo.distill.kl", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_50[] = {
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "reward", "", ""},
};
constexpr OptionCondition kConditions_51[] = {
    {"algo.distill.rewards", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_52[] = {
    {"algo.dpo.beta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_53[] = {
    {"algo.dpo.ipo", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_54[] = {
    {"algo.dpo.label_smoothing", OptionCondition::kChanged,
     "", "", ""},
    {"algo.dpo.ipo", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_55[] = {
    {"algo.dpo.label_smoothing", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_56[] = {
    {"algo.dpo.nll_coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_57[] = {
    {"algo.dro_beta", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dro", "", ""},
};
constexpr OptionCondition kConditions_58[] = {
    {"algo.dual_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_59[] = {
    {"algo.dual_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "clip_cov", "", ""},
};
constexpr OptionCondition kConditions_60[] = {
    {"algo.entropy_coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_61[] = {
    {"algo.gae_masked", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_62[] = {
    {"algo.gamma", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "reinforce_pp", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
    {"algo.kl.spread", OptionCondition::kIs,
     "sample", "", ""},
};
constexpr OptionCondition kConditions_63[] = {
    {"algo.gdpo_weights", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gdpo", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_64[] = {
    {"algo.gspo_gradient", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "gspo", "", ""},
};
constexpr OptionCondition kConditions_65[] = {
    {"algo.kl.coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_66[] = {
    {"algo.kl.controller", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_67[] = {
    {"algo.kl.estimator", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_68[] = {
    {"algo.kl.horizon", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.controller", OptionCondition::kIs,
     "fixed", "", ""},
};
constexpr OptionCondition kConditions_69[] = {
    {"algo.kl.ratio", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIsNot,
     "loss", "", ""},
};
constexpr OptionCondition kConditions_70[] = {
    {"algo.kl.ratio_cap", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.ratio", OptionCondition::kIsNot,
     "gradient", "", ""},
};
constexpr OptionCondition kConditions_71[] = {
    {"algo.kl.spread", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_72[] = {
    {"algo.kl.spread", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "reinforce_pp", "", ""},
};
constexpr OptionCondition kConditions_73[] = {
    {"algo.kl.spread", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "remax", "", ""},
};
constexpr OptionCondition kConditions_74[] = {
    {"algo.kl.spread", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_75[] = {
    {"algo.kl.spread", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIsNot,
     "reward", "", ""},
};
constexpr OptionCondition kConditions_76[] = {
    {"algo.kl.target", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.controller", OptionCondition::kIs,
     "fixed", "", ""},
};
constexpr OptionCondition kConditions_77[] = {
    {"algo.kl.value_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_78[] = {
    {"algo.kl.where", OptionCondition::kIs,
     "reward", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_79[] = {
    {"algo.kl.where", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_80[] = {
    {"algo.kl_cov_coef", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "kl_cov", "", ""},
};
constexpr OptionCondition kConditions_81[] = {
    {"algo.lambda", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_82[] = {
    {"algo.loss_agg", OptionCondition::kIs,
     "seq_mean_token_sum_norm", "", ""},
    {"algo.loss_scale_factor", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_83[] = {
    {"algo.loss_agg", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_84[] = {
    {"algo.loss_agg", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_85[] = {
    {"algo.loss_scale_factor", OptionCondition::kChanged,
     "", "", ""},
    {"algo.loss_agg", OptionCondition::kIsNot,
     "seq_mean_token_sum_norm", "", ""},
};
constexpr OptionCondition kConditions_86[] = {
    {"algo.objective", OptionCondition::kIs,
     "distill", "", ""},
    {"model.teacher_path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_87[] = {
    {"algo.policy_loss", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_88[] = {
    {"algo.ratio_cap", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_89[] = {
    {"algo.ratio_cap", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "ppo_clip", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_tv", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "dppo_kl", "", ""},
};
constexpr OptionCondition kConditions_90[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_91[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIs,
     "gmpo", "", ""},
};
constexpr OptionCondition kConditions_92[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIs,
     "gpg", "", ""},
};
constexpr OptionCondition kConditions_93[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_94[] = {
    {"algo.ratio_log_clamp", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIs,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_95[] = {
    {"algo.reward.clip_at", OptionCondition::kIs,
     "advantage", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "gdpo", "", ""},
};
constexpr OptionCondition kConditions_96[] = {
    {"algo.reward.clip_at", OptionCondition::kIs,
     "advantage", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_97[] = {
    {"algo.reward.clip_at", OptionCondition::kIs,
     "advantage", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "reinforce_pp", "", ""},
};
constexpr OptionCondition kConditions_98[] = {
    {"algo.reward.clip_at", OptionCondition::kIs,
     "advantage", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "remax", "", ""},
};
constexpr OptionCondition kConditions_99[] = {
    {"algo.reward.clip_at", OptionCondition::kIs,
     "advantage", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_100[] = {
    {"algo.reward.clip_at", OptionCondition::kChanged,
     "", "", ""},
    {"algo.reward.clip_low", OptionCondition::kIs,
     "0", "", ""},
    {"algo.reward.clip_high", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_101[] = {
    {"algo.reward.clip_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_102[] = {
    {"algo.reward.clip_high", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_103[] = {
    {"algo.reward.clip_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_104[] = {
    {"algo.reward.clip_low", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_105[] = {
    {"algo.reward.clip_low", OptionCondition::kAbove,
     "", "algo.reward.clip_high", ""},
};
constexpr OptionCondition kConditions_106[] = {
    {"algo.reward.normalize", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_107[] = {
    {"algo.reward.normalize", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_108[] = {
    {"algo.reward.overlong_buffer", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_109[] = {
    {"algo.reward.overlong_buffer", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_110[] = {
    {"algo.reward.overlong_buffer", OptionCondition::kAbove,
     "", "sampling.max_new_tokens", ""},
};
constexpr OptionCondition kConditions_111[] = {
    {"algo.reward.overlong_penalty", OptionCondition::kChanged,
     "", "", ""},
    {"algo.reward.overlong_buffer", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_112[] = {
    {"algo.reward.truncation_penalty", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_113[] = {
    {"algo.reward.truncation_penalty", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_114[] = {
    {"algo.sapo_tau_neg", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "sapo", "", ""},
};
constexpr OptionCondition kConditions_115[] = {
    {"algo.sapo_tau_pos", OptionCondition::kChanged,
     "", "", ""},
    {"algo.policy_loss", OptionCondition::kIsNot,
     "sapo", "", ""},
};
constexpr OptionCondition kConditions_116[] = {
    {"algo.value_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_117[] = {
    {"algo.whiten", OptionCondition::kChanged,
     "", "", ""},
    {"algo.distill.rewards", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_118[] = {
    {"algo.whiten", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_119[] = {
    {"checkpoint.every_steps", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_120[] = {
    {"checkpoint.keep_last", OptionCondition::kChanged,
     "", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_121[] = {
    {"checkpoint.resume", OptionCondition::kIs,
     "auto", "", ""},
    {"checkpoint.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_122[] = {
    {"critic.forward_max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_123[] = {
    {"critic.max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_124[] = {
    {"critic.max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_125[] = {
    {"critic.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_126[] = {
    {"critic.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_127[] = {
    {"critic.optimizer.grad_clip", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_128[] = {
    {"critic.optimizer.lr", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_129[] = {
    {"critic.optimizer.weight_decay", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_130[] = {
    {"data.shuffle", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_131[] = {
    {"data.shuffle_seed", OptionCondition::kChanged,
     "", "", ""},
    {"data.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_132[] = {
    {"data.shuffle_seed", OptionCondition::kChanged,
     "", "", ""},
    {"data.shuffle", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_133[] = {
    {"engine.chunked_prefill", OptionCondition::kIs,
     "false", "", ""},
    {"engine.max_model_len", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_134[] = {
    {"engine.graph_batch_sizes", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.device", OptionCondition::kIs,
     "cpu", "", ""},
};
constexpr OptionCondition kConditions_135[] = {
    {"engine.keep_kv_on_publish", OptionCondition::kIs,
     "true", "", ""},
    {"engine.preemption", OptionCondition::kIs,
     "recompute", "", ""},
};
constexpr OptionCondition kConditions_136[] = {
    {"engine.keep_kv_on_publish", OptionCondition::kChanged,
     "", "", ""},
    {"model.compute_copies", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_137[] = {
    {"engine.max_num_seqs", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_138[] = {
    {"engine.memory_fraction", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.memory_budget_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_139[] = {
    {"engine.preemption", OptionCondition::kIs,
     "swap", "", ""},
    {"engine.swap_space_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_140[] = {
    {"engine.prefill_chunk", OptionCondition::kChanged,
     "", "", ""},
    {"engine.chunked_prefill", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_141[] = {
    {"engine.prefill_chunk", OptionCondition::kAbove,
     "", "engine.max_num_batched_tokens", ""},
};
constexpr OptionCondition kConditions_142[] = {
    {"engine.swap_space_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"engine.preemption", OptionCondition::kIs,
     "recompute", "", ""},
};
constexpr OptionCondition kConditions_143[] = {
    {"engine.tensor_parallel_size", OptionCondition::kIsNot,
     "1", "", ""},
    {"runtime.device", OptionCondition::kIs,
     "cpu", "", ""},
};
constexpr OptionCondition kConditions_144[] = {
    {"eval.every_steps", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_145[] = {
    {"eval.max_new_tokens", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_146[] = {
    {"engine.max_model_len", OptionCondition::kIsNot,
     "0", "", ""},
    {"eval.max_new_tokens", OptionCondition::kAtLeast,
     "", "engine.max_model_len", ""},
};
constexpr OptionCondition kConditions_147[] = {
    {"eval.max_new_tokens", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_148[] = {
    {"eval.max_prompts", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_149[] = {
    {"eval.samples_per_prompt", OptionCondition::kChanged,
     "", "", ""},
    {"eval.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_150[] = {
    {"eval.temperature", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_151[] = {
    {"eval.temperature", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_152[] = {
    {"metrics.eval_jsonl", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_153[] = {
    {"metrics.interval_steps", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.jsonl", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_154[] = {
    {"metrics.max_samples", OptionCondition::kChanged,
     "", "", ""},
    {"eval.path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_155[] = {
    {"metrics.max_samples", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.samples", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_156[] = {
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
constexpr OptionCondition kConditions_157[] = {
    {"metrics.samples", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_158[] = {
    {"metrics.tensorboard", OptionCondition::kChanged,
     "", "", ""},
    {"metrics.jsonl", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_159[] = {
    {"model.compute_copies", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_160[] = {
    {"model.critic_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIsNot,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_161[] = {
    {"model.reference_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_162[] = {
    {"model.reward_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.gdpo_weights", OptionCondition::kIsNot,
     "", "", ""},
};
constexpr OptionCondition kConditions_163[] = {
    {"model.reward_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
};
constexpr OptionCondition kConditions_164[] = {
    {"model.teacher_path", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_165[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "gae", "", ""},
};
constexpr OptionCondition kConditions_166[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "reinforce_pp", "", ""},
};
constexpr OptionCondition kConditions_167[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "remax", "", ""},
};
constexpr OptionCondition kConditions_168[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.advantage", OptionCondition::kIs,
     "custom", "", ""},
};
constexpr OptionCondition kConditions_169[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_170[] = {
    {"pipeline.discard_zero_advantage", OptionCondition::kIs,
     "true", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_171[] = {
    {"pipeline.filter", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_172[] = {
    {"pipeline.filter_high", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.filter", OptionCondition::kIsNot,
     "mean", "", ""},
};
constexpr OptionCondition kConditions_173[] = {
    {"pipeline.filter_low", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.filter", OptionCondition::kIsNot,
     "mean", "", ""},
};
constexpr OptionCondition kConditions_174[] = {
    {"pipeline.filter_low", OptionCondition::kAtLeast,
     "", "pipeline.filter_high", ""},
};
constexpr OptionCondition kConditions_175[] = {
    {"pipeline.filter_max_rounds", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.filter", OptionCondition::kIs,
     "none", "", ""},
};
constexpr OptionCondition kConditions_176[] = {
    {"pipeline.filter_spread", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.filter", OptionCondition::kIsNot,
     "spread", "", ""},
};
constexpr OptionCondition kConditions_177[] = {
    {"pipeline.overlong_filter", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_178[] = {
    {"pipeline.repetition_filter", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_179[] = {
    {"pipeline.repetition_ngram", OptionCondition::kChanged,
     "", "", ""},
    {"pipeline.repetition_filter", OptionCondition::kIs,
     "1", "", ""},
};
constexpr OptionCondition kConditions_180[] = {
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
constexpr OptionCondition kConditions_181[] = {
    {"pipeline.reward_timeout_ns", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_182[] = {
    {"pipeline.reward_timeout_ns", OptionCondition::kChanged,
     "", "", ""},
    {"model.reward_path", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_183[] = {
    {"pipeline.samples_per_prompt", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_184[] = {
    {"profiler.timeline.dir", OptionCondition::kChanged,
     "", "", ""},
    {"profiler.timeline.enable", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_185[] = {
    {"profiler.timeline.enable", OptionCondition::kIs,
     "true", "", ""},
    {"profiler.timeline.dir", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_186[] = {
    {"reference.forward_max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"algo.kl.where", OptionCondition::kIs,
     "none", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
};
constexpr OptionCondition kConditions_187[] = {
    {"reward.forward_max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"model.reward_path", OptionCondition::kIs,
     "", "", ""},
};
constexpr OptionCondition kConditions_188[] = {
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
constexpr OptionCondition kConditions_189[] = {
    {"runtime.memory_margin_bytes", OptionCondition::kChanged,
     "", "", ""},
    {"runtime.memory_budget_bytes", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_190[] = {
    {"runtime.memory_budget_bytes", OptionCondition::kIsNot,
     "0", "", ""},
    {"runtime.memory_margin_bytes", OptionCondition::kAtLeast,
     "", "runtime.memory_budget_bytes", ""},
};
constexpr OptionCondition kConditions_191[] = {
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
constexpr OptionCondition kConditions_192[] = {
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
constexpr OptionCondition kConditions_193[] = {
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
constexpr OptionCondition kConditions_194[] = {
    {"sampling.min_new_tokens", OptionCondition::kAbove,
     "", "sampling.max_new_tokens", ""},
};
constexpr OptionCondition kConditions_195[] = {
    {"sampling.min_p", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_196[] = {
    {"sampling.top_k", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_197[] = {
    {"sampling.top_p", OptionCondition::kChanged,
     "", "", ""},
    {"sampling.temperature", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_198[] = {
    {"schedule.min_lr", OptionCondition::kAbove,
     "", "optimizer.lr", ""},
};
constexpr OptionCondition kConditions_199[] = {
    {"schedule.min_lr", OptionCondition::kChanged,
     "", "", ""},
    {"schedule.name", OptionCondition::kIs,
     "constant", "", ""},
};
constexpr OptionCondition kConditions_200[] = {
    {"schedule.name", OptionCondition::kIsNot,
     "constant", "", ""},
    {"schedule.total_steps", OptionCondition::kIs,
     "0", "", ""},
};
constexpr OptionCondition kConditions_201[] = {
    {"schedule.total_steps", OptionCondition::kChanged,
     "", "", ""},
    {"schedule.name", OptionCondition::kIs,
     "constant", "", ""},
};
constexpr OptionCondition kConditions_202[] = {
    {"schedule.total_steps", OptionCondition::kIsNot,
     "0", "", ""},
    {"schedule.warmup_steps", OptionCondition::kAbove,
     "", "schedule.total_steps", ""},
};
constexpr OptionCondition kConditions_203[] = {
    {"trainer.balance", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_204[] = {
    {"trainer.balance", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.sequence_packing", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_205[] = {
    {"trainer.check_logprobs", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_206[] = {
    {"trainer.global_batch_size", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_207[] = {
    {"trainer.global_batch_size", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", "pipeline.samples_per_prompt"},
    {"algo.objective", OptionCondition::kIsNot,
     "sft", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_208[] = {
    {"trainer.logprob_chunk_tokens", OptionCondition::kChanged,
     "", "", ""},
    {"algo.objective", OptionCondition::kIs,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_209[] = {
    {"trainer.max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "false", "", ""},
};
constexpr OptionCondition kConditions_210[] = {
    {"trainer.micro_batch_size", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_211[] = {
    {"trainer.num_minibatches", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "rl", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "distill", "", ""},
};
constexpr OptionCondition kConditions_212[] = {
    {"trainer.num_minibatches", OptionCondition::kAbove,
     "", "pipeline.prompts_per_step", "pipeline.samples_per_prompt"},
    {"algo.objective", OptionCondition::kIsNot,
     "sft", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "dpo", "", ""},
    {"algo.objective", OptionCondition::kIsNot,
     "reward_model", "", ""},
};
constexpr OptionCondition kConditions_213[] = {
    {"trainer.num_minibatches", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.global_batch_size", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_214[] = {
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
constexpr OptionCondition kConditions_215[] = {
    {"trainer.pad_to_multiple_of", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.seq_len", OptionCondition::kChanged,
     "", "", ""},
};
constexpr OptionCondition kConditions_216[] = {
    {"trainer.seq_len", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.dynamic_batching", OptionCondition::kIs,
     "false", "", ""},
    {"trainer.sequence_packing", OptionCondition::kIs,
     "true", "", ""},
};
constexpr OptionCondition kConditions_217[] = {
    {"trainer.seq_len", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.max_tokens_per_device", OptionCondition::kChanged,
     "", "", ""},
    {"trainer.sequence_packing", OptionCondition::kIs,
     "true", "", ""},
};

constexpr OptionRule kRules[] = {
    {"algo.adv_ddof", "algo.adv_norm_std", kConditions_0, 2,
     "algo.adv_ddof = {algo.adv_ddof} has no effect while algo.adv_norm_std is "
     "{algo.adv_norm_std}"},
    {"algo.adv_ddof", "algo.advantage", kConditions_1, 4,
     "algo.adv_ddof = {algo.adv_ddof} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.adv_ddof", "algo.distill.rewards", kConditions_2, 2,
     "algo.adv_ddof = {algo.adv_ddof} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_ddof", "algo.objective", kConditions_3, 3,
     "algo.adv_ddof = {algo.adv_ddof} has no effect while algo.objective is {algo.objective}"},
    {"algo.adv_eps", "algo.adv_norm_std", kConditions_4, 2,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.adv_norm_std is {algo.adv_norm_std}"},
    {"algo.adv_eps", "algo.advantage", kConditions_5, 4,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.adv_eps", "algo.distill.rewards", kConditions_6, 2,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_eps", "algo.objective", kConditions_7, 3,
     "algo.adv_eps = {algo.adv_eps} has no effect while algo.objective is {algo.objective}"},
    {"algo.adv_norm_std", "algo.advantage", kConditions_8, 4,
     "algo.adv_norm_std = {algo.adv_norm_std} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_norm_std", "algo.distill.rewards", kConditions_9, 2,
     "algo.adv_norm_std = {algo.adv_norm_std} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_norm_std", "algo.objective", kConditions_10, 3,
     "algo.adv_norm_std = {algo.adv_norm_std} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.adv_singleton", "algo.advantage", kConditions_11, 2,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_singleton", "algo.advantage", kConditions_12, 2,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_singleton", "algo.advantage", kConditions_13, 2,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_singleton", "algo.advantage", kConditions_14, 2,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_singleton", "algo.distill.rewards", kConditions_15, 2,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_singleton", "algo.objective", kConditions_16, 3,
     "algo.adv_singleton = {algo.adv_singleton} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.adv_std_scope", "algo.adv_norm_std", kConditions_17, 2,
     "algo.adv_std_scope = {algo.adv_std_scope} has no effect while algo.adv_norm_std is "
     "{algo.adv_norm_std}"},
    {"algo.adv_std_scope", "algo.advantage", kConditions_18, 4,
     "algo.adv_std_scope = {algo.adv_std_scope} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.adv_std_scope", "algo.distill.rewards", kConditions_19, 2,
     "algo.adv_std_scope = {algo.adv_std_scope} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.adv_std_scope", "algo.objective", kConditions_20, 3,
     "algo.adv_std_scope = {algo.adv_std_scope} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.advantage", "algo.distill.rewards", kConditions_21, 2,
     "algo.advantage = {algo.advantage} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.advantage", "algo.gdpo_weights", kConditions_22, 2,
     "algo.advantage = gdpo needs a weight for each kind of reward, but algo.gdpo_weights is "
     "empty"},
    {"algo.advantage", "algo.objective", kConditions_23, 3,
     "algo.advantage = {algo.advantage} has no effect while algo.objective is {algo.objective}"},
    {"algo.advantage", "pipeline.samples_per_prompt", kConditions_24, 9,
     "algo.advantage = {algo.advantage} compares the samples of a prompt, but "
     "pipeline.samples_per_prompt is 1: there is nothing to compare with"},
    {"algo.clip_cov_high", "algo.policy_loss", kConditions_25, 2,
     "algo.clip_cov_high = {algo.clip_cov_high} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_cov_low", "algo.clip_cov_high", kConditions_26, 1,
     "algo.clip_cov_low is {algo.clip_cov_low} and leaves no covariance below "
     "algo.clip_cov_high, which is {algo.clip_cov_high}"},
    {"algo.clip_cov_low", "algo.policy_loss", kConditions_27, 2,
     "algo.clip_cov_low = {algo.clip_cov_low} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_high", "algo.objective", kConditions_28, 3,
     "algo.clip_high = {algo.clip_high} has no effect while algo.objective is {algo.objective}"},
    {"algo.clip_high", "algo.policy_loss", kConditions_29, 8,
     "algo.clip_high = {algo.clip_high} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.clip_low", "algo.objective", kConditions_30, 3,
     "algo.clip_low = {algo.clip_low} has no effect while algo.objective is {algo.objective}"},
    {"algo.clip_low", "algo.policy_loss", kConditions_31, 8,
     "algo.clip_low = {algo.clip_low} has no effect while algo.policy_loss is {algo.policy_loss}"},
    {"algo.correction.batch_normalize", "algo.correction.is", kConditions_32, 2,
     "algo.correction.batch_normalize = {algo.correction.batch_normalize} has no effect while "
     "algo.correction.is is {algo.correction.is}"},
    {"algo.correction.decoupled", "algo.objective", kConditions_33, 3,
     "algo.correction.decoupled = {algo.correction.decoupled} has no effect while algo.objective "
     "is {algo.objective}"},
    {"algo.correction.denominator", "algo.correction.rs", kConditions_34, 4,
     "algo.correction.denominator = {algo.correction.denominator} has no effect while "
     "algo.correction.rs is {algo.correction.rs}"},
    {"algo.correction.high", "algo.correction.is", kConditions_35, 2,
     "algo.correction.high = {algo.correction.high} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.is", "algo.correction.decoupled", kConditions_36, 5,
     "algo.correction.is = {algo.correction.is} would count the mismatch twice: without "
     "algo.correction.decoupled the ratio of algo.policy_loss = {algo.policy_loss} is already "
     "relative to the sampler"},
    {"algo.correction.log_clamp", "algo.correction.is", kConditions_37, 2,
     "algo.correction.log_clamp = {algo.correction.log_clamp} has no effect while "
     "algo.correction.is is {algo.correction.is}"},
    {"algo.correction.low", "algo.correction.high", kConditions_38, 1,
     "algo.correction.low is {algo.correction.low} but algo.correction.high is "
     "{algo.correction.high}"},
    {"algo.correction.low", "algo.correction.is", kConditions_39, 2,
     "algo.correction.low = {algo.correction.low} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.mode", "algo.correction.is", kConditions_40, 2,
     "algo.correction.mode = {algo.correction.mode} has no effect while algo.correction.is is "
     "{algo.correction.is}"},
    {"algo.correction.opsm_delta", "algo.objective", kConditions_41, 3,
     "algo.correction.opsm_delta = {algo.correction.opsm_delta} has no effect while "
     "algo.objective is {algo.objective}"},
    {"algo.correction.rs", "algo.objective", kConditions_42, 3,
     "algo.correction.rs = {algo.correction.rs} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.correction.rs_bounds", "algo.correction.rs", kConditions_43, 2,
     "algo.correction.rs_bounds = {algo.correction.rs_bounds} has no effect while "
     "algo.correction.rs is {algo.correction.rs}"},
    {"algo.correction.veto", "algo.objective", kConditions_44, 3,
     "algo.correction.veto = {algo.correction.veto} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.cov_ratio", "algo.policy_loss", kConditions_45, 3,
     "algo.cov_ratio = {algo.cov_ratio} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.critic_warmup_steps", "algo.advantage", kConditions_46, 2,
     "algo.critic_warmup_steps = {algo.critic_warmup_steps} has no effect while algo.advantage "
     "is {algo.advantage}"},
    {"algo.distill.beta", "algo.distill.kl", kConditions_47, 2,
     "algo.distill.beta = {algo.distill.beta} has no effect while algo.distill.kl is "
     "{algo.distill.kl}"},
    {"algo.distill.coef", "algo.objective", kConditions_48, 2,
     "algo.distill.coef = {algo.distill.coef} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.distill.kl", "algo.objective", kConditions_49, 2,
     "algo.distill.kl = {algo.distill.kl} has no effect while algo.objective is {algo.objective}"},
    {"algo.distill.rewards", "algo.kl.where", kConditions_50, 2,
     "algo.kl.where = reward subtracts the KL from rewards, but algo.distill.rewards = false "
     "ignores rewards"},
    {"algo.distill.rewards", "algo.objective", kConditions_51, 2,
     "algo.distill.rewards = {algo.distill.rewards} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.dpo.beta", "algo.objective", kConditions_52, 2,
     "algo.dpo.beta = {algo.dpo.beta} has no effect while algo.objective is {algo.objective}"},
    {"algo.dpo.ipo", "algo.objective", kConditions_53, 2,
     "algo.dpo.ipo = {algo.dpo.ipo} has no effect while algo.objective is {algo.objective}"},
    {"algo.dpo.label_smoothing", "algo.dpo.ipo", kConditions_54, 2,
     "algo.dpo.label_smoothing = {algo.dpo.label_smoothing} has no effect while algo.dpo.ipo is "
     "{algo.dpo.ipo}"},
    {"algo.dpo.label_smoothing", "algo.objective", kConditions_55, 2,
     "algo.dpo.label_smoothing = {algo.dpo.label_smoothing} has no effect while algo.objective "
     "is {algo.objective}"},
    {"algo.dpo.nll_coef", "algo.objective", kConditions_56, 2,
     "algo.dpo.nll_coef = {algo.dpo.nll_coef} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.dro_beta", "algo.policy_loss", kConditions_57, 2,
     "algo.dro_beta = {algo.dro_beta} has no effect while algo.policy_loss is {algo.policy_loss}"},
    {"algo.dual_clip", "algo.objective", kConditions_58, 3,
     "algo.dual_clip = {algo.dual_clip} has no effect while algo.objective is {algo.objective}"},
    {"algo.dual_clip", "algo.policy_loss", kConditions_59, 3,
     "algo.dual_clip = {algo.dual_clip} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.entropy_coef", "algo.objective", kConditions_60, 3,
     "algo.entropy_coef = {algo.entropy_coef} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.gae_masked", "algo.advantage", kConditions_61, 2,
     "algo.gae_masked = {algo.gae_masked} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.gamma", "algo.advantage", kConditions_62, 4,
     "algo.gamma = {algo.gamma} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.gdpo_weights", "algo.advantage", kConditions_63, 3,
     "algo.gdpo_weights = {algo.gdpo_weights} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"algo.gspo_gradient", "algo.policy_loss", kConditions_64, 2,
     "algo.gspo_gradient = {algo.gspo_gradient} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.kl.coef", "algo.kl.where", kConditions_65, 2,
     "algo.kl.coef = {algo.kl.coef} has no effect while algo.kl.where is {algo.kl.where}"},
    {"algo.kl.controller", "algo.kl.where", kConditions_66, 2,
     "algo.kl.controller = {algo.kl.controller} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"algo.kl.estimator", "algo.kl.where", kConditions_67, 2,
     "algo.kl.estimator = {algo.kl.estimator} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"algo.kl.horizon", "algo.kl.controller", kConditions_68, 2,
     "algo.kl.horizon = {algo.kl.horizon} has no effect while algo.kl.controller is "
     "{algo.kl.controller}"},
    {"algo.kl.ratio", "algo.kl.where", kConditions_69, 2,
     "algo.kl.ratio = {algo.kl.ratio} has no effect while algo.kl.where is {algo.kl.where}"},
    {"algo.kl.ratio_cap", "algo.kl.ratio", kConditions_70, 2,
     "algo.kl.ratio_cap = {algo.kl.ratio_cap} has no effect while algo.kl.ratio is "
     "{algo.kl.ratio}"},
    {"algo.kl.spread", "algo.advantage", kConditions_71, 2,
     "algo.kl.spread = {algo.kl.spread} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.kl.spread", "algo.advantage", kConditions_72, 2,
     "algo.kl.spread = {algo.kl.spread} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.kl.spread", "algo.advantage", kConditions_73, 2,
     "algo.kl.spread = {algo.kl.spread} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.kl.spread", "algo.advantage", kConditions_74, 2,
     "algo.kl.spread = {algo.kl.spread} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.kl.spread", "algo.kl.where", kConditions_75, 2,
     "algo.kl.spread = {algo.kl.spread} has no effect while algo.kl.where is {algo.kl.where}"},
    {"algo.kl.target", "algo.kl.controller", kConditions_76, 2,
     "algo.kl.target = {algo.kl.target} has no effect while algo.kl.controller is "
     "{algo.kl.controller}"},
    {"algo.kl.value_clamp", "algo.kl.where", kConditions_77, 2,
     "algo.kl.value_clamp = {algo.kl.value_clamp} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"algo.kl.where", "algo.advantage", kConditions_78, 2,
     "algo.kl.where = reward changes the reward of a sample, but algo.advantage = gdpo reads the "
     "parts of the reward"},
    {"algo.kl.where", "algo.objective", kConditions_79, 3,
     "algo.kl.where = {algo.kl.where} has no effect while algo.objective is {algo.objective}"},
    {"algo.kl_cov_coef", "algo.policy_loss", kConditions_80, 2,
     "algo.kl_cov_coef = {algo.kl_cov_coef} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.lambda", "algo.advantage", kConditions_81, 2,
     "algo.lambda = {algo.lambda} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.loss_agg", "algo.loss_scale_factor", kConditions_82, 2,
     "algo.loss_agg = seq_mean_token_sum_norm divides by algo.loss_scale_factor, which is 0"},
    {"algo.loss_agg", "algo.objective", kConditions_83, 2,
     "algo.loss_agg = {algo.loss_agg} has no effect while algo.objective is {algo.objective}"},
    {"algo.loss_agg", "algo.objective", kConditions_84, 2,
     "algo.loss_agg = {algo.loss_agg} has no effect while algo.objective is {algo.objective}"},
    {"algo.loss_scale_factor", "algo.loss_agg", kConditions_85, 2,
     "algo.loss_scale_factor = {algo.loss_scale_factor} has no effect while algo.loss_agg is "
     "{algo.loss_agg}"},
    {"algo.objective", "model.teacher_path", kConditions_86, 2,
     "algo.objective = distill needs model.teacher_path, which is empty"},
    {"algo.policy_loss", "algo.objective", kConditions_87, 3,
     "algo.policy_loss = {algo.policy_loss} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.ratio_cap", "algo.objective", kConditions_88, 3,
     "algo.ratio_cap = {algo.ratio_cap} has no effect while algo.objective is {algo.objective}"},
    {"algo.ratio_cap", "algo.policy_loss", kConditions_89, 4,
     "algo.ratio_cap = {algo.ratio_cap} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.ratio_log_clamp", "algo.objective", kConditions_90, 3,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.ratio_log_clamp", "algo.policy_loss", kConditions_91, 2,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.ratio_log_clamp", "algo.policy_loss", kConditions_92, 2,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.ratio_log_clamp", "algo.policy_loss", kConditions_93, 2,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.ratio_log_clamp", "algo.policy_loss", kConditions_94, 2,
     "algo.ratio_log_clamp = {algo.ratio_log_clamp} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.reward.clip_at", "algo.advantage", kConditions_95, 2,
     "algo.reward.clip_at = advantage clamps the advantage of a sample, but algo.advantage = "
     "gdpo whitens the sum of the advantages of its kinds of reward"},
    {"algo.reward.clip_at", "algo.advantage", kConditions_96, 2,
     "algo.reward.clip_at = advantage clamps after the baseline of a group, which algo.advantage "
     "= gae does not have"},
    {"algo.reward.clip_at", "algo.advantage", kConditions_97, 2,
     "algo.reward.clip_at = advantage clamps after the baseline of a group, which algo.advantage "
     "= reinforce_pp does not have"},
    {"algo.reward.clip_at", "algo.advantage", kConditions_98, 2,
     "algo.reward.clip_at = advantage clamps after the baseline of a group, which algo.advantage "
     "= remax does not have"},
    {"algo.reward.clip_at", "algo.advantage", kConditions_99, 2,
     "algo.reward.clip_at = advantage clamps after the baseline of a group; with algo.advantage "
     "= custom the host's function has to clamp"},
    {"algo.reward.clip_at", "algo.reward.clip_low", kConditions_100, 3,
     "algo.reward.clip_at = {algo.reward.clip_at} has no effect while algo.reward.clip_low is "
     "{algo.reward.clip_low}"},
    {"algo.reward.clip_high", "algo.distill.rewards", kConditions_101, 2,
     "algo.reward.clip_high = {algo.reward.clip_high} has no effect while algo.distill.rewards "
     "is {algo.distill.rewards}"},
    {"algo.reward.clip_high", "algo.objective", kConditions_102, 3,
     "algo.reward.clip_high = {algo.reward.clip_high} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.reward.clip_low", "algo.distill.rewards", kConditions_103, 2,
     "algo.reward.clip_low = {algo.reward.clip_low} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.reward.clip_low", "algo.objective", kConditions_104, 3,
     "algo.reward.clip_low = {algo.reward.clip_low} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.reward.clip_low", "algo.reward.clip_high", kConditions_105, 1,
     "algo.reward.clip_low is {algo.reward.clip_low} but algo.reward.clip_high is "
     "{algo.reward.clip_high}"},
    {"algo.reward.normalize", "algo.distill.rewards", kConditions_106, 2,
     "algo.reward.normalize = {algo.reward.normalize} has no effect while algo.distill.rewards "
     "is {algo.distill.rewards}"},
    {"algo.reward.normalize", "algo.objective", kConditions_107, 3,
     "algo.reward.normalize = {algo.reward.normalize} has no effect while algo.objective is "
     "{algo.objective}"},
    {"algo.reward.overlong_buffer", "algo.distill.rewards", kConditions_108, 2,
     "algo.reward.overlong_buffer = {algo.reward.overlong_buffer} has no effect while "
     "algo.distill.rewards is {algo.distill.rewards}"},
    {"algo.reward.overlong_buffer", "algo.objective", kConditions_109, 3,
     "algo.reward.overlong_buffer = {algo.reward.overlong_buffer} has no effect while "
     "algo.objective is {algo.objective}"},
    {"algo.reward.overlong_buffer", "sampling.max_new_tokens", kConditions_110, 1,
     "algo.reward.overlong_buffer is {algo.reward.overlong_buffer} but a response has at most "
     "sampling.max_new_tokens = {sampling.max_new_tokens}"},
    {"algo.reward.overlong_penalty", "algo.reward.overlong_buffer", kConditions_111, 2,
     "algo.reward.overlong_penalty = {algo.reward.overlong_penalty} has no effect while "
     "algo.reward.overlong_buffer is {algo.reward.overlong_buffer}"},
    {"algo.reward.truncation_penalty", "algo.distill.rewards", kConditions_112, 2,
     "algo.reward.truncation_penalty = {algo.reward.truncation_penalty} has no effect while "
     "algo.distill.rewards is {algo.distill.rewards}"},
    {"algo.reward.truncation_penalty", "algo.objective", kConditions_113, 3,
     "algo.reward.truncation_penalty = {algo.reward.truncation_penalty} has no effect while "
     "algo.objective is {algo.objective}"},
    {"algo.sapo_tau_neg", "algo.policy_loss", kConditions_114, 2,
     "algo.sapo_tau_neg = {algo.sapo_tau_neg} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.sapo_tau_pos", "algo.policy_loss", kConditions_115, 2,
     "algo.sapo_tau_pos = {algo.sapo_tau_pos} has no effect while algo.policy_loss is "
     "{algo.policy_loss}"},
    {"algo.value_clip", "algo.advantage", kConditions_116, 2,
     "algo.value_clip = {algo.value_clip} has no effect while algo.advantage is {algo.advantage}"},
    {"algo.whiten", "algo.distill.rewards", kConditions_117, 2,
     "algo.whiten = {algo.whiten} has no effect while algo.distill.rewards is "
     "{algo.distill.rewards}"},
    {"algo.whiten", "algo.objective", kConditions_118, 3,
     "algo.whiten = {algo.whiten} has no effect while algo.objective is {algo.objective}"},
    {"checkpoint.every_steps", "checkpoint.dir", kConditions_119, 2,
     "checkpoint.every_steps = {checkpoint.every_steps} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.keep_last", "checkpoint.dir", kConditions_120, 2,
     "checkpoint.keep_last = {checkpoint.keep_last} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"checkpoint.resume", "checkpoint.dir", kConditions_121, 2,
     "checkpoint.resume = auto needs checkpoint.dir, which is empty"},
    {"critic.forward_max_tokens_per_device", "algo.advantage", kConditions_122, 2,
     "critic.forward_max_tokens_per_device = {critic.forward_max_tokens_per_device} has no "
     "effect while algo.advantage is {algo.advantage}"},
    {"critic.max_tokens_per_device", "algo.advantage", kConditions_123, 2,
     "critic.max_tokens_per_device = {critic.max_tokens_per_device} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"critic.max_tokens_per_device", "trainer.dynamic_batching", kConditions_124, 2,
     "critic.max_tokens_per_device = {critic.max_tokens_per_device} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"critic.micro_batch_size", "algo.advantage", kConditions_125, 2,
     "critic.micro_batch_size = {critic.micro_batch_size} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"critic.micro_batch_size", "trainer.dynamic_batching", kConditions_126, 2,
     "critic.micro_batch_size = {critic.micro_batch_size} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"critic.optimizer.grad_clip", "algo.advantage", kConditions_127, 2,
     "critic.optimizer.grad_clip = {critic.optimizer.grad_clip} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"critic.optimizer.lr", "algo.advantage", kConditions_128, 2,
     "critic.optimizer.lr = {critic.optimizer.lr} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"critic.optimizer.weight_decay", "algo.advantage", kConditions_129, 2,
     "critic.optimizer.weight_decay = {critic.optimizer.weight_decay} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"data.shuffle", "data.path", kConditions_130, 2,
     "data.shuffle = {data.shuffle} has no effect while data.path is {data.path}"},
    {"data.shuffle_seed", "data.path", kConditions_131, 2,
     "data.shuffle_seed = {data.shuffle_seed} has no effect while data.path is {data.path}"},
    {"data.shuffle_seed", "data.shuffle", kConditions_132, 2,
     "data.shuffle_seed = {data.shuffle_seed} has no effect while data.shuffle is {data.shuffle}"},
    {"engine.chunked_prefill", "engine.max_num_batched_tokens", kConditions_133, 2,
     "engine.chunked_prefill is false, so a whole sequence must fit into one forward: "
     "engine.max_num_batched_tokens is {engine.max_num_batched_tokens} but engine.max_model_len "
     "is {engine.max_model_len}"},
    {"engine.graph_batch_sizes", "runtime.device", kConditions_134, 2,
     "engine.graph_batch_sizes = {engine.graph_batch_sizes} has no effect while runtime.device "
     "is {runtime.device}"},
    {"engine.keep_kv_on_publish", "engine.preemption", kConditions_135, 2,
     "engine.keep_kv_on_publish needs engine.preemption = swap: a preempted sample would lose "
     "its KV"},
    {"engine.keep_kv_on_publish", "model.compute_copies", kConditions_136, 2,
     "engine.keep_kv_on_publish = {engine.keep_kv_on_publish} has no effect while "
     "model.compute_copies is {model.compute_copies}"},
    {"engine.max_num_seqs", "engine.max_num_batched_tokens", kConditions_137, 1,
     "engine.max_num_seqs is {engine.max_num_seqs} but must not exceed "
     "engine.max_num_batched_tokens, which is {engine.max_num_batched_tokens}"},
    {"engine.memory_fraction", "runtime.memory_budget_bytes", kConditions_138, 2,
     "engine.memory_fraction = {engine.memory_fraction} has no effect while "
     "runtime.memory_budget_bytes is {runtime.memory_budget_bytes}"},
    {"engine.preemption", "engine.swap_space_bytes", kConditions_139, 2,
     "engine.preemption = swap needs engine.swap_space_bytes, which is 0"},
    {"engine.prefill_chunk", "engine.chunked_prefill", kConditions_140, 2,
     "engine.prefill_chunk = {engine.prefill_chunk} has no effect while engine.chunked_prefill "
     "is {engine.chunked_prefill}"},
    {"engine.prefill_chunk", "engine.max_num_batched_tokens", kConditions_141, 1,
     "engine.prefill_chunk is {engine.prefill_chunk} but a forward has at most "
     "engine.max_num_batched_tokens = {engine.max_num_batched_tokens}"},
    {"engine.swap_space_bytes", "engine.preemption", kConditions_142, 2,
     "engine.swap_space_bytes = {engine.swap_space_bytes} has no effect while engine.preemption "
     "is {engine.preemption}"},
    {"engine.tensor_parallel_size", "runtime.device", kConditions_143, 2,
     "engine.tensor_parallel_size is {engine.tensor_parallel_size}, but runtime.device = cpu is "
     "one device; engine.num_engines makes replicas"},
    {"eval.every_steps", "eval.path", kConditions_144, 2,
     "eval.every_steps = {eval.every_steps} has no effect while eval.path is {eval.path}"},
    {"eval.max_new_tokens", "algo.objective", kConditions_145, 2,
     "eval.max_new_tokens = {eval.max_new_tokens} has no effect while algo.objective is "
     "{algo.objective}"},
    {"eval.max_new_tokens", "engine.max_model_len", kConditions_146, 2,
     "eval.max_new_tokens is {eval.max_new_tokens} and leaves no room for a prompt: "
     "engine.max_model_len is {engine.max_model_len}"},
    {"eval.max_new_tokens", "eval.path", kConditions_147, 2,
     "eval.max_new_tokens = {eval.max_new_tokens} has no effect while eval.path is {eval.path}"},
    {"eval.max_prompts", "eval.path", kConditions_148, 2,
     "eval.max_prompts = {eval.max_prompts} has no effect while eval.path is {eval.path}"},
    {"eval.samples_per_prompt", "eval.temperature", kConditions_149, 2,
     "eval.samples_per_prompt is {eval.samples_per_prompt}, but at eval.temperature 0 all "
     "responses to a prompt are equal"},
    {"eval.temperature", "algo.objective", kConditions_150, 2,
     "eval.temperature = {eval.temperature} has no effect while algo.objective is "
     "{algo.objective}"},
    {"eval.temperature", "eval.path", kConditions_151, 2,
     "eval.temperature = {eval.temperature} has no effect while eval.path is {eval.path}"},
    {"metrics.eval_jsonl", "eval.path", kConditions_152, 2,
     "metrics.eval_jsonl = {metrics.eval_jsonl} has no effect while eval.path is {eval.path}"},
    {"metrics.interval_steps", "metrics.jsonl", kConditions_153, 2,
     "metrics.interval_steps = {metrics.interval_steps} has no effect while metrics.jsonl is "
     "{metrics.jsonl}"},
    {"metrics.max_samples", "eval.path", kConditions_154, 2,
     "metrics.max_samples = {metrics.max_samples} has no effect while eval.path is {eval.path}"},
    {"metrics.max_samples", "metrics.samples", kConditions_155, 2,
     "metrics.max_samples = {metrics.max_samples} has no effect while metrics.samples is "
     "{metrics.samples}"},
    {"metrics.samples", "algo.objective", kConditions_156, 5,
     "metrics.samples = {metrics.samples} has no effect while algo.objective is {algo.objective}"},
    {"metrics.samples", "algo.objective", kConditions_157, 2,
     "metrics.samples = {metrics.samples} has no effect while algo.objective is {algo.objective}"},
    {"metrics.tensorboard", "metrics.jsonl", kConditions_158, 2,
     "metrics.tensorboard = {metrics.tensorboard} has no effect while metrics.jsonl is "
     "{metrics.jsonl}"},
    {"model.compute_copies", "algo.objective", kConditions_159, 2,
     "model.compute_copies = {model.compute_copies} has no effect while algo.objective is "
     "{algo.objective}"},
    {"model.critic_path", "algo.advantage", kConditions_160, 2,
     "model.critic_path = {model.critic_path} has no effect while algo.advantage is "
     "{algo.advantage}"},
    {"model.reference_path", "algo.kl.where", kConditions_161, 3,
     "model.reference_path = {model.reference_path} has no effect while algo.kl.where is "
     "{algo.kl.where}"},
    {"model.reward_path", "algo.gdpo_weights", kConditions_162, 2,
     "algo.gdpo_weights needs kinds of reward, but the reward model of model.reward_path gives "
     "one number"},
    {"model.reward_path", "algo.objective", kConditions_163, 2,
     "model.reward_path = {model.reward_path} has no effect while algo.objective is "
     "{algo.objective}"},
    {"model.teacher_path", "algo.objective", kConditions_164, 2,
     "model.teacher_path = {model.teacher_path} has no effect while algo.objective is "
     "{algo.objective}"},
    {"pipeline.discard_zero_advantage", "algo.advantage", kConditions_165, 2,
     "pipeline.discard_zero_advantage = {pipeline.discard_zero_advantage} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"pipeline.discard_zero_advantage", "algo.advantage", kConditions_166, 2,
     "pipeline.discard_zero_advantage = {pipeline.discard_zero_advantage} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"pipeline.discard_zero_advantage", "algo.advantage", kConditions_167, 2,
     "pipeline.discard_zero_advantage = {pipeline.discard_zero_advantage} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"pipeline.discard_zero_advantage", "algo.advantage", kConditions_168, 2,
     "pipeline.discard_zero_advantage = {pipeline.discard_zero_advantage} has no effect while "
     "algo.advantage is {algo.advantage}"},
    {"pipeline.discard_zero_advantage", "algo.objective", kConditions_169, 3,
     "pipeline.discard_zero_advantage = {pipeline.discard_zero_advantage} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.discard_zero_advantage", "algo.objective", kConditions_170, 2,
     "pipeline.discard_zero_advantage drops groups of equal rewards, but with algo.objective = "
     "distill their tokens learn from the teacher"},
    {"pipeline.filter", "algo.objective", kConditions_171, 3,
     "pipeline.filter = {pipeline.filter} has no effect while algo.objective is {algo.objective}"},
    {"pipeline.filter_high", "pipeline.filter", kConditions_172, 2,
     "pipeline.filter_high = {pipeline.filter_high} has no effect while pipeline.filter is "
     "{pipeline.filter}"},
    {"pipeline.filter_low", "pipeline.filter", kConditions_173, 2,
     "pipeline.filter_low = {pipeline.filter_low} has no effect while pipeline.filter is "
     "{pipeline.filter}"},
    {"pipeline.filter_low", "pipeline.filter_high", kConditions_174, 1,
     "pipeline.filter_low is {pipeline.filter_low} but pipeline.filter_high is "
     "{pipeline.filter_high}"},
    {"pipeline.filter_max_rounds", "pipeline.filter", kConditions_175, 2,
     "pipeline.filter_max_rounds = {pipeline.filter_max_rounds} has no effect while "
     "pipeline.filter is {pipeline.filter}"},
    {"pipeline.filter_spread", "pipeline.filter", kConditions_176, 2,
     "pipeline.filter_spread = {pipeline.filter_spread} has no effect while pipeline.filter is "
     "{pipeline.filter}"},
    {"pipeline.overlong_filter", "algo.objective", kConditions_177, 3,
     "pipeline.overlong_filter = {pipeline.overlong_filter} has no effect while algo.objective "
     "is {algo.objective}"},
    {"pipeline.repetition_filter", "algo.objective", kConditions_178, 3,
     "pipeline.repetition_filter = {pipeline.repetition_filter} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.repetition_ngram", "pipeline.repetition_filter", kConditions_179, 2,
     "pipeline.repetition_ngram = {pipeline.repetition_ngram} has no effect while "
     "pipeline.repetition_filter is {pipeline.repetition_filter}"},
    {"pipeline.reward_timeout_ns", "algo.objective", kConditions_180, 5,
     "pipeline.reward_timeout_ns = {pipeline.reward_timeout_ns} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.reward_timeout_ns", "algo.objective", kConditions_181, 2,
     "pipeline.reward_timeout_ns = {pipeline.reward_timeout_ns} has no effect while "
     "algo.objective is {algo.objective}"},
    {"pipeline.reward_timeout_ns", "model.reward_path", kConditions_182, 2,
     "pipeline.reward_timeout_ns = {pipeline.reward_timeout_ns} has no effect while "
     "model.reward_path is {model.reward_path}"},
    {"pipeline.samples_per_prompt", "algo.objective", kConditions_183, 3,
     "pipeline.samples_per_prompt = {pipeline.samples_per_prompt} has no effect while "
     "algo.objective is {algo.objective}"},
    {"profiler.timeline.dir", "profiler.timeline.enable", kConditions_184, 2,
     "profiler.timeline.dir = {profiler.timeline.dir} has no effect while "
     "profiler.timeline.enable is {profiler.timeline.enable}"},
    {"profiler.timeline.enable", "profiler.timeline.dir", kConditions_185, 2,
     "profiler.timeline.enable is true but profiler.timeline.dir is empty"},
    {"reference.forward_max_tokens_per_device", "algo.kl.where", kConditions_186, 3,
     "reference.forward_max_tokens_per_device = {reference.forward_max_tokens_per_device} has no "
     "effect while algo.kl.where is {algo.kl.where}"},
    {"reward.forward_max_tokens_per_device", "model.reward_path", kConditions_187, 2,
     "reward.forward_max_tokens_per_device = {reward.forward_max_tokens_per_device} has no "
     "effect while model.reward_path is {model.reward_path}"},
    {"runtime.experiment", "checkpoint.dir", kConditions_188, 7,
     "runtime.experiment = {runtime.experiment} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"runtime.memory_margin_bytes", "runtime.memory_budget_bytes", kConditions_189, 2,
     "runtime.memory_margin_bytes = {runtime.memory_margin_bytes} has no effect while "
     "runtime.memory_budget_bytes is {runtime.memory_budget_bytes}"},
    {"runtime.memory_margin_bytes", "runtime.memory_budget_bytes", kConditions_190, 2,
     "runtime.memory_margin_bytes is {runtime.memory_margin_bytes} and leaves nothing of "
     "runtime.memory_budget_bytes, which is {runtime.memory_budget_bytes}"},
    {"runtime.output_dir", "checkpoint.dir", kConditions_191, 7,
     "runtime.output_dir = {runtime.output_dir} has no effect while checkpoint.dir is "
     "{checkpoint.dir}"},
    {"sampling.max_new_tokens", "engine.max_model_len", kConditions_192, 5,
     "sampling.max_new_tokens is {sampling.max_new_tokens} and leaves no room for a prompt: "
     "engine.max_model_len is {engine.max_model_len}"},
    {"sampling.max_new_tokens", "engine.max_model_len", kConditions_193, 6,
     "sampling.max_new_tokens is {sampling.max_new_tokens} and leaves no room for a prompt: "
     "engine.max_model_len is {engine.max_model_len}"},
    {"sampling.min_new_tokens", "sampling.max_new_tokens", kConditions_194, 1,
     "sampling.min_new_tokens is {sampling.min_new_tokens} but must not exceed "
     "sampling.max_new_tokens, which is {sampling.max_new_tokens}"},
    {"sampling.min_p", "sampling.temperature", kConditions_195, 2,
     "sampling.min_p = {sampling.min_p} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"sampling.top_k", "sampling.temperature", kConditions_196, 2,
     "sampling.top_k = {sampling.top_k} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"sampling.top_p", "sampling.temperature", kConditions_197, 2,
     "sampling.top_p = {sampling.top_p} has no effect while sampling.temperature is "
     "{sampling.temperature}"},
    {"schedule.min_lr", "optimizer.lr", kConditions_198, 1,
     "schedule.min_lr is {schedule.min_lr} but optimizer.lr is {optimizer.lr}"},
    {"schedule.min_lr", "schedule.name", kConditions_199, 2,
     "schedule.min_lr = {schedule.min_lr} has no effect while schedule.name is {schedule.name}"},
    {"schedule.name", "schedule.total_steps", kConditions_200, 2,
     "schedule.name = {schedule.name} needs schedule.total_steps, which is 0"},
    {"schedule.total_steps", "schedule.name", kConditions_201, 2,
     "schedule.total_steps = {schedule.total_steps} has no effect while schedule.name is "
     "{schedule.name}"},
    {"schedule.warmup_steps", "schedule.total_steps", kConditions_202, 2,
     "schedule.warmup_steps is {schedule.warmup_steps} but must not exceed schedule.total_steps, "
     "which is {schedule.total_steps}"},
    {"trainer.balance", "trainer.dynamic_batching", kConditions_203, 2,
     "trainer.balance = {trainer.balance} has no effect while trainer.dynamic_batching is "
     "{trainer.dynamic_batching}"},
    {"trainer.balance", "trainer.sequence_packing", kConditions_204, 2,
     "trainer.balance = {trainer.balance} has no effect while trainer.sequence_packing is "
     "{trainer.sequence_packing}"},
    {"trainer.check_logprobs", "algo.objective", kConditions_205, 3,
     "trainer.check_logprobs = {trainer.check_logprobs} has no effect while algo.objective is "
     "{algo.objective}"},
    {"trainer.global_batch_size", "pipeline.prompts_per_step", kConditions_206, 3,
     "trainer.global_batch_size is {trainer.global_batch_size} but a step has the responses of "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} rows"},
    {"trainer.global_batch_size", "pipeline.samples_per_prompt", kConditions_207, 4,
     "trainer.global_batch_size is {trainer.global_batch_size} but a step has "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} times pipeline.samples_per_prompt "
     "= {pipeline.samples_per_prompt} samples"},
    {"trainer.logprob_chunk_tokens", "algo.objective", kConditions_208, 2,
     "trainer.logprob_chunk_tokens = {trainer.logprob_chunk_tokens} has no effect while "
     "algo.objective is {algo.objective}"},
    {"trainer.max_tokens_per_device", "trainer.dynamic_batching", kConditions_209, 2,
     "trainer.max_tokens_per_device = {trainer.max_tokens_per_device} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"trainer.micro_batch_size", "trainer.dynamic_batching", kConditions_210, 2,
     "trainer.micro_batch_size = {trainer.micro_batch_size} has no effect while "
     "trainer.dynamic_batching is {trainer.dynamic_batching}"},
    {"trainer.num_minibatches", "pipeline.prompts_per_step", kConditions_211, 3,
     "trainer.num_minibatches is {trainer.num_minibatches} but a step has the responses of "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} rows"},
    {"trainer.num_minibatches", "pipeline.samples_per_prompt", kConditions_212, 4,
     "trainer.num_minibatches is {trainer.num_minibatches} but a step has "
     "pipeline.prompts_per_step = {pipeline.prompts_per_step} times pipeline.samples_per_prompt "
     "= {pipeline.samples_per_prompt} samples"},
    {"trainer.num_minibatches", "trainer.global_batch_size", kConditions_213, 2,
     "trainer.num_minibatches = {trainer.num_minibatches} has no effect while "
     "trainer.global_batch_size is {trainer.global_batch_size}"},
    {"trainer.oversize", "trainer.max_tokens_per_device", kConditions_214, 8,
     "trainer.oversize = {trainer.oversize} has no effect while trainer.max_tokens_per_device is "
     "{trainer.max_tokens_per_device}"},
    {"trainer.pad_to_multiple_of", "trainer.seq_len", kConditions_215, 2,
     "trainer.pad_to_multiple_of = {trainer.pad_to_multiple_of} has no effect while "
     "trainer.seq_len is {trainer.seq_len}"},
    {"trainer.seq_len", "trainer.dynamic_batching", kConditions_216, 3,
     "trainer.seq_len = {trainer.seq_len} is the token budget of a packed micro-batch, but with "
     "trainer.dynamic_batching = false micro-batches are counted in sequences"},
    {"trainer.seq_len", "trainer.max_tokens_per_device", kConditions_217, 3,
     "trainer.seq_len is {trainer.seq_len}, the token budget of a packed micro-batch, but "
     "trainer.max_tokens_per_device sets a different one, {trainer.max_tokens_per_device}"},
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
     "Long responses. Fewer sequences run at once, so that the KV of each can be long; prompts "
     "are prefilled in larger chunks; in training the head computes fewer tokens at a time. The "
     "longest sequence remains that of the model, or engine.max_model_len.",
     kSettings_long_context, 6},
    {"low_memory",
     "Least memory, at the cost of speed. Small forwards and few sequences in the engine, small "
     "chunks of the head in training, and a micro-batch that the plan fits into "
     "runtime.memory_budget_bytes.",
     kSettings_low_memory, 4},
};

}  // namespace

OptionRules option_rules() { return {kRules, std::size(kRules)}; }
OptionPresets option_presets() { return {kPresets, std::size(kPresets)}; }

}  // namespace rl
