#include "algo/optimizers/schedule.h"

#include <array>
#include <cmath>
#include <numbers>

#include "golden.h"
#include "support/expect_error.h"

namespace rl {
namespace {

// Double arithmetic in another order than the table's.
constexpr double kTolerance = 1e-15;

struct Row {
  int64_t step;
  double constant, linear, cosine;
};

// lr 1, warm-up 4, total 12, min_lr 0, from the formulas of get_constant_schedule_with_warmup,
// get_linear_schedule_with_warmup and get_cosine_schedule_with_warmup.
constexpr std::array<Row, 11> kTable{{
    {0, 0.0, 0.0, 0.0},
    {1, 0.25, 0.25, 0.25},
    {3, 0.75, 0.75, 0.75},
    {4, 1.0, 1.0, 1.0},
    {5, 1.0, 0.875, 0.9619397662556434},
    {6, 1.0, 0.75, 0.8535533905932737},
    {8, 1.0, 0.5, 0.5},
    {10, 1.0, 0.25, 0.1464466094067262},
    {11, 1.0, 0.125, 0.03806023374435663},
    {12, 1.0, 0.0, 0.0},
    {50, 1.0, 0.0, 0.0},
}};

TEST(Schedule, MatchesTheWrittenTable) {
  for (const Row& row : kTable) {
    const auto rate = [&](ScheduleKind k) { return learning_rate({k, 1.0, 4, 12, 0.0}, row.step); };
    EXPECT_NEAR(rate(ScheduleKind::kConstant), row.constant, kTolerance) << row.step;
    EXPECT_NEAR(rate(ScheduleKind::kLinear), row.linear, kTolerance) << row.step;
    EXPECT_NEAR(rate(ScheduleKind::kCosine), row.cosine, kTolerance) << row.step;
  }
}

TEST(Schedule, FirstStepWithoutWarmUpHasTheFullRate) {
  for (const auto k : {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    EXPECT_EQ(learning_rate({k, 1e-5, 0, 40, 0}, 0), 1e-5);
  }
}

// transformers: factor = 0.5 (1 + cos(pi q)) (1 - min_lr_rate) + min_lr_rate.
TEST(Schedule, MinLrIsTheFloorOfLinearAndCosineOnly) {
  const double lr = 3e-4;
  const double rate = 0.1;
  for (int64_t step = 5; step < 20; ++step) {
    const double q = (static_cast<double>(step) - 5.0) / 15.0;
    const double factor = 0.5 * (1 + std::cos(std::numbers::pi * q)) * (1 - rate) + rate;
    EXPECT_NEAR(learning_rate({ScheduleKind::kCosine, lr, 5, 20, lr * rate}, step), lr * factor,
                1e-18);
  }
  EXPECT_EQ(learning_rate({ScheduleKind::kCosine, lr, 5, 20, lr * rate}, 20), lr * rate);
  EXPECT_EQ(learning_rate({ScheduleKind::kLinear, lr, 5, 20, lr * rate}, 21), lr * rate);
  EXPECT_EQ(learning_rate({ScheduleKind::kConstant, lr, 5, 20, lr * rate}, 21), lr);
}

TEST(Schedule, AllStepsMayBeWarmUp) {
  const Schedule s{ScheduleKind::kLinear, 1.0, 4, 4, 0.0};
  validate(s);
  EXPECT_EQ(learning_rate(s, 3), 0.75);
  EXPECT_EQ(learning_rate(s, 4), 0.0);
}

TEST(Schedule, RefusesBadParameters) {
  const auto key_of = [](const Schedule& s) {
    return expect_error(Code::kOutOfRange, [&] { validate(s); }).key;
  };
  EXPECT_EQ(key_of({ScheduleKind::kConstant, std::nan(""), 0, 0, 0}), "optimizer.lr");
  EXPECT_EQ(key_of({ScheduleKind::kConstant, 1.0, -1, 0, 0}), "schedule.warmup_steps");
  EXPECT_EQ(key_of({ScheduleKind::kCosine, 1.0, 0, 0, 0}), "schedule.total_steps");
  EXPECT_EQ(key_of({ScheduleKind::kCosine, 1.0, 5, 4, 0}), "schedule.total_steps");
  EXPECT_EQ(key_of({ScheduleKind::kLinear, 1.0, 0, 4, 2.0}), "schedule.min_lr");
  EXPECT_EQ(expect_error(Code::kInvalidArgument, [] { parse_schedule("step"); }).expected,
            "one of constant, linear, cosine");
}

}  // namespace
}  // namespace rl
