// Range checks; the rules of the algorithms are in algo/.
#include "train/options/trainer_options.h"

#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

void require_finite(std::string_view key, double value) {
  require_value(value >= 0 && std::isfinite(value), key, value, "a finite value of at least 0");
}

void check_correction(const TrainerOptions& o) {
  const CorrectionOptions& c = o.correction;
  validate(c.weights);
  for (const Rejection& r : c.rejections) validate(r);
  require_finite("algo.correction.opsm_delta", c.opsm_delta);
  const PolicyLoss kind = o.policy_loss.kind;
  const bool has_ratio =
      kind != PolicyLoss::kNone && kind != PolicyLoss::kGpg && kind != PolicyLoss::kCustom;
  if (c.weights.level == CorrectionLevel::kNone || c.decoupled || !has_ratio) return;
  throw Error(Code::kConflict,
              str("algo.correction.is = ", correction_level_name(c.weights.level),
                  " would count the mismatch twice: without algo.correction.decoupled the ratio of "
                  "the loss is already relative to the sampler"))
      .with_key("algo.correction.is")
      .with_other_key("algo.correction.decoupled");
}

}  // namespace

void validate(const TrainerOptions& o) {
  validate(static_cast<const StepOptions&>(o));
  validate(o.dpo);
  validate(o.policy_loss);
  validate(o.clip_cov);
  check_correction(o);
  require_finite("algo.entropy_coef", o.entropy_coef);
  require_finite("algo.kl.coef", o.kl_coef);
  validate(o.distill.params);
  require_finite("algo.distill.coef", o.distill.coef);
}

}  // namespace rl
