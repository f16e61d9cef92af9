// The coefficient of the KL term over the steps of a run: fixed, or moved by the controller of
// algo.kl.control. One owner; not thread-safe.
#pragma once
#include <cstdint>
#include <optional>

#include "pipeline/config/advantage_options.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

class KlCoefficient {
 public:
  explicit KlCoefficient(const Settings& settings);
  // A coefficient that changes in the options is where the controller continues from.
  void set_options(const Settings& settings);

  double value() const { return value_; }
  // Whether the loss contains the KL term, so that the trainer needs the coefficient.
  bool in_loss() const { return in_loss_; }
  // After a step that updated the policy on this many samples, with their mean KL.
  void update(double kl, int64_t samples);

  // The value of the adaptive controller, stored in checkpoints. Empty for a fixed coefficient.
  std::optional<double> adaptive() const;
  void restore(double value) { value_ = value; }

 private:
  KlControllerParams controller_;
  bool in_loss_ = false;
  double option_value_ = 0, value_ = 0;
};

}  // namespace rl
