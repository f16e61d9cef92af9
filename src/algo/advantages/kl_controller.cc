// One formula.
#include "algo/advantages/kl_controller.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr double kLargestError = 0.2;

constexpr std::array<Choice<KlControl>, 2> kControls{
    {{KlControl::kFixed, "fixed"}, {KlControl::kAdaptive, "adaptive"}}};

}  // namespace

std::string_view kl_control_name(KlControl v) { return choice_name(kControls, v); }
KlControl parse_kl_control(std::string_view text) {
  return parse_choice("algo.kl.controller", kControls, text);
}

void validate(const KlControllerParams& p) {
  if (p.kind == KlControl::kFixed) return;
  require_value(p.target > 0 && std::isfinite(p.target), "algo.kl.target", p.target,
                "a finite value above 0");
  require_value(p.horizon > 0 && std::isfinite(p.horizon), "algo.kl.horizon", p.horizon,
                "a finite value above 0");
}

double next_kl_coef(const KlControllerParams& p, double coef, double kl, int64_t num_samples) {
  validate(p);
  require_value(num_samples >= 0, "num_samples", static_cast<double>(num_samples), "at least 0");
  if (p.kind == KlControl::kFixed) return coef;
  if (!std::isfinite(kl)) throw Error(Code::kNonFinite, "the KL of the batch is not finite");
  const double error = std::clamp(kl / p.target - 1, -kLargestError, kLargestError);
  return coef * (1 + error * static_cast<double>(num_samples) / p.horizon);
}

}  // namespace rl
