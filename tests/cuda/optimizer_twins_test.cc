// The optimizer's ops on the GPU: AdamW has the bits of algo/optimizers/adamw.h, because its
// operations have one order; sums of squares are in double.
#include <gtest/gtest.h>

#include "cuda/device_data.h"

namespace rl::testing {
namespace {

TEST(OptimizerTwins, AdamwHasTheBitsOfTheCpu) {
  for (const int64_t count : {0, 1, 1023, 5000}) {
    TwoDevices devices(Dtype::kF32);
    OnBoth<float> param(random_values(count, 1)), m(random_values(count, 2, 0.1f)),
        grad(random_values(count, 3));
    std::vector<float> squares = random_values(count, 4, 0.1f);
    for (float& v : squares) v = v * v;
    OnBoth<float> v(squares);
    for (int64_t t = 1; t <= 3; ++t) {
      const AdamwStep step = adamw_step({.weight_decay = 0.1}, {1e-3, t, 0.37});
      const auto spans = [&](auto at) {
        return AdamwSpans{at.all(param), at.all(m), at.all(v), at.all(grad)};
      };
      adamw_update(step, spans(HostSide()));
      adamw(devices.gpu(), {step, spans(DeviceSide())});
    }
    expect_same(param);
    expect_same(m);
    expect_same(v);
  }
}

// 65536 squares and their order: a relative 65536 * 2^-53.
TEST(OptimizerTwins, SquaresAreSummedByChunks) {
  TwoDevices devices(Dtype::kF32);
  for (const int64_t count :
       {int64_t{0}, int64_t{1}, kOptimizerChunk - 1, kOptimizerChunk, 2 * kOptimizerChunk + 77}) {
    OnBoth<float> values(random_values(count, 5, 100.0f));
    const auto chunks = static_cast<size_t>(num_optimizer_chunks(count));
    std::vector<double> want(chunks), got(chunks);
    double want_sum = -1, got_sum = -1;
    squared_norm(devices.reference(), {HostSide().all(values), want, want_sum});
    squared_norm(devices.gpu(), {DeviceSide().all(values), got, got_sum});
    EXPECT_NEAR(got_sum, want_sum, 1e-11 * want_sum);
    double in_order = 0;
    for (size_t i = 0; i < chunks; ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-11 * want[i]);
      in_order += got[i];
    }
    EXPECT_EQ(got_sum, in_order);
  }
}

// The sum of a chunk does not depend on the chunks around it.
TEST(OptimizerTwins, AChunkAloneHasTheSameSum) {
  TwoDevices devices(Dtype::kF32);
  OnBoth<float> values(random_values(kOptimizerChunk + 500, 6));
  std::vector<double> both(2);
  double sum = 0, alone = 0;
  const std::span<const float> all = DeviceSide().all(values);
  squared_norm(devices.gpu(), {all, both, sum});
  squared_norm(devices.gpu(), {all.subspan(static_cast<size_t>(kOptimizerChunk)),
                               std::span(both).first(1), alone});
  EXPECT_EQ(alone, both[1]);
}

}  // namespace
}  // namespace rl::testing
