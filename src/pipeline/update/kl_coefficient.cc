// Without a controller the coefficient is the option's value at all times.
#include "pipeline/update/kl_coefficient.h"

#include "pipeline/config/algo_options.h"

namespace rl {

KlCoefficient::KlCoefficient(const Settings& settings) {
  set_options(settings);
  value_ = option_value_;
}

void KlCoefficient::set_options(const Settings& settings) {
  const double value = settings.algo.kl.coef;
  controller_ = kl_controller_from(settings);
  in_loss_ = settings.algo.kl.where == AlgoKlWhere::kLoss;
  if (value != option_value_ || controller_.kind == KlControl::kFixed) value_ = value;
  option_value_ = value;
}

void KlCoefficient::update(double kl, int64_t samples) {
  if (controller_.kind == KlControl::kFixed) return;
  value_ = next_kl_coef(controller_, value_, kl, samples);
}

std::optional<double> KlCoefficient::adaptive() const {
  if (controller_.kind == KlControl::kFixed) return std::nullopt;
  return value_;
}

}  // namespace rl
