// Small models with several column slices in a matrix: no bit of a forward or a backward follows
// the width of slices.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "support/compute_dtypes.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

struct Passed {
  std::vector<float> logits, gradients;
};

// All rows of two sequences, forward and backward.
Passed pass(const std::string& fixture, Dtype compute, int64_t slice_width) {
  const TinyModel tiny(TinyModel::fixture(fixture), make_thread_executor(2), compute,
                       ModelOptions{.block_size = 16, .slice_width = slice_width});
  const Model& model = *tiny.model;
  std::vector<int32_t> first(37), second(20);
  std::iota(first.begin(), first.end(), 3);
  std::iota(second.begin(), second.end(), 11);
  TrainingBatch batch(tiny, {first, second});
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  const int64_t rows = batch.rows();
  const Arena arena("test head", HeadBuffers::bytes(model.config(), compute, rows, true));
  HeadBuffers head(model.config(), compute, rows, true, arena.data());
  std::vector<int32_t> all(rows);
  std::iota(all.begin(), all.end(), 0);
  gather_rows(model, batch.buffers->hidden, all, head);
  const std::vector<float> one(rows, 1.0f), zero(rows, 0.0f);
  head_forward(model, one, head);
  Passed out{{head.z, head.z + rows * head.vocab},
             std::vector<float>(model.layout().total(), 0.0f)};
  BackwardWeights packed(model, BackwardPacking::kResident);
  packed.prepare();
  head_backward(model, {packed, all, one, one, zero, out.gradients.data()}, head);
  backward(model, batch.batch(), batch.pool, *batch.buffers, *batch.saved, *batch.scratch,
           {packed, out.gradients.data(), head.d_hidden});
  return out;
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
