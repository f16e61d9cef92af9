// One function per record.
#include "pipeline/config/algo_options.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "core/encoding/unicode.h"
#include "core/error.h"

namespace rl {
namespace {

PolicyLossParams policy_loss_from(const AlgoSettings& algo) {
  PolicyLossParams p;
  p.kind = algo.policy_loss;
  p.clip_low = algo.clip_low;
  p.clip_high = algo.clip_high;
  p.dual_clip = algo.dual_clip;
  p.ratio_log_clamp = algo.ratio_log_clamp;
  p.ratio_cap = algo.ratio_cap;
  p.sapo_tau_pos = algo.sapo_tau_pos;
  p.sapo_tau_neg = algo.sapo_tau_neg;
  p.dro_beta = algo.dro_beta;
  p.kl_cov_coef = algo.kl_cov_coef;
  if (algo.gspo_gradient == AlgoGspoGradient::kSequence) {
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

CorrectionOptions correction_from(const AlgoCorrectionSettings& correction) {
  CorrectionOptions c;
  c.weights.level = correction.is;
  c.weights.mode = correction.mode;
  c.weights.low = correction.low;
  c.weights.high = correction.high;
  c.batch_normalize = correction.batch_normalize;
  c.weights.log_clamp = correction.log_clamp;
  c.veto = correction.veto;
  c.counts_rejected = correction.denominator == AlgoCorrectionDenominator::kAll;
  c.opsm_delta = correction.opsm_delta;
  c.decoupled = correction.decoupled;
  const std::vector<std::string>&names = correction.rs, &bounds = correction.rs_bounds;
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

KlBounds kl_bounds_from(const Settings& settings) {
  KlBounds b;
  const AlgoKlSettings& kl = settings.algo.kl;
  b.value_clamp = kl.value_clamp;
  if (kl.ratio == AlgoKlRatio::kGradient) b.ratio = KlRatio::kGradient;
  if (kl.ratio == AlgoKlRatio::kFull) b.ratio = KlRatio::kFull;
  b.ratio_cap = kl.ratio_cap;
  return b;
}

namespace {

DpoParams dpo_from(const AlgoDpoSettings& dpo) {
  DpoParams p;
  p.beta = dpo.beta;
  p.label_smoothing = dpo.label_smoothing;
  p.ipo = dpo.ipo;
  p.nll_coef = dpo.nll_coef;
  return p;
}

DistillOptions distill_from(const Settings& settings) {
  DistillOptions d;
  if (!distills_rows(settings)) return d;
  d.on_rows = true;
  // By its text: DistillKl has the divergences of whole rows alone.
  d.params.kind = parse_distill_kl(settings.set.get_string("algo.distill.kl"));
  d.params.beta = settings.algo.distill.beta;
  d.coef = settings.algo.distill.coef;
  return d;
}

}  // namespace

bool distills_rows(const Settings& settings) {
  return settings.algo.objective == Objective::kDistill &&
         settings.algo.distill.kl != AlgoDistillKl::kSampled;
}

ModelHead trained_head(const Settings& settings) {
  const bool scores = settings.algo.objective == Objective::kRewardModel;
  return scores ? ModelHead::kScalar : ModelHead::kLogits;
}

bool uses_reference(const Settings& settings) {
  return settings.algo.kl.where != AlgoKlWhere::kNone || settings.algo.objective == Objective::kDpo;
}

void fill_algorithm(const Settings& settings, TrainerOptions& t) {
  const AlgoSettings& algo = settings.algo;
  t.objective = algo.objective;
  t.dpo = dpo_from(algo.dpo);
  t.policy_loss = policy_loss_from(algo);
  t.clip_cov.ratio = algo.cov_ratio;
  t.clip_cov.low = algo.clip_cov_low;
  t.clip_cov.high = algo.clip_cov_high;
  t.seed = settings.runtime.seed;
  t.correction = correction_from(algo.correction);
  t.entropy_coef = algo.entropy_coef;
  t.kl_in_loss = algo.kl.where == AlgoKlWhere::kLoss;
  t.kl_estimator = algo.kl.estimator;
  t.kl_bounds = kl_bounds_from(settings);
  t.kl_coef = algo.kl.coef;
  t.distill = distill_from(settings);
}

namespace {

AdvantageParams estimator_from(const AlgoSettings& algo) {
  AdvantageParams p;
  p.kind = algo.advantage;
  p.norm_std = algo.adv_norm_std;
  p.eps = algo.adv_eps;
  p.ddof = static_cast<int32_t>(algo.adv_ddof);
  p.singleton = algo.adv_singleton;
  const bool of_batch = algo.adv_std_scope == AlgoAdvStdScope::kBatch;
  p.std_scope = of_batch ? AdvStdScope::kBatch : AdvStdScope::kGroup;
  validate(p);
  return p;
}

RewardShaping shaping_from(const Settings& settings) {
  RewardShaping s;
  const AlgoRewardSettings& reward = settings.algo.reward;
  s.normalize = reward.normalize;
  s.truncation_penalty = reward.truncation_penalty;
  s.overlong.max_length = static_cast<int32_t>(settings.sampling.max_new_tokens);
  s.overlong.buffer = static_cast<int32_t>(reward.overlong_buffer);
  s.overlong.penalty = reward.overlong_penalty;
  s.clip = {reward.clip_low, reward.clip_high};
  s.clips = s.clip.low != 0 || s.clip.high != 0;
  s.clips_advantage = reward.clip_at == AlgoRewardClipAt::kAdvantage;
  validate(s.overlong);
  validate(s.clip);
  return s;
}

std::vector<double> gdpo_weights_from(const std::vector<std::string>& texts) {
  std::vector<double> weights;
  for (const std::string& text : texts) {
    weights.push_back(0);
    if (parse_number(text, weights.back()) && std::isfinite(weights.back())) continue;
    refuse_entry("algo.gdpo_weights", weights.size() - 1, text, "a finite number");
  }
  return weights;
}

Whitening whitening_from(AlgoWhiten whiten, Advantage kind) {
  if (whiten == AlgoWhiten::kFloor) return Whitening::kFloor;
  const bool defined = kind == Advantage::kGae || kind == Advantage::kReinforcePp ||
                       kind == Advantage::kReinforcePpBaseline || kind == Advantage::kGdpo;
  const bool eps = whiten == AlgoWhiten::kEps || (whiten == AlgoWhiten::kAuto && defined);
  return eps ? Whitening::kEps : Whitening::kNone;
}

}  // namespace

AdvantageOptions advantage_options_from(const Settings& settings) {
  AdvantageOptions a;
  const AlgoSettings& algo = settings.algo;
  a.estimator = estimator_from(algo);
  a.gdpo_weights = gdpo_weights_from(algo.gdpo_weights);
  a.returns = {algo.gamma, algo.lambda, algo.gae_masked};
  a.whitening = whitening_from(algo.whiten, a.estimator.kind);
  a.shaping = shaping_from(settings);
  a.kl_in_reward = algo.kl.where == AlgoKlWhere::kReward;
  a.kl_per_token = algo.kl.spread == AlgoKlSpread::kToken;
  a.kl_estimator = algo.kl.estimator;
  a.kl_bounds.value_clamp = algo.kl.value_clamp;
  a.masks_overlong = settings.pipeline.overlong_filter;
  a.repetition_limit = settings.pipeline.repetition_filter;
  a.repetition_ngram = static_cast<int32_t>(settings.pipeline.repetition_ngram);
  return a;
}

KlControllerParams kl_controller_from(const Settings& settings) {
  KlControllerParams p;
  p.kind = settings.algo.kl.controller;
  p.target = settings.algo.kl.target;
  p.horizon = settings.algo.kl.horizon;
  validate(p);
  return p;
}

}  // namespace rl
