// Scores of whole samples: the golden value of the last row, whatever the cut.
#include "train/roles/reward_model.h"

#include <gtest/gtest.h>

#include <cstring>

#include "critic_rig.h"
#include "group_rig.h"
#include "support/compute_dtypes.h"
#include "support/expect_error.h"
#include "support/golden_tensors.h"

namespace rl::testing {
namespace {

StepOptions reward_options(int64_t max_tokens = 64) {
  StepOptions o;
  o.max_tokens = max_tokens;
  o.max_sequence = 101;  // samples of up to 100 tokens
  o.batch.forward_max_tokens = 2 * max_tokens;
  return o;
}

std::vector<float> scores(const Model& model, const StepOptions& options,
                          const std::vector<Sample>& samples) {
  const TrainShape shape{model.config(), model.kv_shape(), model.compute().num_threads()};
  const Arena workspace("test reward workspace", RewardModel::workspace_bytes(shape, options));
  std::memset(workspace.data(), 0x7f, workspace.bytes());
  RewardModel reward(model, options, workspace.data());
  std::vector<const Sample*> in;
  for (const Sample& s : samples) in.push_back(&s);
  std::vector<float> out(samples.size(), -7.0f);
  reward.score(in, out);
  return out;
}

TEST(RewardModel, TheScoreIsTheValueOfTheLastToken) {
  CriticRig rig({.model = "llama_value"}, CriticOptions());
  const GoldenTensors golden(TinyModel::fixture("llama_value") + "/golden.safetensors");
  std::vector<Sample> samples;
  for (uint64_t i = 0; i < 3; ++i)
    samples.push_back(make_sample(golden.ids(str("seq", i, ".input_ids")), 3, i, 0));
  samples.push_back(samples[0]);
  samples.back().ids.resize(3);  // a prompt without a response
  const std::vector<float> got = scores(rig.model(), reward_options(), samples);
  for (size_t i = 0; i < 3; ++i) {
    // That of log-probs: torch's fp32 run is off by less than a quarter of it.
    EXPECT_NEAR(got[i], golden.get(str("seq", i, ".values_f64")).values.back(), 2e-5);
  }
  EXPECT_NEAR(got[3], golden.get("seq0.values_f64").values[2], 2e-5);
}

TEST(RewardModel, CutsAndSharedPromptsLeaveTheBits) {
  for (const Dtype compute : compute_dtypes()) {
    if (compute == Dtype::kBf16 && !cpu_has_bf16_dot())
      GTEST_SKIP() << "this CPU has no bf16 dot product";
    CriticRig rig({.compute = compute, .threads = 2}, CriticOptions());
    rig.fill_head(3);
    std::vector<Sample> samples = groups(rig.model().config().vocab, 5);
    samples[0].ids.resize(static_cast<size_t>(samples[0].prompt_tokens));
    StepOptions whole = reward_options(2000);
    whole.batch.shared_prefix = false;
    const std::vector<float> want = scores(rig.model(), whole, samples);
    EXPECT_EQ(scores(rig.model(), reward_options(2000), samples), want);
    EXPECT_EQ(scores(rig.model(), reward_options(50), samples), want);
    StepOptions narrow = reward_options();
    narrow.batch.forward_max_tokens = 20;
    narrow.batch.oversize_alone = true;
    EXPECT_EQ(scores(rig.model(), narrow, samples), want);
  }
}

TEST(RewardModel, ASampleAboveItsBudgetIsNamed) {
  CriticRig rig({.model = "llama_value"}, CriticOptions());
  StepOptions o = reward_options();
  o.keys.forward_max_tokens = "reward.forward_max_tokens_per_device";
  o.batch.forward_max_tokens = 20;
  std::vector<Sample> samples = {make_sample(std::vector<int32_t>(20, 5), 3, 0, 0)};
  scores(rig.model(), o, samples);
  samples[0].ids.push_back(5);
  const Error e = expect_error(Code::kOutOfRange, [&] { scores(rig.model(), o, samples); });
  EXPECT_EQ(e.key, "reward.forward_max_tokens_per_device");
  samples[0].ids.resize(101, 5);
  o.batch.forward_max_tokens = 500;
  expect_error(Code::kOutOfRange, [&] { scores(rig.model(), o, samples); });
}

}  // namespace
}  // namespace rl::testing
