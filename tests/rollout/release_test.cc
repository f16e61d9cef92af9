// Engines go by what was published, not by its number: a checkpoint that is loaded may have the
// version of the weights before it.
#include <gtest/gtest.h>

#include "rollout/engine_fixture.h"

namespace rl::testing {
namespace {

TEST(Release, KeysOfOtherWeightsWithTheSameVersionAreNotReused) {
  for (const int64_t copies : {1, 2}) {
    const TinyModel tiny(TinyModel::fixture("llama"), Dtype::kF32, 1, 16, copies);
    std::vector<int32_t> prompt(40);
    for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * 31 % 200);
    const Request request = make_request(prompt, 8, 1.0f);
    TestEngine used(tiny, {.max_num_seqs = 2});
    used.run({request});
    EXPECT_EQ(used.engine.cached_prefix(request), 32);
    for (int64_t i = 0; i < tiny.model->layout().total(); ++i) {
      tiny.model->master()[i] *= 1.0f + 0.01f * static_cast<float>(i % 13 - 6);
    }
    tiny.model->publish_as(tiny.model->version());
    EXPECT_EQ(used.engine.cached_prefix(request), 0);
    TestEngine fresh(tiny, {.max_num_seqs = 2});
    const SamplePtr expected = fresh.run({request}).begin()->second;
    const SamplePtr generated = used.run({request}).begin()->second;
    EXPECT_EQ(generated->ids, expected->ids);
    EXPECT_TRUE(same_bits(generated->logprobs, expected->logprobs));
  }
}

}  // namespace
}  // namespace rl::testing
