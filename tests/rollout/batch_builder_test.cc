// What the engine says about a batch: it decodes when every sequence has one row.
#include "rollout/batch_builder.h"

#include <gtest/gtest.h>

#include <memory>

namespace rl {
namespace {

// A request with one sample whose prompt is known up to `computed`.
std::unique_ptr<ActiveRequest> request_at(uint64_t number, std::vector<int32_t> prompt,
                                          int64_t computed) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_new_tokens = 4;
  auto active = make_active(r, number, SchedulingPolicy::kFcfs);
  Sequence& s = active->sequences.front();
  s.sample = make_sample(s);
  s.blocks = {static_cast<int32_t>(number)};
  s.computed = computed;
  return active;
}

TEST(BatchBuilder, ABatchOfOneRowPerSequenceDecodes) {
  const auto a = request_at(0, {5, 6, 7}, 2), b = request_at(1, {8, 9, 3, 4}, 2);
  BatchBuilder builder(8, 4);
  StepSchedule schedule;
  schedule.rows = {{&a->sequences.front(), 1}, {&b->sequences.front(), 1}};
  builder.build(schedule);
  EXPECT_TRUE(builder.batch().decode);
  EXPECT_EQ(builder.batch().rows(), 2);
  EXPECT_EQ(builder.batch().ids[1], 3);
  schedule.rows[1].rows = 2;
  builder.build(schedule);
  EXPECT_FALSE(builder.batch().decode);
  EXPECT_EQ(builder.batch().rows(), 3);
  EXPECT_EQ(builder.logits_rows().size(), 2u);
}

}  // namespace
}  // namespace rl
