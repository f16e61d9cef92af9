// Forward, head and backward of a model in parts: ranks that have some of them have the bits of one
// rank that has all, and the values of the undivided model but for the order of sums.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "../comm/local_ranks.h"
#include "support/compare_values.h"
#include "support/compute_dtypes.h"
#include "support/layered_model.h"
#include "support/tiny_model.h"

namespace rl::testing {
namespace {

struct Passed {
  std::vector<float> logits, gradients;
  std::vector<LayoutSection> sections;

  std::vector<float> section(size_t index) const {
    const auto begin = gradients.begin() + sections[index].gradient;
    return {begin, begin + sections[index].gradients};
  }
};

// All rows of two sequences, forward and backward.
Passed pass(const WeightSource& source, Dtype compute, const ModelOptions& options) {
  const TinyModel tiny(source, {make_thread_executor(1)}, compute, options);
  const Model& model = *tiny.model;
  std::vector<int32_t> first(37), second(20);
  std::iota(first.begin(), first.end(), 3);
  std::iota(second.begin(), second.end(), 11);
  TrainingBatch batch(tiny, {first, second});
  forward(model, batch.batch(), batch.pool, *batch.buffers, batch.saved.get());
  const int64_t rows = batch.rows();
  const Arena arena("test head", HeadBuffers::bytes(model.config(), compute, rows, true));
  HeadBuffers head(model.config(), compute, rows, true, arena.data());
  std::vector<int32_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  gather_rows(model, batch.buffers->hidden, all, head);
  const std::vector<float> one(all.size(), 1.0f), zero(all.size(), 0.0f);
  head_forward(model, one, head);
  Passed out{{head.z, head.z + rows * head.vocab},
             std::vector<float>(static_cast<size_t>(model.layout().total()), 0.0f),
             model.layout().sections()};
  BackwardWeights packed(model, BackwardPacking::kByLayer);
  packed.prepare();
  head_backward(model, {packed, all, one, one, zero, out.gradients.data()}, head);
  backward(model, batch.batch(), batch.pool, *batch.buffers, *batch.saved, *batch.scratch,
           {packed, out.gradients.data(), head.d_hidden});
  return out;
}

std::vector<Passed> pass_on(const WeightSource& source, Dtype compute, int64_t parts,
                            int64_t ranks) {
  std::vector<Passed> out(static_cast<size_t>(ranks));
  const int64_t count = parts / ranks;
  run_local_ranks(static_cast<int>(ranks), [&](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    const ModelOptions options{.block_size = 16,
                               .split = {parts, group.rank() * count, count},
                               .tensor = ranks > 1 ? TensorRanks(group) : TensorRanks()};
    out[static_cast<size_t>(group.rank())] = pass(source, compute, options);
  });
  return out;
}

// Sections of gradients: whole tensors, then each part.
void expect_ranks_agree(const WeightSource& source, Dtype compute, int64_t parts) {
  const Passed one = pass_on(source, compute, parts, 1)[0];
  for (int64_t ranks = 2; ranks <= parts; ++ranks) {
    if (parts % ranks != 0) continue;
    SCOPED_TRACE(str(ranks, " ranks of ", parts, " parts"));
    const std::vector<Passed> all = pass_on(source, compute, parts, ranks);
    const auto count = static_cast<size_t>(parts / ranks);
    for (size_t r = 0; r < all.size(); ++r) {
      EXPECT_TRUE(same_bits(all[r].logits, one.logits));
      EXPECT_TRUE(same_bits(all[r].section(0), one.section(0)));
      for (size_t p = 0; p < count; ++p)
        EXPECT_TRUE(same_bits(all[r].section(1 + p), one.section(1 + r * count + p)));
    }
  }
  const Passed whole = pass(source, compute, {.block_size = 16});
  const double bound = compute == Dtype::kF32 ? 1e-5 : 3e-2;
  EXPECT_LT(relative_l2(one.logits, whole.logits), bound);
  // Rounding to bf16 may hide the order of sums.
  EXPECT_FALSE(compute == Dtype::kF32 && one.logits == whole.logits) << "parts act on no sum";
}

ModelConfig twelve_heads(bool normed) {
  ModelConfig c = uniform_config();
  c.layers = 2;
  c.heads = c.kv_heads = 12;
  c.ffn = 96;
  if (!normed) return c;
  c.qkv_bias = false;
  c.qk_norm = c.sandwich_norms = c.scaled_embedding = c.tied_head = true;
  return c;
}

class TensorParts : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, TensorParts, ::testing::Values(Dtype::kF32, Dtype::kBf16));

TEST_P(TensorParts, FixturesHaveTheBitsOfOneRank) {
  for (const char* model : {"llama", "smollm2", "qwen2", "qwen3", "gemma3", "mistral"}) {
    SCOPED_TRACE(model);
    expect_ranks_agree(*open_weight_source(real_fs(), TinyModel::fixture(model)), GetParam(), 2);
  }
}

TEST_P(TensorParts, EverySizeThatDividesThePartsHasTheSameBits) {
  for (const bool normed : {false, true}) {
    SCOPED_TRACE(normed ? "normed" : "biased");
    for (const int64_t parts : {3, 4}) {
      expect_ranks_agree(LayeredSource(twelve_heads(normed)), GetParam(), parts);
    }
  }
}

}  // namespace
}  // namespace rl::testing
