// What every cut of a batch leaves alone: log-probs and loss to the bit, gradients but for the
// order of their sums.
#include <gtest/gtest.h>

#include <iostream>

#include "group_rig.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

class BatchCut : public ::testing::TestWithParam<Dtype> {
 protected:
  void SetUp() override {
    if (GetParam() == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, BatchCut, ::testing::ValuesIn(compute_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_P(BatchCut, TenRandomCutsLeaveLogprobsAndLoss) {
  const RigOptions rig{.model = "smollm2", .compute = GetParam(), .threads = 2};
  const Step whole = step(rig, without_sharing());
  std::mt19937 rng(21);
  double largest = 0;
  int64_t most_micro_batches = 0;
  for (int i = 0; i < 10; ++i) {
    const StepRules rules = random_rules(rng);
    SCOPED_TRACE(text_of(rules));
    const Step cut = step(rig, rules);
    for (size_t s = 0; s < whole.samples.size(); ++s)
      EXPECT_TRUE(same_bits(cut.samples[s].logprobs, whole.samples[s].logprobs)) << s;
    EXPECT_EQ(cut.metrics.logprob_max_abs_diff, 0.0);
    EXPECT_EQ(cut.metrics.logprob_compared_tokens, whole.metrics.logprob_compared_tokens);
    EXPECT_EQ(cut.metrics.tokens, whole.metrics.tokens);
    EXPECT_NEAR(cut.metrics.loss, whole.metrics.loss, 1e-12);  // sums in double
    largest = std::max(largest, relative_l2(cut.gradients, whole.gradients));
    most_micro_batches = std::max(most_micro_batches, cut.metrics.micro_batches);
  }
  EXPECT_GT(most_micro_batches, 10);
  const double noise = rounding_noise(rig, whole);
  std::cout << "relative L2 of gradients over ten random cuts, " << dtype_name(GetParam()) << ": "
            << largest << " (rounding alone: " << noise << ")\n";
  // N4 in fp32. In bf16 sharing prompts rounds their gradients in other places; see
  // shared_prefix_test.
  EXPECT_LE(largest, GetParam() == Dtype::kF32 ? 1e-6 : noise / 2);
}

TEST_P(BatchCut, PaddedRowsAddNothing) {
  const RigOptions rig{.model = "qwen2", .compute = GetParam(), .threads = 2};
  StepRules padded;
  padded.batch.pad_to = 1500;
  const Step plain = step(rig, {}), more = step(rig, padded);
  EXPECT_EQ(more.metrics.computed_rows, 1500);
  EXPECT_LT(plain.metrics.computed_rows, 1000);
  EXPECT_EQ(more.metrics.loss, plain.metrics.loss);
  EXPECT_EQ(more.metrics.entropy, plain.metrics.entropy);
  EXPECT_EQ(more.metrics.loss_tokens, plain.metrics.loss_tokens);
  // The same terms and zeros, in sums cut by other lengths.
  EXPECT_LE(relative_l2(more.gradients, plain.gradients), 1e-6);
}

TEST(BatchRules, NothingBeyondTheWorkspaceIsWritten) {
  std::mt19937 rng(5);
  TrainRig rig({.threads = 2}, {});
  for (int i = 0; i < 20; ++i) {
    const StepRules rules = random_rules(rng);
    SCOPED_TRACE(text_of(rules));
    const Model& model = rig.model();
    const TrainerSizes sizes =
        Trainer::plan(model.config(), model.kv_shape(), options_of(rules), 2);
    constexpr size_t kGuard = 4096;
    std::vector<std::byte> bytes(sizes.workspace + 2 * kGuard + 64, std::byte{0x5a});
    const size_t skew = 64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64;
    std::byte* start = bytes.data() + skew + kGuard;
    Trainer trainer(rig.model(), nullptr, options_of(rules), start);
    std::vector<Sample> samples = groups(model.config().vocab, 6);
    for (Sample& s : samples) {
      const Sample* inputs[] = {&s};
      const std::span<float> out[] = {s.logprobs};
      trainer.logprobs(rig.model(), inputs, out);
    }
    trainer.step(with_advantages(samples));
    const auto untouched = [](std::byte b) { return b == std::byte{0x5a}; };
    EXPECT_TRUE(std::all_of(bytes.data(), start, untouched));
    EXPECT_TRUE(std::all_of(start + sizes.workspace, bytes.data() + bytes.size(), untouched));
  }
}

// One short sample, padded to sequences of 17 rows: each begins a second KV block of 16 tokens.
TEST(BatchRules, SequencesOfPaddingHaveTheirBlocks) {
  TrainerOptions options;
  options.max_tokens = 256;
  options.max_sequence = 18;
  options.batch.step_samples = 1;
  options.batch.seq_len = 256;
  TrainRig rig({}, options);
  const Sample s = make_sample({1, 2, 3, 4, 5}, 2, 0, 0);
  const TrainMetrics m = rig.trainer->train(std::vector<TrainSample>{{&s, 1, {}, {}}});
  EXPECT_EQ(m.computed_rows, 256);
}

TEST(BatchRules, SamplesAboveTheirBudgetAreNamed) {
  TrainerOptions options;
  options.max_tokens = 40;
  options.max_sequence = 100;
  Sample s = make_sample(std::vector<int32_t>(60, 1), 10, 0, 0);
  const auto refused = [&](const TrainerOptions& o) {
    TrainRig rig({}, o);
    return expect_error(Code::kOutOfRange, [&] {
      rig.trainer->step(std::vector<TrainSample>{{&s, 1, {}, {}}});
    });
  };
  EXPECT_EQ(refused(options).key, "trainer.max_tokens_per_device");
  options.max_tokens = 99;
  options.batch.seq_len = 50;
  EXPECT_EQ(refused(options).key, "trainer.seq_len");
  options.batch.seq_len = 0;
  options.batch.forward_max_tokens = 58;
  EXPECT_EQ(refused(options).key, "trainer.logprob_max_tokens_per_device");
  options.batch.oversize_alone = true;
  options.max_tokens = 20;
  TrainRig rig({}, options);
  const std::vector<TrainSample> alone = {{&s, 1, {}, {}}};
  EXPECT_EQ(rig.trainer->step(alone).micro_batches, 1);
}

TEST(BatchRules, AMicroBatchOfTooManyRowsIsNamed) {
  TrainerOptions options;
  options.max_tokens = 1000;
  options.batch.micro_batch_size = 65536;
  const Error error = expect_error(Code::kOutOfRange, [&] { validate(options); });
  EXPECT_EQ(error.key, "trainer.micro_batch_size");
  EXPECT_TRUE(contains(error.message, "65536000"));
}

}  // namespace
}  // namespace rl::testing
