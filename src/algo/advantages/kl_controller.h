// The coefficient of the KL penalty over time.
//
//   fixed     the coefficient is constant
//   adaptive  after a batch: coef *= 1 + clamp(kl / target - 1, -0.2, 0.2) * samples / horizon
//             (arXiv 1909.08593, section 2.2; verl and OpenRLHF alike)
//
// The coefficient is part of the state of a run: it belongs in a checkpoint.
#pragma once
#include <cstdint>
#include <string_view>

namespace rl {

enum class KlControl : uint8_t { kFixed, kAdaptive };
std::string_view kl_control_name(KlControl v);
KlControl parse_kl_control(std::string_view text);  // key algo.kl.controller

struct KlControllerParams {
  KlControl kind = KlControl::kFixed;
  double target = 0.1;     // adaptive: > 0
  double horizon = 10000;  // adaptive: > 0, in samples
};

// Throws Error(kOutOfRange) naming the option.
void validate(const KlControllerParams& params);

// The coefficient after a batch of num_samples with mean KL kl.
double next_kl_coef(const KlControllerParams& params, double coef, double kl, int64_t num_samples);

}  // namespace rl
