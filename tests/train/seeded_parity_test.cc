// Contract N2 on the models of unusual shapes: what the engine stores at sampling is what the
// trainer finds, bit for bit, with prompts that samples share and on one thread or three.
#include <gtest/gtest.h>

#include "engine_samples.h"
#include "group_rig.h"
#include "support/compute_dtypes.h"
#include "support/seeded_model.h"

namespace rl::testing {
namespace {

class SeededParity : public ::testing::TestWithParam<std::tuple<std::string, Dtype>> {
 protected:
  SeededParity() : seeded_(std::get<0>(GetParam())) {}
  void SetUp() override {
    if (std::get<1>(GetParam()) == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
  RigOptions rig(int threads, int64_t slice_width = 0) const {
    return {.model = seeded_.path(),
            .compute = std::get<1>(GetParam()),
            .threads = threads,
            .slice_width = slice_width};
  }
  const SeededModel seeded_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, SeededParity,
                         ::testing::Combine(::testing::ValuesIn(seeded_models()),
                                            ::testing::ValuesIn(compute_dtypes())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" +
                                  dtype_name(std::get<1>(info.param));
                         });

TEST_P(SeededParity, SampledLogprobsEqualTheTrainers) {
  for (const auto& [threads, slice_width] : {std::pair<int, int64_t>{1, 0}, {3, 48}}) {
    TrainerOptions options;
    options.max_tokens = 200;
    options.schedule.lr = 1e-3;
    TrainRig rig(this->rig(threads, slice_width), options);
    for (const int64_t chunk : {1, 7, 64}) {
      const std::vector<Sample> samples = sample_with_engine(rig.model(), {16, chunk, 0.7f});
      const TrainMetrics m = rig.trainer->step(with_advantages(samples));
      EXPECT_EQ(m.logprob_max_abs_diff, 0.0) << threads << " threads, chunk " << chunk;
      EXPECT_EQ(m.logprob_compared_tokens, m.loss_tokens);
      EXPECT_GT(m.loss_tokens, 4);
      EXPECT_EQ(m.ratio_max, 1.0);
      EXPECT_LT(m.computed_rows, m.tokens);  // prompts were computed once for their samples
    }
  }
}

TEST_P(SeededParity, SharedPromptsLeaveLogprobsAndThreadsLeaveGradients) {
  const Step apart = step(rig(3), without_sharing()), shared = step(rig(3), {}),
             one = step(rig(1), {});
  for (size_t i = 0; i < apart.samples.size(); ++i)
    EXPECT_TRUE(same_bits(shared.samples[i].logprobs, apart.samples[i].logprobs)) << i;
  EXPECT_EQ(shared.metrics.logprob_max_abs_diff, 0.0);
  EXPECT_TRUE(same_bits(one.gradients, shared.gradients));
  EXPECT_TRUE(same_bits(one.masters, shared.masters));
  if (std::get<1>(GetParam()) != Dtype::kF32) return;
  EXPECT_LE(relative_l2(shared.gradients, apart.gradients),
            1e-6);  // sums over tokens in another order (N4)
}

}  // namespace
}  // namespace rl::testing
