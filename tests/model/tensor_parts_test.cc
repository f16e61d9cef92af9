// Forward, head and backward of a model in parts: ranks that have some of them have the bits of one
// rank that has all, and the values of the undivided model but for the order of sums.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "../comm/local_ranks.h"
#include "support/compare_values.h"
#include "support/compute_dtypes.h"
#include "support/layered_model.h"
#include "support/logits_and_gradients.h"
#include "support/part_sections.h"

namespace rl::testing {
namespace {

struct PassedParts : Passed {
  WeightLayout layout;
  VocabularyCut cut;

  std::vector<float> section(const LayoutSection& s) const {
    const auto begin = gradients.begin() + s.gradient;
    return {begin, begin + s.gradients};
  }
  // Logits of some tokens, row after row.
  std::vector<float> columns(const TokenRange& tokens) const {
    const TokenRange own = cut.own();
    std::vector<float> out;
    for (auto row = logits.begin(); row != logits.end(); row += own.count) {
      const auto first = row + (tokens.first - own.first);
      out.insert(out.end(), first, first + tokens.count);
    }
    return out;
  }
};

PassedParts pass(const WeightSource& source, Dtype compute, const ModelOptions& options) {
  const TinyModel tiny(source, {make_thread_executor(1)}, compute, options);
  const Model& model = *tiny.model;
  return {pass_through(tiny, BackwardPacking::kByLayer), model.layout(),
          VocabularyCut(model.config())};
}

std::vector<PassedParts> pass_on(const WeightSource& source, Dtype compute, int64_t parts,
                                 int64_t ranks) {
  std::vector<std::optional<PassedParts>> passed(static_cast<size_t>(ranks));
  const int64_t count = parts / ranks;
  run_local_ranks(static_cast<int>(ranks), [&](std::shared_ptr<Transport> transport) {
    comm::Group group(transport, {kLongNs});
    const ModelOptions options{.block_size = 16,
                               .split = {parts, group.rank() * count, count},
                               .tensor = ranks > 1 ? TensorRanks(group) : TensorRanks()};
    passed[static_cast<size_t>(group.rank())] = pass(source, compute, options);
  });
  std::vector<PassedParts> out;
  for (std::optional<PassedParts>& p : passed) out.push_back(*std::move(p));
  return out;
}

void expect_ranks_agree(const WeightSource& source, Dtype compute, int64_t parts) {
  const PassedParts one = pass_on(source, compute, parts, 1)[0];
  for (int64_t ranks = 2; ranks <= parts; ++ranks) {
    if (parts % ranks != 0) continue;
    SCOPED_TRACE(str(ranks, " ranks of ", parts, " parts"));
    int64_t tokens = 0;
    for (const PassedParts& rank : pass_on(source, compute, parts, ranks)) {
      EXPECT_EQ(rank.cut.own().first, tokens);
      tokens = rank.cut.own().end();
      EXPECT_TRUE(same_bits(rank.logits, one.columns(rank.cut.own())));
      for_sections(rank.layout, one.layout,
                   [&](const LayoutSection& own, const LayoutSection& same) {
                     EXPECT_TRUE(same_bits(rank.section(own), one.section(same)));
                   });
    }
    EXPECT_EQ(tokens, source.config().vocab);
  }
  const PassedParts whole = pass(source, compute, {.block_size = 16});
  const double bound = compute == Dtype::kF32 ? 1e-5 : 3e-2;
  EXPECT_LT(relative_l2(one.logits, whole.logits), bound);
  // Rounding to bf16 may hide the order of sums.
  EXPECT_FALSE(compute == Dtype::kF32 && one.logits == whole.logits) << "parts act on no sum";
}

class TensorParts : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, TensorParts, ::testing::ValuesIn(compute_dtypes()));

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
