// Small models with several column slices in a matrix: no bit of a forward or a backward follows
// the width of slices.
#include <gtest/gtest.h>

#include "support/compute_dtypes.h"
#include "support/logits_and_gradients.h"

namespace rl::testing {
namespace {

Passed pass(const std::string& fixture, Dtype compute, int64_t slice_width) {
  const TinyModel tiny(TinyModel::fixture(fixture), make_thread_executor(2), compute,
                       ModelOptions{.block_size = 16, .slice_width = slice_width});
  return pass_through(tiny, BackwardPacking::kResident);
}

class SliceWidth : public ::testing::TestWithParam<Dtype> {};

TEST_P(SliceWidth, MovesNoBit) {
  if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
    GTEST_SKIP() << "this CPU has no bf16 dot product";
  for (const char* fixture : {"llama", "qwen2", "qwen3", "gemma3"}) {
    const Passed want = pass(fixture, GetParam(), 0);
    for (const int64_t width : {16, 48, 64}) {
      const Passed got = pass(fixture, GetParam(), width);
      EXPECT_EQ(got.logits, want.logits) << fixture << ", slices of " << width;
      EXPECT_EQ(got.gradients, want.gradients) << fixture << ", slices of " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SliceWidth, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return dtype_name(info.param); });

}  // namespace
}  // namespace rl::testing
