// Learning rate as a function of the optimizer step. step counts from 0: the first optimizer step
// uses learning_rate(s, 0). With W = warmup_steps, N = total_steps, L = lr, m = min_lr and
// q = (step - W) / max(1, N - W):
//
//   step < W  L * step / W  for every schedule, so the first step has rate 0 when W > 0
//   constant  L
//   linear    m + (L - m) * (1 - q)
//   cosine    m + (L - m) * (1 + cos(pi q)) / 2
//
// From step N on linear and cosine stay at m. These are the formulas of transformers'
// get_*_schedule_with_warmup (cosine with m > 0: get_cosine_with_min_lr_schedule_with_warmup),
// which verl, OpenRLHF and TRL use; only their cosine rises again past N.
#pragma once
#include <cstdint>
#include <string_view>

namespace rl {

enum class ScheduleKind : uint8_t { kConstant, kLinear, kCosine };
std::string_view schedule_name(ScheduleKind v);
ScheduleKind parse_schedule(std::string_view text);  // key schedule.name

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double lr = 1e-6;          // finite, >= 0
  int64_t warmup_steps = 0;  // >= 0
  int64_t total_steps = 0;   // linear, cosine: >= 1 and >= warmup_steps; constant ignores it
  double min_lr = 0;         // linear, cosine: 0..lr; constant ignores it
};

// Throws Error(kOutOfRange) naming the option.
void validate(const Schedule& schedule);

// schedule has passed validate; step >= 0.
double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace rl
