// One function per record.
#include "pipeline/config/algo_options.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "core/encoding/unicode.h"
#include "core/error.h"

namespace rl {
namespace {

PolicyLossParams policy_loss_from(const OptionSet& options) {
  PolicyLossParams p;
  p.kind = parse_policy_loss(options.get_string("algo.policy_loss"));
  p.clip_low = options.get_f64("algo.clip_low");
  p.clip_high = options.get_f64("algo.clip_high");
  p.dual_clip = options.get_f64("algo.dual_clip");
  p.ratio_log_clamp = options.get_f64("algo.ratio_log_clamp");
  p.ratio_cap = options.get_f64("algo.ratio_cap");
  p.sapo_tau_pos = options.get_f64("algo.sapo_tau_pos");
  p.sapo_tau_neg = options.get_f64("algo.sapo_tau_neg");
  p.dro_beta = options.get_f64("algo.dro_beta");
  p.kl_cov_coef = options.get_f64("algo.kl_cov_coef");
  if (options.get_string("algo.gspo_gradient") == "sequence") {
    p.gspo_gradient = GspoGradient::kSequence;
  }
  return p;
}

// Parses a number; the whole text must match.
bool parse_number(std::string_view text, double& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

[[noreturn]] void refuse_entry(const char* key, size_t index, const std::string& text,
                               const char* expected) {
  throw Error(Code::kInvalidArgument,
              str(key, "[", index, "] is ", quote_text(text), ", expected ", expected))
      .with_key(key)
      .with_expected(expected)
      .with_location(str(key, "[", index, "]"));
}

// For k1 "0.5_2", or "2", which means 0.5_2; for the others "2".
Rejection rejection_from(const std::string& name, const std::string& bounds, size_t index) {
  constexpr const char* kBounds = "algo.correction.rs_bounds";
  Rejection r = parse_rejection(name);
  const bool two_sided = r.statistic == RejectStatistic::kK1;
  const char* expected = two_sided ? "LOW_HIGH or a number" : "a number";
  const size_t cut = bounds.find('_');
  const std::string_view text = bounds;
  if (cut != std::string::npos) {
    if (!two_sided || !parse_number(text.substr(0, cut), r.low) ||
        !parse_number(text.substr(cut + 1), r.high)) {
      refuse_entry(kBounds, index, bounds, expected);
    }
  } else {
    if (!parse_number(text, r.high)) refuse_entry(kBounds, index, bounds, expected);
    if (two_sided) r.low = 1 / r.high;
  }
  validate(r);
  return r;
}

CorrectionOptions correction_from(const OptionSet& options) {
  CorrectionOptions c;
  c.weights.level = parse_correction_level(options.get_string("algo.correction.is"));
  c.weights.mode = parse_correction_mode(options.get_string("algo.correction.mode"));
  c.weights.low = options.get_f64("algo.correction.low");
  c.weights.high = options.get_f64("algo.correction.high");
  c.batch_normalize = options.get_bool("algo.correction.batch_normalize");
  c.weights.log_clamp = options.get_f64("algo.correction.log_clamp");
  c.veto = options.get_f64("algo.correction.veto");
  c.counts_rejected = options.get_string("algo.correction.denominator") == "all";
  c.opsm_delta = options.get_f64("algo.correction.opsm_delta");
  c.decoupled = options.get_bool("algo.correction.decoupled");
  const std::vector<std::string>& names = options.get_string_list("algo.correction.rs");
  const std::vector<std::string>& bounds = options.get_string_list("algo.correction.rs_bounds");
  if (names.size() != bounds.size()) {
    throw Error(Code::kConflict, str("algo.correction.rs has ", names.size(),
                                     " entries but algo.correction.rs_bounds has ", bounds.size()))
        .with_key("algo.correction.rs_bounds")
        .with_other_key("algo.correction.rs");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    c.rejections.push_back(rejection_from(names[i], bounds[i], i));
  }
  return c;
}

}  // namespace

KlBounds kl_bounds_from(const OptionSet& options) {
  KlBounds b;
  b.value_clamp = options.get_f64("algo.kl.value_clamp");
  const std::string& ratio = options.get_string("algo.kl.ratio");
  if (ratio == "gradient") b.ratio = KlRatio::kGradient;
  if (ratio == "full") b.ratio = KlRatio::kFull;
  b.ratio_cap = options.get_f64("algo.kl.ratio_cap");
  return b;
}

namespace {

DpoParams dpo_from(const OptionSet& options) {
  DpoParams p;
  p.beta = options.get_f64("algo.dpo.beta");
  p.label_smoothing = options.get_f64("algo.dpo.label_smoothing");
  p.ipo = options.get_bool("algo.dpo.ipo");
  p.nll_coef = options.get_f64("algo.dpo.nll_coef");
  return p;
}

DistillOptions distill_from(const OptionSet& options) {
  DistillOptions d;
  if (!distills_rows(options)) return d;
  d.on_rows = true;
  d.params.kind = parse_distill_kl(options.get_string("algo.distill.kl"));
  d.params.beta = options.get_f64("algo.distill.beta");
  d.coef = options.get_f64("algo.distill.coef");
  return d;
}

}  // namespace

bool distills_rows(const OptionSet& options) {
  return objective_of(options) == Objective::kDistill &&
         options.get_string("algo.distill.kl") != "sampled";
}

Objective objective_of(const OptionSet& options) {
  return parse_objective(options.get_string("algo.objective"));
}

ModelHead trained_head(const OptionSet& options) {
  return objective_of(options) == Objective::kRewardModel ? ModelHead::kScalar : ModelHead::kLogits;
}

bool uses_reference(const OptionSet& options) {
  return options.get_string("algo.kl.where") != "none" || objective_of(options) == Objective::kDpo;
}

void fill_algorithm(const OptionSet& options, TrainerOptions& t) {
  t.objective = objective_of(options);
  t.dpo = dpo_from(options);
  t.policy_loss = policy_loss_from(options);
  t.clip_cov.ratio = options.get_f64("algo.cov_ratio");
  t.clip_cov.low = options.get_f64("algo.clip_cov_low");
  t.clip_cov.high = options.get_f64("algo.clip_cov_high");
  t.seed = options.get_u64("runtime.seed");
  t.correction = correction_from(options);
  t.entropy_coef = options.get_f64("algo.entropy_coef");
  t.kl_in_loss = options.get_string("algo.kl.where") == "loss";
  t.kl_estimator = parse_kl_estimator(options.get_string("algo.kl.estimator"));
  t.kl_bounds = kl_bounds_from(options);
  t.kl_coef = options.get_f64("algo.kl.coef");
  t.distill = distill_from(options);
}

namespace {

AdvantageParams estimator_from(const OptionSet& options) {
  AdvantageParams p;
  p.kind = parse_advantage(options.get_string("algo.advantage"));
  p.norm_std = options.get_bool("algo.adv_norm_std");
  p.eps = options.get_f64("algo.adv_eps");
  p.ddof = static_cast<int32_t>(options.get_i64("algo.adv_ddof"));
  p.singleton = parse_adv_singleton(options.get_string("algo.adv_singleton"));
  const bool of_batch = options.get_string("algo.adv_std_scope") == "batch";
  p.std_scope = of_batch ? AdvStdScope::kBatch : AdvStdScope::kGroup;
  validate(p);
  return p;
}

RewardShaping shaping_from(const OptionSet& options) {
  RewardShaping s;
  s.normalize = options.get_bool("algo.reward.normalize");
  s.truncation_penalty = options.get_f64("algo.reward.truncation_penalty");
  s.overlong.max_length = static_cast<int32_t>(options.get_i64("sampling.max_new_tokens"));
  s.overlong.buffer = static_cast<int32_t>(options.get_i64("algo.reward.overlong_buffer"));
  s.overlong.penalty = options.get_f64("algo.reward.overlong_penalty");
  s.clip = {options.get_f64("algo.reward.clip_low"), options.get_f64("algo.reward.clip_high")};
  s.clips = s.clip.low != 0 || s.clip.high != 0;
  s.clips_advantage = options.get_string("algo.reward.clip_at") == "advantage";
  validate(s.overlong);
  validate(s.clip);
  return s;
}

std::vector<double> gdpo_weights_from(const OptionSet& options) {
  constexpr const char* kKey = "algo.gdpo_weights";
  std::vector<double> weights;
  for (const std::string& text : options.get_string_list(kKey)) {
    weights.push_back(0);
    if (parse_number(text, weights.back()) && std::isfinite(weights.back())) continue;
    refuse_entry(kKey, weights.size() - 1, text, "a finite number");
  }
  return weights;
}

Whitening whitening_from(const OptionSet& options, Advantage kind) {
  const std::string& name = options.get_string("algo.whiten");
  if (name == "floor") return Whitening::kFloor;
  const bool defined = kind == Advantage::kGae || kind == Advantage::kReinforcePp ||
                       kind == Advantage::kReinforcePpBaseline || kind == Advantage::kGdpo;
  return name == "eps" || (name == "auto" && defined) ? Whitening::kEps : Whitening::kNone;
}

}  // namespace

AdvantageOptions advantage_options_from(const OptionSet& options) {
  AdvantageOptions a;
  a.estimator = estimator_from(options);
  a.gdpo_weights = gdpo_weights_from(options);
  a.returns = {options.get_f64("algo.gamma"), options.get_f64("algo.lambda"),
               parse_masked_tokens(options.get_string("algo.gae_masked"))};
  a.whitening = whitening_from(options, a.estimator.kind);
  a.shaping = shaping_from(options);
  a.kl_in_reward = options.get_string("algo.kl.where") == "reward";
  a.kl_per_token = options.get_string("algo.kl.spread") == "token";
  a.kl_estimator = parse_kl_estimator(options.get_string("algo.kl.estimator"));
  a.kl_bounds.value_clamp = options.get_f64("algo.kl.value_clamp");
  a.masks_overlong = options.get_bool("pipeline.overlong_filter");
  a.repetition_limit = options.get_f64("pipeline.repetition_filter");
  a.repetition_ngram = static_cast<int32_t>(options.get_i64("pipeline.repetition_ngram"));
  return a;
}

KlControllerParams kl_controller_from(const OptionSet& options) {
  KlControllerParams p;
  p.kind = parse_kl_control(options.get_string("algo.kl.controller"));
  p.target = options.get_f64("algo.kl.target");
  p.horizon = options.get_f64("algo.kl.horizon");
  validate(p);
  return p;
}

}  // namespace rl
