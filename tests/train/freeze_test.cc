// model.freeze and model.train_only: what is trained gets the same gradients as when everything is,
// what is frozen keeps its bits and costs no memory, and checkpoints know the difference.
#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "train/checkpoint/array_file.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

constexpr const char* kConfig = "0123456789abcdef";

TrainerOptions options_of(const TrainableRule& rule) {
  TrainerOptions o;
  o.max_tokens = 512;
  o.schedule.lr = 1e-2;
  o.adamw.weight_decay = 0.1;
  o.grad_clip = 0;
  o.trainable = rule;
  return o;
}

void step(TrainRig& rig, unsigned seed) {
  std::vector<Sample> samples = random_samples(12, rig.model().config().vocab, seed);
  store_logprobs(rig, samples);
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  EXPECT_EQ(m.logprob_max_abs_diff, 0.0);
  EXPECT_EQ(m.optimizer_steps, 1);
}

std::vector<float> part(const std::vector<float>& all, int64_t first, int64_t size) {
  return {all.begin() + first, all.begin() + first + size};
}

// A part of a fused matrix is another product, which fp32 kernels may sum in another order.
void expect_same_gradient(const Parameter& p, const std::vector<float>& a,
                          const std::vector<float>& b) {
  const bool fused = p.shape.size() == 2 && !p.name.ends_with("down_proj.weight") &&
                     !p.name.ends_with("o_proj.weight") && p.name.find("proj") != p.name.npos;
  if (fused)
    EXPECT_LE(relative_l2(a, b), 1e-6) << p.name;
  else
    EXPECT_TRUE(same_bits(a, b)) << p.name;
}

struct Case {
  const char* model;
  TrainableRule rule;
};

// Whole kinds, parts of fused matrices and biases, head norms, and everything above some layer.
std::vector<Case> cases() {
  return {{"llama", {{"model.embed_tokens.weight"}, {}}},
          {"llama", {{"*.k_proj.weight", "*.up_proj.weight"}, {}}},
          {"llama", {{}, {"*.q_proj.weight", "*.v_proj.weight"}}},
          {"llama", {{}, {"model.layers.1.*"}}},
          {"llama", {{}, {"model.norm.weight"}}},
          {"qwen2", {{"*.k_proj.bias"}, {}}},
          {"qwen2", {{}, {"*.k_proj.*", "*layernorm.weight"}}},
          {"qwen3", {{"*.q_norm.weight"}, {}}},
          {"gemma3", {{}, {"*.mlp.down_proj.weight", "*_feedforward_layernorm.weight"}}}};
}

TEST(Freeze, TrainedParametersGetTheSameGradientsAndFrozenOnesKeepTheirBits) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(std::string(c.model) + " " +
                 (c.rule.freeze.empty() ? c.rule.train_only : c.rule.freeze).front());
    const RigOptions rig_options{.model = c.model, .threads = 2};
    TrainRig whole(rig_options, options_of({})), some(rig_options, options_of(c.rule));
    const std::vector<float> before = some.masters();
    step(whole, 3);
    step(some, 3);
    const std::vector<float> all = whole.gradients(), own = some.gradients();
    const std::vector<float> after = some.masters();
    const WeightLayout layout(some.model().config(), c.rule);
    ASSERT_EQ(static_cast<int64_t>(own.size()), layout.gradient_total());
    int64_t num_frozen = 0;
    for (const Parameter& p : layout.parameters()) {
      const std::vector<float> now = part(after, p.offset, p.size);
      if (!p.trainable()) {
        ++num_frozen;
        EXPECT_TRUE(same_bits(now, part(before, p.offset, p.size))) << p.name;
        continue;
      }
      expect_same_gradient(p, part(own, p.gradient, p.size), part(all, p.offset, p.size));
      EXPECT_FALSE(same_bits(now, part(before, p.offset, p.size))) << p.name;
    }
    EXPECT_GT(num_frozen, 0);
  }
}

TEST(Freeze, TheNormIsThatOfTrainedParameters) {
  const TrainableRule rule{{}, {"model.layers.0.*"}};
  TrainRig rig({.model = "llama"}, options_of(rule));
  std::vector<Sample> samples = random_samples(12, rig.model().config().vocab, 3);
  store_logprobs(rig, samples);
  const TrainMetrics m = rig.trainer->step(with_advantages(samples));
  double sum = 0;
  for (const float g : rig.gradients()) sum += static_cast<double>(g) * g;
  EXPECT_NEAR(m.grad_norm, std::sqrt(sum), 1e-9 * std::sqrt(sum));  // another order of summation
}

TEST(Freeze, APlanIsSmallerByGradientsAndMomentsOfWhatIsFrozen) {
  const TinyModel tiny(TinyModel::fixture("llama"));
  const ModelConfig& c = tiny.model->config();
  const auto plan = [&](const TrainableRule& rule) {
    return Trainer::plan(c, tiny.model->kv_shape(), options_of(rule), 1);
  };
  const TrainerSizes all = plan({}), some = plan({{"model.embed_tokens.weight"}, {}});
  const auto bytes = static_cast<uint64_t>(c.vocab * c.hidden) * sizeof(float);
  ASSERT_EQ(bytes % 64, 0u);  // so that no padding changes
  EXPECT_EQ(all.gradients - some.gradients, bytes);
  EXPECT_EQ(all.optimizer - some.optimizer, 2 * bytes);
  EXPECT_EQ(all.workspace, some.workspace);
}

TEST(Freeze, WithEverythingTrainedGradientsHaveTheOffsetsOfTheMasters) {
  for (const char* model : {"llama", "qwen2", "qwen3", "gemma3"}) {
    const TinyModel tiny(TinyModel::fixture(model));
    const WeightLayout& layout = tiny.model->layout();
    for (const Parameter& p : layout.parameters()) EXPECT_EQ(p.gradient, p.offset) << p.name;
    EXPECT_EQ(layout.gradient_total(), layout.total());
    EXPECT_EQ(layout.trained_runs().size(), 1u);
    EXPECT_EQ(layout.first_trained_layer(), 0);
  }
}

TEST(Freeze, APatternThatMatchesNothingIsRefusedByName) {
  const TinyModel tiny(TinyModel::fixture("llama"));
  const auto refused = [&](const TrainableRule& rule) {
    return expect_error(Code::kInvalidArgument, [&] { WeightLayout(tiny.model->config(), rule); });
  };
  const Error unknown = refused({{"*norm.weight", "model.layers.99.*"}, {}});
  EXPECT_EQ(unknown.key, "model.freeze");
  EXPECT_EQ(unknown.location, "model.freeze[1]");
  EXPECT_TRUE(contains(unknown.message, "model.layers.99.*"));
  EXPECT_EQ(refused({{}, {"q_proj"}}).key, "model.train_only");
  const Error nothing = refused({{"*"}, {}});
  EXPECT_EQ(nothing.key, "model.freeze");
  EXPECT_TRUE(contains(nothing.message, "leaves no parameter"));
}

TEST(Freeze, AStarStandsForAnyText) {
  for (const char* pattern : {"*", "a.b.c", "a.*", "*.c", "a*c", "*b*", "a.b.c*", "**.c"})
    EXPECT_TRUE(matches_pattern(pattern, "a.b.c")) << pattern;
  for (const char* pattern : {"", "a.b", "b*", "*.b", "a*d", "a.b.c.*", "a?b?c"})
    EXPECT_FALSE(matches_pattern(pattern, "a.b.c")) << pattern;
  EXPECT_TRUE(matches_pattern("*ab", "aab"));
}

TEST(Freeze, TheSetOfATrainerDoesNotChange) {
  const TrainableRule rule{{"*norm.weight"}, {}};
  TrainRig rig({.model = "llama"}, options_of(rule));
  rig.trainer->set_options(options_of(rule));
  const Error e =
      expect_error(Code::kNotChangeable, [&] { rig.trainer->set_options(options_of({})); });
  EXPECT_EQ(e.key, "model.freeze");
}

TEST(Freeze, ACheckpointHoldsWhatIsTrainedAndResumesIt) {
  const TrainableRule rule{{"*.k_proj.weight", "model.embed_tokens.weight"}, {}};
  const TempDir dir;
  TrainRig whole({.model = "llama"}, options_of(rule));
  step(whole, 3);
  const std::string path = whole.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  step(whole, 4);
  TrainRig resumed({.model = "llama"}, options_of(rule));
  resumed.trainer->load(real_fs(), path, kConfig);
  step(resumed, 4);
  EXPECT_TRUE(same_bits(resumed.masters(), whole.masters()));
  const WeightLayout& all = whole.model().layout();
  const Error e = expect_error(Code::kIncompatible, [&] {
    check_array_file(real_fs(), path + "/masters.safetensors", all);
  });
  EXPECT_EQ(e.key, "model.embed_tokens.weight");
}

TEST(Freeze, ACheckpointOfAnotherSetIsRefusedByParameter) {
  const TempDir dir;
  TrainRig frozen({.model = "llama"}, options_of({{"model.norm.weight"}, {}}));
  TrainRig all({.model = "llama"}, options_of({}));
  step(frozen, 3);
  step(all, 3);
  const auto save = [&](TrainRig& rig, int64_t at) {
    return rig.trainer->save(real_fs(), dir.path(),
                             {.step = at, .config_digest = kConfig, .pipeline = "{}"});
  };
  const std::string of_frozen = save(frozen, 1), of_all = save(all, 2);
  const auto refused = [](TrainRig& rig, const std::string& path) {
    const std::vector<float> before = rig.masters();
    const Error e =
        expect_error(Code::kIncompatible, [&] { rig.trainer->load(real_fs(), path, kConfig); });
    expect_error(Code::kIncompatible, [&] { rig.trainer->require_same_frozen(real_fs(), path); });
    EXPECT_EQ(e.key, "model.norm.weight");
    EXPECT_TRUE(contains(e.message, "model.freeze"));
    EXPECT_TRUE(same_bits(rig.masters(), before));
  };
  refused(all, of_frozen);
  refused(frozen, of_all);
}

TEST(Freeze, ACheckpointIsRefusedOnAModelWithOtherFrozenValues) {
  const TempDir dir;
  const TrainableRule rule{{"model.norm.weight"}, {}};
  TrainRig rig({.model = "llama"}, options_of(rule));
  step(rig, 3);
  const std::string path = rig.trainer->save(
      real_fs(), dir.path(), {.step = 1, .config_digest = kConfig, .pipeline = "{}"});
  TrainRig other({.model = "llama"}, options_of(rule));
  other.model().master()[other.model().layout().final_norm()] += 1;
  const Error e =
      expect_error(Code::kIncompatible, [&] { other.trainer->load(real_fs(), path, kConfig); });
  EXPECT_TRUE(contains(e.message, "frozen parameters have digest"));
}

}  // namespace
}  // namespace rl::testing
