// Training of ranks that divide a model, and its comparison with one rank that has all parts.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "support/part_sections.h"
#include "tensor/tensor_rig.h"

namespace rl::testing {

// What a rank sees of a run of kSteps steps on `count` samples of the first `tokens` tokens, or of
// all.
struct Outcome {
  std::vector<float> logprobs;   // of samples that it computes, before the first step
  std::vector<float> gradients;  // of the first step, of what it has
  std::vector<float> masters;    // after the last, as files have them
  std::vector<float> whole;      // the masters that every rank has
  std::vector<double> norms;
  std::optional<WeightLayout> layout;
};

// Log-probs and entropies of some samples, and logits of all their rows and of some.
inline std::vector<float> forward_outputs(TrainRig& rig) {
  const std::vector<Sample> samples = random_samples(6, rig.model().config().vocab, 3);
  std::vector<const Sample*> in;
  size_t tokens = 0;
  for (const Sample& s : samples) {
    in.push_back(&s);
    tokens += static_cast<size_t>(s.generated());
  }
  std::vector<float> values(2 * tokens);
  ForwardPass pass = rig.trainer->forward_pass();
  pass.tokens(in, std::span(values).first(tokens), std::span(values).subspan(tokens));
  const std::vector<uint64_t> rows = {7, 0, 7, 20};
  for (const TensorPtr& t : {pass.logits(in, {}), pass.logits(in, rows)}) {
    const auto* const from = static_cast<const float*>(t->data());
    values.insert(values.end(), from, from + t->num_elements());
  }
  return values;
}

inline constexpr int kSteps = 3;

inline Outcome train(TrainRig& rig, int count = 8, int64_t tokens = 0) {
  Outcome out;
  out.layout.emplace(rig.trainer->layout());
  for (unsigned step = 0; step < kSteps; ++step) {
    const int64_t vocab = tokens != 0 ? tokens : rig.model().config().vocab;
    std::vector<Sample> samples = random_samples(count, vocab, 11 + step);
    store_logprobs(rig, samples);
    for (const Sample& s : samples)
      out.logprobs.insert(out.logprobs.end(), s.logprobs.begin(), s.logprobs.end());
    const TrainMetrics metrics = rig.trainer->step(with_advantages(samples));
    EXPECT_EQ(metrics.logprob_max_abs_diff, 0);
    EXPECT_EQ(metrics.optimizer_steps, 1);
    out.norms.push_back(metrics.grad_norm);
    if (step == 0) out.gradients = rig.gradients();
  }
  out.masters = all_weights(rig.model(), WholeTensors(rig.model()));
  out.whole.resize(static_cast<size_t>(rig.model().layout().sections().front().masters));
  rig.model().masters().part(0, static_cast<int64_t>(out.whole.size())).read(out.whole);
  return out;
}

inline std::vector<Outcome> train_on(const Division& d, const RigOptions& rig,
                                     const TrainerOptions& options = options_of(), int count = 8) {
  std::vector<Outcome> out(static_cast<size_t>(d.ranks));
  on_ranks(d, rig, options,
           [&](TrainRig& r, int rank) { out[static_cast<size_t>(rank)] = train(r, count); });
  return out;
}

inline std::vector<float> section_of(const Outcome& o, const LayoutSection& s) {
  const auto begin = o.gradients.begin() + s.gradient;
  return {begin, begin + s.gradients};
}

inline void expect_same_as_one(const std::vector<Outcome>& ranks, const Outcome& one) {
  for (const Outcome& rank : ranks) {
    EXPECT_TRUE(same_bits(rank.logprobs, one.logprobs));
    EXPECT_EQ(rank.norms, one.norms);
    EXPECT_TRUE(same_bits(rank.masters, one.masters));
    EXPECT_TRUE(same_bits(rank.whole, one.whole));
    for_sections(*rank.layout, *one.layout,
                 [&](const LayoutSection& own, const LayoutSection& same) {
                   EXPECT_TRUE(same_bits(section_of(rank, own), section_of(one, same)));
                 });
  }
}

}  // namespace rl::testing
