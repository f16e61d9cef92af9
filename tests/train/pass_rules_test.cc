// The limits and sizes of the passes of a role.
#include "train/passes/pass_rules.h"

#include <gtest/gtest.h>

#include "train_rig.h"

namespace rl::testing {
namespace {

TrainerOptions budgets(int64_t own, int64_t reference) {
  TrainerOptions o;
  o.max_tokens = 100;
  o.batch.forward_max_tokens = own;
  o.batch.reference_max_tokens = reference;
  return o;
}

size_t forward_batches(const TrainRig& rig, const TrainerOptions& o, ForwardOf of,
                       const std::vector<Sample>& samples) {
  std::vector<PackItem> items;
  for (const Sample& s : samples)
    items.push_back(
        make_pack_item(s, static_cast<int32_t>(items.size()), WantedTokens::kGenerated));
  return plan_micro_batches(items, forward_rules(o, *rig.tiny.model, of)).size();
}

// 60 samples of 19 rows each with prompts of their own: 5 fit 100 rows, 10 fit 200, 15 fit 300.
TEST(PassRules, AReferenceIsForwardedByItsOwnBudget) {
  std::vector<Sample> samples;
  for (uint64_t i = 0; i < 60; ++i)
    samples.push_back(make_sample(std::vector<int32_t>(20, static_cast<int32_t>(i)), 10, i, 0));
  struct Case {
    int64_t own, reference;
    size_t own_batches, reference_batches;
  };
  for (const Case& c : {Case{0, 0, 6, 6}, {100, 0, 12, 12}, {0, 300, 6, 4}, {300, 100, 4, 12}}) {
    const TrainerOptions o = budgets(c.own, c.reference);
    const TrainRig rig({}, o);
    EXPECT_EQ(forward_batches(rig, o, ForwardOf::kOwn, samples), c.own_batches);
    EXPECT_EQ(forward_batches(rig, o, ForwardOf::kReference, samples), c.reference_batches);
    const SampleLimits own = forward_limits(o, *rig.tiny.model, ForwardOf::kOwn);
    const SampleLimits reference = forward_limits(o, *rig.tiny.model, ForwardOf::kReference);
    EXPECT_EQ(own.max_rows, c.own == 0 ? 200 : c.own);
    EXPECT_EQ(reference.max_rows, c.reference == 0 ? own.max_rows : c.reference);
    EXPECT_STREQ(reference.rows_key,
                 c.reference == 0 ? own.rows_key : "reference.forward_max_tokens_per_device");
  }
}

TEST(PassRules, ALengthBoundsSamplesUnlessLongerOnesStandAlone) {
  TrainerOptions o = budgets(0, 0);
  o.batch.seq_len = 32;
  o.max_sequence = 81;
  const TrainRig rig({}, o);
  SampleLimits limits = training_limits(o, *rig.tiny.model);
  EXPECT_EQ(limits.max_rows, 32);
  EXPECT_STREQ(limits.rows_key, "trainer.seq_len");
  o.batch.oversize_alone = true;
  limits = training_limits(o, *rig.tiny.model);
  EXPECT_EQ(limits.max_rows, 80);
  EXPECT_STREQ(limits.rows_key, o.keys.max_tokens);
}

TEST(PassRules, SamplesAreTrainedByOrdinalSlotAttemptAndNumber) {
  std::vector<Sample> ordered(5, make_sample({1, 2}, 1, 3, 2));
  ordered[1].id = ordered[0].id + 5;
  ordered[2].attempt = 1;
  ordered[3].slot = 4;
  ordered[4].ordinal = 9;
  ordered[4].slot = 0;
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t k = 0; k < ordered.size(); ++k)
      EXPECT_EQ(trains_before(ordered[i], ordered[k]), i < k) << i << " " << k;
  }
}

TEST(PassRules, WhereTheLastTokenIsARowASampleMayHaveOneLess) {
  const SampleLimits limits{
      .vocab = 9, .max_positions = 50, .max_rows = 40, .rows_key = "key", .max_sample = 41};
  const SampleLimits less = with_last_row(limits);
  EXPECT_EQ(less.vocab, 9);
  EXPECT_EQ(less.max_positions, 49);
  EXPECT_EQ(less.max_rows, 39);
  EXPECT_STREQ(less.rows_key, "key");
  EXPECT_EQ(less.max_sample, 40);
}

}  // namespace
}  // namespace rl::testing
