// optimizer.ema: averages that follow the masters, evaluate in their place, and are saved.
#include "train/optimizer/ema_weights.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

constexpr double kDecay = 0.75;
const std::string kConfig = "digest";

TrainerOptions options_of(double ema, const TrainableRule& rule = {}) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.schedule.lr = 1e-2;
  o.optimizer.ema = ema;
  o.trainable = rule;
  return o;
}

// The masters while the averages are in their place.
std::vector<float> averages(TrainRig& rig) {
  rig.trainer->exchange_averages();
  const std::vector<float> taken = rig.masters();
  rig.trainer->exchange_averages();
  return taken;
}

TEST(EmaWeights, TheyFollowTheMastersAfterEachStep) {
  TrainRig rig({.model = "llama", .threads = 2}, options_of(kDecay));
  std::vector<float> now = rig.masters();
  EXPECT_TRUE(same_bits(averages(rig), now));
  std::vector<double> oracle(now.begin(), now.end());
  for (unsigned s = 1; s <= 3; ++s) {
    random_step(rig, s);
    now = rig.masters();
    for (size_t i = 0; i < now.size(); ++i) {
      oracle[i] = kDecay * oracle[i] + (1 - kDecay) * static_cast<double>(now[i]);
    }
  }
  const std::vector<float> seen = averages(rig);
  EXPECT_FALSE(same_bits(seen, now));
  // fp32 rounding of numbers up to 1.5, three times a step.
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_NEAR(seen[i], oracle[i], 1e-6) << i;
}

TEST(EmaWeights, TheyChangeNoBitOfTraining) {
  TrainRig with({.model = "llama"}, options_of(kDecay)), without({.model = "llama"}, options_of(0));
  for (TrainRig* rig : {&with, &without}) {
    random_step(*rig, 1);
    random_step(*rig, 2);
  }
  EXPECT_TRUE(same_bits(with.masters(), without.masters()));
  averages(with);
  EXPECT_TRUE(same_bits(with.masters(), without.masters()));
  EXPECT_EQ(with.sizes.averages, static_cast<uint64_t>(with.model().layout().total()) * 4);
  EXPECT_EQ(without.sizes.averages, 0u);
}

TEST(EmaWeights, LogProbsAreThoseOfTheAveragesWhileTheyAreExchanged) {
  TrainRig rig({.model = "llama"}, options_of(kDecay));
  random_step(rig, 1);
  std::vector<Sample> trained = random_samples(4, rig.model().config().vocab, 9),
                      averaged = trained, again = trained;
  store_logprobs(rig, trained);
  const uint64_t version = rig.model().version();
  rig.trainer->exchange_averages();
  EXPECT_EQ(rig.model().version(), version);
  store_logprobs(rig, averaged);
  rig.trainer->exchange_averages();
  store_logprobs(rig, again);
  EXPECT_NE(trained[0].logprobs, averaged[0].logprobs);
  EXPECT_EQ(trained[0].logprobs, again[0].logprobs);
}

TEST(EmaWeights, FrozenParametersHaveNone) {
  const TrainableRule rule{{"model.embed_tokens.weight", "*.mlp.*"}, {}};
  TrainRig rig({.model = "llama"}, options_of(kDecay, rule));
  random_step(rig, 1);
  EXPECT_LT(rig.sizes.averages, static_cast<uint64_t>(rig.model().layout().total()) * 4);
  const std::vector<float> masters = rig.masters(), seen = averages(rig);
  for (const Parameter& p : rig.trainer->layout().parameters()) {
    const bool same = std::equal(masters.begin() + p.offset, masters.begin() + p.offset + p.size,
                                 seen.begin() + p.offset);
    EXPECT_EQ(same, !p.trainable()) << p.name;
  }
}

TEST(EmaWeights, AReferenceTakesThem) {
  TrainRig rig({.model = "llama"}, options_of(kDecay));
  rig.reference =
      std::make_unique<Model>(*open_weight_source(real_fs(), TinyModel::fixture("llama")),
                              *rig.tiny.compute, ModelOptions{.block_size = 16, .frozen = true});
  rig.rebuild(options_of(kDecay));
  random_step(rig, 1);
  std::vector<Sample> expected = random_samples(2, rig.model().config().vocab, 9);
  rig.trainer->exchange_averages();
  store_logprobs(rig, expected);
  rig.trainer->exchange_averages();
  const std::vector<float> before = rig.masters();
  rig.trainer->copy_averages(*rig.reference);
  EXPECT_TRUE(same_bits(rig.masters(), before));
  for (const Sample& s : expected) {
    const Sample* const in[] = {&s};
    std::vector<float> seen(s.logprobs.size());
    const std::span<float> out[] = {seen};
    rig.trainer->logprobs(*rig.reference, in, out);
    EXPECT_EQ(seen, s.logprobs);
  }
}

TEST(EmaWeights, ACheckpointHasThem) {
  const TempDir dir;
  TrainRig whole({.model = "llama"}, options_of(kDecay));
  random_step(whole, 1);
  const std::string path = whole.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  EXPECT_TRUE(std::filesystem::exists(path + "/ema.safetensors"));
  const std::vector<float> saved = averages(whole);
  TrainRig resumed({.model = "llama"}, options_of(kDecay));
  resumed.trainer->load(real_fs(), path, kConfig);
  EXPECT_TRUE(same_bits(averages(resumed), saved));
  for (TrainRig* rig : {&whole, &resumed}) random_step(*rig, 2);
  EXPECT_TRUE(same_bits(averages(resumed), averages(whole)));
  TrainRig without({.model = "llama"}, options_of(0));
  const std::vector<float> before = without.masters();
  const Error e =
      expect_error(Code::kIncompatible, [&] { without.trainer->load(real_fs(), path, kConfig); });
  EXPECT_EQ(e.location, path + "/ema.safetensors");
  EXPECT_TRUE(same_bits(without.masters(), before));
}

TEST(EmaWeights, ACheckpointWithoutThemIsRefused) {
  const TempDir dir;
  TrainRig without({.model = "llama"}, options_of(0)), with({.model = "llama"}, options_of(kDecay));
  random_step(without, 1);
  const std::string path = without.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  const Error e =
      expect_error(Code::kIncompatible, [&] { with.trainer->load(real_fs(), path, kConfig); });
  EXPECT_TRUE(contains(e.message, "has no ema.safetensors, which this run needs")) << e.message;
  random_step(with, 1);  // its own states are whole
}

}  // namespace
}  // namespace rl::testing
