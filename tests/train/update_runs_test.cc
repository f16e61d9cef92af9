// optimizer.no_decay: which parameters have weight decay, and what a step does to them.
#include "train/options/update_runs.h"

#include <gtest/gtest.h>

#include <set>

#include "support/expect_error.h"
#include "train_rig.h"

namespace rl::testing {
namespace {

std::set<std::string> undecayed(const std::string& model, const std::vector<std::string>& list) {
  const TinyModel tiny(TinyModel::fixture(model));
  const WeightLayout layout(tiny.model->config());
  OptimizerOptions options;
  options.no_decay = list;
  const UpdateRuns runs = update_runs(layout, options);
  std::set<std::string> names;
  int64_t floats = 0;
  for (const TrainedRun& run : runs.decayed) floats += run.size;
  for (const TrainedRun& run : runs.undecayed) {
    floats += run.size;
    for (const Parameter& p : layout.parameters()) {
      if (p.offset == run.master) names.insert(p.name);
    }
  }
  EXPECT_EQ(floats, layout.num_parameters());
  EXPECT_EQ(names.size(), runs.undecayed.size());
  return names;
}

TEST(UpdateRuns, TheWordsStandForNormsAndBiases) {
  const auto norms = undecayed("llama", {"norms", "biases"});  // it has no bias
  EXPECT_TRUE(norms.contains("model.norm.weight"));
  EXPECT_TRUE(norms.contains("model.layers.0.input_layernorm.weight"));
  EXPECT_TRUE(norms.contains("model.layers.1.post_attention_layernorm.weight"));
  EXPECT_EQ(norms.size(), 5u);
  const auto both = undecayed("qwen2", {"norms", "biases"}),
             biases = undecayed("qwen2", {"biases"});
  EXPECT_TRUE(biases.contains("model.layers.0.self_attn.k_proj.bias"));
  EXPECT_EQ(both.size(), undecayed("qwen2", {"norms"}).size() + biases.size());
}

TEST(UpdateRuns, APatternNamesParameters) {
  EXPECT_EQ(undecayed("llama", {"model.embed_tokens.weight"}),
            (std::set<std::string>{"model.embed_tokens.weight"}));
  EXPECT_EQ(undecayed("llama", {"*.0.mlp.*"}).size(), 3u);
}

TEST(UpdateRuns, APatternThatMatchesNothingIsRefusedByPlaceUnlessItMayMiss) {
  const TinyModel tiny(TinyModel::fixture("llama"));
  const WeightLayout layout(tiny.model->config());
  OptimizerOptions options;
  options.no_decay = {"norms", "*.bias"};
  const Error e = expect_error(Code::kInvalidArgument, [&] { update_runs(layout, options); });
  EXPECT_EQ(e.key, "optimizer.no_decay");
  EXPECT_EQ(e.location, "optimizer.no_decay[1]");
  options.no_decay_may_miss = true;
  EXPECT_EQ(update_runs(layout, options).undecayed.size(), 5u);
}

// Of one step with so much decay and such a list.
std::vector<float> stepped(double decay, const std::vector<std::string>& list) {
  TrainerOptions o;
  o.max_tokens = 64;
  o.schedule.lr = 1e-2;
  o.adamw.weight_decay = decay;
  o.optimizer.no_decay = list;
  TrainRig rig({.model = "qwen2"}, o);
  std::vector<Sample> samples = random_samples(8, rig.model().config().vocab, 5);
  store_logprobs(rig, samples);
  rig.trainer->step(with_advantages(samples));
  return rig.masters();
}

TEST(UpdateRuns, AStepDecaysExactlyTheOthers) {
  const std::vector<float> all = stepped(0.5, {}), none = stepped(0, {}),
                           some = stepped(0.5, {"norms", "*.o_proj.weight"});
  const TinyModel tiny(TinyModel::fixture("qwen2"));
  const WeightLayout layout(tiny.model->config());
  for (const Parameter& p : layout.parameters()) {
    const bool listed = p.name.ends_with("norm.weight") || p.name.ends_with(".o_proj.weight");
    const auto part = [&](const std::vector<float>& masters) {
      return std::vector<float>(masters.begin() + p.offset, masters.begin() + p.offset + p.size);
    };
    EXPECT_TRUE(same_bits(part(some), part(listed ? none : all))) << p.name;
    EXPECT_FALSE(same_bits(part(all), part(none))) << p.name;
  }
}

}  // namespace
}  // namespace rl::testing
