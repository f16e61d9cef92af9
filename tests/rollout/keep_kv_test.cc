// EngineOptions::keep_kv: which keys and values a token reads after a publication, and that a
// schedule changes nothing of it.
#include <gtest/gtest.h>

#include "rollout/engine_fixture.h"
#include "support/compute_dtypes.h"
#include "support/head_logprob.h"

namespace rl::testing {
namespace {

constexpr int64_t kTokens = 24, kBefore = 7;  // generated in all, and before the publication

std::vector<int32_t> prompt_of(int32_t start) {
  std::vector<int32_t> ids(21);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = (start + static_cast<int32_t>(i) * 31) % 200;
  return ids;
}

class KeepKv : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot()) {
      GTEST_SKIP() << "this CPU has no bf16 dot product";
    }
    tiny_ = std::make_unique<TinyModel>(TinyModel::fixture("llama"), GetParam(), 2, 16, 2);
  }

  void publish() {
    float* master = tiny_->model->master();
    for (int64_t i = 0; i < tiny_->model->layout().total(); ++i) {
      master[i] *= 1.0f + 0.01f * static_cast<float>(i % 13 - 6);
    }
    tiny_->model->publish();
  }

  static EngineOptions options(int64_t swap_blocks = 0) {
    return {.max_num_seqs = 4, .swap_blocks = swap_blocks, .keep_kv = true};
  }
  static std::vector<Request> requests() {
    std::vector<Request> all;
    for (int32_t i = 0; i < 4; ++i) {
      all.push_back(make_request(prompt_of(i), kTokens, 1.0f, static_cast<uint64_t>(i)));
    }
    return all;
  }
  // A publication once every sample has kBefore tokens; then all is generated.
  SampleMap run_with_publication(TestEngine& test, const std::vector<Request>& submitted) {
    for (const Request& r : submitted) test.engine.submit(r);
    for (int64_t i = 0; i < kBefore; ++i) test.engine.step();
    publish();
    return test.run();
  }

  std::unique_ptr<TinyModel> tiny_;
};

// Log-probs of ids from `first` on: positions before first - 1 are computed by `old`, the rest by
// what is published.
std::vector<float> two_weights(const TinyModel& tiny, const ComputeCopy& old,
                               const std::vector<int32_t>& ids, int64_t first) {
  const Model& model = *tiny.model;
  TrainingBatch batch(tiny, {ids});
  const SequenceRows whole = batch.slices().front();
  const auto part = [&](int64_t begin, int64_t end, const ComputeCopy& weights) {
    SequenceRows rows = whole;
    rows.first_row = 0;
    rows.rows = static_cast<int32_t>(end - begin);
    rows.first_position = static_cast<int32_t>(begin);
    const std::span<const int32_t> some(ids);
    ForwardBatch b{some.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                   {&rows, 1}};
    b.weights = &weights;
    forward(model, b, batch.pool, *batch.buffers, nullptr);
  };
  const auto length = static_cast<int64_t>(ids.size());
  part(0, first - 1, old);
  part(first - 1, length, model.published());
  Arena arena("test head", HeadBuffers::bytes(model.config(), model.compute_dtype(), 64, false));
  HeadBuffers head(model.config(), model.compute_dtype(), 64, false, arena.data());
  std::vector<int32_t> rows;
  for (int64_t i = first; i < length; ++i) rows.push_back(static_cast<int32_t>(i - first));
  gather_rows(model, batch.buffers->hidden, rows, head);
  head_forward(model, model.published(), std::vector<float>(rows.size(), 1.0f), head);
  std::vector<float> out;
  for (int64_t i = first; i < length; ++i) {
    out.push_back(head_logprob(head, i - first, ids[static_cast<size_t>(i)]));
  }
  return out;
}

TEST_P(KeepKv, ATokenReadsOldKeysAndValuesWithNewWeights) {
  TestEngine test(*tiny_, options());
  const ComputeCopy& old = tiny_->model->published();
  const SampleMap samples = run_with_publication(test, requests());
  EXPECT_EQ(test.engine.stats().mixed_kv_tokens, 4 * (kTokens - kBefore));
  for (const auto& [key, s] : samples) {
    std::vector<uint8_t> mixed(kBefore, 0);
    mixed.resize(kTokens, 1);
    EXPECT_EQ(s->mixed_kv, mixed);
    EXPECT_EQ(s->versions.back(), 1u);
    const std::vector<float> after(s->logprobs.begin() + kBefore, s->logprobs.end());
    EXPECT_TRUE(same_bits(after, two_weights(*tiny_, old, s->ids, s->prompt_tokens + kBefore)));
  }
}

TEST_P(KeepKv, PreemptionSwapsWhatIsKept) {
  TestEngine roomy(*tiny_, options());
  const SampleMap expected = run_with_publication(roomy, requests());
  TinyModel fresh(TinyModel::fixture("llama"), GetParam(), 2, 16, 2);
  std::copy_n(fresh.model->master(), fresh.model->layout().total(), tiny_->model->master());
  tiny_->model->publish_as(0);
  TestEngine tight(*tiny_, options(12), 9);  // 8 blocks hold all samples up to the publication
  expect_same_samples(run_with_publication(tight, requests()), expected);
  EXPECT_GT(tight.engine.stats().swapped_blocks, 0);
  EXPECT_EQ(tight.engine.stats().mixed_kv_tokens, roomy.engine.stats().mixed_kv_tokens);
}

TEST_P(KeepKv, WithoutRoomToSwapItIsComputedAnew) {
  TestEngine tight(*tiny_, options(1), 9);
  const SampleMap samples = run_with_publication(tight, requests());
  EXPECT_GT(tight.engine.stats().preemptions, 0);
  EXPECT_LT(tight.engine.stats().mixed_kv_tokens, 4 * (kTokens - kBefore));
  int64_t mixed = 0;
  for (const auto& [key, s] : samples) {
    ASSERT_EQ(s->mixed_kv.size(), static_cast<size_t>(kTokens));
    mixed += std::count(s->mixed_kv.begin(), s->mixed_kv.end(), 1);
  }
  EXPECT_EQ(mixed, tight.engine.stats().mixed_kv_tokens);
}

TEST_P(KeepKv, WhatIsForgottenIsNoLongerMixed) {
  TestEngine test(*tiny_, options());
  for (const Request& r : requests()) test.engine.submit(r);
  for (int64_t i = 0; i < kBefore; ++i) test.engine.step();
  publish();
  test.engine.step();
  test.engine.forget_kv();
  for (const auto& [key, s] : test.run()) {
    EXPECT_EQ(std::count(s->mixed_kv.begin(), s->mixed_kv.end(), 1), 1);
    EXPECT_EQ(s->mixed_kv[kBefore], 1);
  }
}

TEST_P(KeepKv, NothingKeptIsFoundByOthers) {
  TestEngine test(*tiny_, options());
  Request group = requests().front();
  group.num_samples = 2;
  test.engine.submit(group);
  for (int64_t i = 0; i < kBefore; ++i) test.engine.step();
  publish();
  test.engine.step();
  Request same = group;
  same.ordinal = 9;
  test.engine.submit(same);
  const SampleMap samples = test.run();
  EXPECT_FALSE(samples.at({0, 1})->mixed_kv.empty());
  EXPECT_TRUE(samples.at({9, 0})->mixed_kv.empty());
  TestEngine alone(*tiny_, options());
  expect_same_sample(*samples.at({9, 0}), *alone.run({same}).at({9, 0}));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, KeepKv, ::testing::ValuesIn(compute_dtypes()));

}  // namespace
}  // namespace rl::testing
