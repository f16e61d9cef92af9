// A step on groups with common prompts under given rules, for tests of what the cut may change.
#pragma once
#include <random>

#include "train_rig.h"

namespace rl::testing {

// Six groups of one to eight samples; prompts end inside and at the end of KV blocks of 16 tokens,
// responses have 1 to 40 tokens.
inline std::vector<Sample> groups(int64_t vocab, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<Sample> out;
  const int32_t prompts[] = {1, 16, 21, 32, 47, 5};
  for (size_t g = 0; g < std::size(prompts); ++g) {
    std::vector<int32_t> prompt(static_cast<size_t>(prompts[g]));
    for (auto& id : prompt) id = static_cast<int32_t>(rng() % static_cast<unsigned>(vocab));
    const uint32_t count = g == 4 ? 1 : 8 - static_cast<uint32_t>(g);
    for (uint32_t slot = 0; slot < count; ++slot) {
      std::vector<int32_t> ids = prompt;
      for (size_t n = 1 + rng() % 40; n > 0; --n)
        ids.push_back(static_cast<int32_t>(rng() % static_cast<unsigned>(vocab)));
      out.push_back(make_sample(std::move(ids), prompts[g], g, slot));
      for (auto& mask : out.back().loss_mask) mask = rng() % 8 != 0;
      out.back().temperature = slot % 2 == 0 ? 1.0f : 0.7f;
    }
  }
  return out;
}

struct Step {
  TrainMetrics metrics;
  std::vector<float> gradients, masters;
  std::vector<Sample> samples;
};

struct StepRules {
  BatchRules batch = {};
  int64_t max_tokens = 2048;
  double loss_scale = 1;
  DistillOptions distill = {};
  ActivationRule activations = {};
  TrainableRule trainable = {};
  bool recompute_loss = false;
  int64_t chunk = 50;  // of the head
  int64_t mlp_chunk = 0;
  GradDtype grad_dtype = GradDtype::kF32;
};

inline StepRules without_sharing(double loss_scale = 1) {
  StepRules rules;
  rules.batch.shared_prefix = false;
  rules.loss_scale = loss_scale;
  return rules;
}

// Any setting of the keys, which may contradict each other only where the trainer does not care.
inline StepRules random_rules(std::mt19937& rng) {
  StepRules rules;
  BatchRules& b = rules.batch;
  const auto one_of = [&](auto... values) {
    const int64_t all[] = {static_cast<int64_t>(values)...};
    return all[rng() % std::size(all)];
  };
  rules.max_tokens = one_of(96, 150, 333, 2048);
  b.shared_prefix = one_of(0, 1, 1) != 0;
  b.packed = one_of(0, 1, 1) != 0;
  b.pad_to = one_of(1, 1, 24, 32);
  b.forward_max_tokens = one_of(0, 100, 500);
  if (rng() % 3 == 0) b.micro_batch_size = one_of(1, 4, 7);
  if (b.packed && b.micro_batch_size == 0) {
    b.balance = static_cast<BalanceCost>(rng() % 3);
    if (rng() % 3 == 0) b.seq_len = rules.max_tokens;
  }
  if (rng() % 4 == 0 && b.seq_len == 0) {
    rules.max_tokens = 40;
    b.oversize_alone = true;
  }
  return rules;
}

inline std::string text_of(const StepRules& r) {
  const BatchRules& b = r.batch;
  return str("max_tokens ", r.max_tokens, " shared ", b.shared_prefix, " packed ", b.packed,
             " micro_batch_size ", b.micro_batch_size, " seq_len ", b.seq_len, " pad_to ", b.pad_to,
             " balance ", balance_cost_name(b.balance), " alone ", b.oversize_alone, " log-probs ",
             b.forward_max_tokens);
}

inline TrainerOptions options_of(const StepRules& rules) {
  TrainerOptions options;
  options.max_tokens = rules.max_tokens;
  options.logprob_chunk_tokens = rules.chunk;
  options.mlp_chunk_tokens = rules.mlp_chunk;
  options.optimizer.grad_dtype = rules.grad_dtype;
  options.recompute_loss = rules.recompute_loss;
  options.schedule.lr = 1e-3;
  options.entropy_coef = 0.01 * rules.loss_scale;
  options.batch = rules.batch;
  options.max_sequence = 100;
  options.distill = rules.distill;
  options.activations = rules.activations;
  options.trainable = rules.trainable;
  options.distill.coef *= rules.loss_scale;
  return options;
}

inline Step step(const RigOptions& rig_options, const StepRules& rules) {
  TrainRig rig(rig_options, options_of(rules));
  Step r;
  r.samples = groups(rig.model().config().vocab, 5);
  store_logprobs(rig, r.samples);
  std::vector<TrainSample> batch = with_advantages(r.samples);
  for (TrainSample& s : batch) s.advantage *= rules.loss_scale;
  r.metrics = rig.trainer->step(batch);
  r.gradients = rig.gradients();
  r.masters = rig.masters();
  return r;
}

// What the rounding of gradients alone does to a gradient: another scale of the loss is other
// roundings of the same values.
inline double rounding_noise(const RigOptions& rig, const Step& unscaled,
                             const DistillOptions& distill = {}) {
  constexpr float kScale = 1.1f;
  StepRules rules = without_sharing(kScale);
  rules.distill = distill;
  Step scaled = step(rig, rules);
  for (float& g : scaled.gradients) g /= kScale;
  return relative_l2(scaled.gradients, unscaled.gradients);
}

}  // namespace rl::testing
