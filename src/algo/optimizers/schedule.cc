// Schedules in double.
#include "algo/optimizers/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr std::array<Choice<ScheduleKind>, 3> kSchedules{{
    {ScheduleKind::kConstant, "constant"},
    {ScheduleKind::kLinear, "linear"},
    {ScheduleKind::kCosine, "cosine"},
}};

}  // namespace

std::string_view schedule_name(ScheduleKind v) { return choice_name(kSchedules, v); }
ScheduleKind parse_schedule(std::string_view text) {
  return parse_choice("schedule.name", kSchedules, text);
}

void validate(const Schedule& s) {
  require_value(s.lr >= 0 && std::isfinite(s.lr), "optimizer.lr", s.lr,
                "a finite value of at least 0");
  require_value(s.warmup_steps >= 0, "schedule.warmup_steps", static_cast<double>(s.warmup_steps),
                "at least 0");
  if (s.kind == ScheduleKind::kConstant) return;
  require_value(s.total_steps >= 1 && s.total_steps >= s.warmup_steps, "schedule.total_steps",
                static_cast<double>(s.total_steps), "at least 1 and schedule.warmup_steps");
  require_value(s.min_lr >= 0 && s.min_lr <= s.lr, "schedule.min_lr", s.min_lr, "0..optimizer.lr");
}

double learning_rate(const Schedule& s, int64_t step) {
  RL_CHECK(step >= 0);
  if (step < s.warmup_steps) {
    return s.lr * (static_cast<double>(step) / static_cast<double>(s.warmup_steps));
  }
  if (s.kind == ScheduleKind::kConstant) return s.lr;
  if (step >= s.total_steps) return s.min_lr;
  const auto span = static_cast<double>(std::max<int64_t>(1, s.total_steps - s.warmup_steps));
  const double q = static_cast<double>(step - s.warmup_steps) / span;
  const double factor =
      s.kind == ScheduleKind::kLinear ? 1 - q : 0.5 * (1 + std::cos(std::numbers::pi * q));
  return s.min_lr + (s.lr - s.min_lr) * factor;
}

}  // namespace rl
