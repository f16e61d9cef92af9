// Trainers and critics on several data-parallel ranks, each on a thread of its own, and what they
// have after some steps.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>

#include "../comm/local_ranks.h"
#include "critic_rig.h"
#include "train_rig.h"

namespace rl::testing {

// Two steps of two minibatches each, of several micro-batches.
inline TrainerOptions options_of(Objective objective = Objective::kRl) {
  TrainerOptions o;
  o.objective = objective;
  o.max_tokens = 64;
  o.logprob_chunk_tokens = 16;
  o.schedule.lr = 1e-3;
  o.batch.num_minibatches = 2;
  return o;
}

struct Outcome {
  std::vector<TrainMetrics> metrics;
  std::vector<float> first_gradients, masters;  // gradients of the first optimizer step
};

// What a rank does with its rig.
using Work = std::function<Outcome(TrainRig&)>;

// Samples of weights before these: ratios differ from 1.
inline void make_stale(std::vector<Sample>& samples) {
  std::mt19937 rng(3);
  for (Sample& s : samples) {
    for (float& lp : s.logprobs) lp -= 0.3f * static_cast<float>(rng() % 1000) / 1000.0f;
    std::ranges::fill(s.versions, kUnknownVersion);
  }
}

// Without the masters.
inline Outcome take_steps(TrainRig& rig) {
  Outcome out;
  const TrainerOptions options = rig.trainer->options();
  if (options.objective == Objective::kRewardModel) fill_head(rig.model(), 3);
  for (const unsigned seed : {11u, 12u}) {
    std::vector<Sample> samples = samples_for(rig, options.objective, seed);
    if (is_rl(options.objective) && seed == 12u) make_stale(samples);
    const std::vector<TrainSample> batch = with_advantages(samples);
    rig.trainer->begin(batch);
    bool first = out.first_gradients.empty();
    while (rig.trainer->next()) {
      if (!first || options.optimizer.grad_dtype != GradDtype::kF32) continue;
      out.first_gradients = rig.gradients();
      first = rig.trainer->has_steps_left() && rig.trainer->counters().optimizer_steps == 0;
    }
    out.metrics.push_back(rig.trainer->finish());
    rig.trainer->publish(out.metrics.back());
  }
  return out;
}

inline Outcome train_twice(TrainRig& rig) {
  Outcome out = take_steps(rig);
  out.masters = rig.masters();
  return out;
}

// What a rank knows of the others. With ZeRO so many of them divide states as its options say.
class DataRankGroups {
 public:
  DataRankGroups(std::shared_ptr<Transport> transport, const ZeroOptions& zero)
      : transport_(std::move(transport)), all_(transport_, {kLongNs}) {
    if (zero.stage == 0 || zero.ranks == all_.size()) return;
    const Mesh mesh({.context = zero.ranks, .data = all_.size() / zero.ranks}, all_.size(),
                    all_.rank());
    own_.emplace(transport_, mesh, Axis::kContext, GroupOptions{kLongNs});
    sums_.emplace(transport_, mesh, GroupOptions{kLongNs, 1 << 10});
  }
  RigOptions rig_options(RigOptions out = {}) {
    if (all_.size() == 1) return out;
    out.ranks = DataRanks(all_, *transport_);
    out.master_ranks = MasterRanks(all_);
    if (!sums_) return out;
    out.ranks = out.ranks.divided_by_groups(*own_, *sums_);
    out.master_ranks = MasterRanks(*own_, sums_->group() == 0);
    return out;
  }

 private:
  std::shared_ptr<Transport> transport_;
  comm::Group all_;
  std::optional<comm::Group> own_;
  std::optional<comm::GroupedSum> sums_;
};

inline std::vector<Outcome> on_ranks(int size, const RigOptions& given,
                                     const TrainerOptions& options,
                                     const Work& work = train_twice) {
  std::vector<Outcome> out(static_cast<size_t>(size));
  run_local_ranks(size, [&](std::shared_ptr<Transport> transport) {
    DataRankGroups groups(transport, options.optimizer.zero);
    TrainRig rig(groups.rig_options(given), options);
    out[static_cast<size_t>(transport->rank())] = work(rig);
  });
  return out;
}

inline void expect_same(const TrainMetrics& a, const TrainMetrics& b) {
  std::map<std::string, double> values;
  for_each_metric(a, [&](const char* name, double value) { values[name] = value; });
  for_each_metric(b, [&](const char* name, double value) {
    if (std::string_view(name).starts_with("timing_s/")) return;
    EXPECT_EQ(values.at(name), value) << name;
  });
  EXPECT_EQ(a.non_finite_samples, b.non_finite_samples);
}

inline void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(same_bits(a.masters, b.masters));
  EXPECT_TRUE(same_bits(a.first_gradients, b.first_gradients));
  ASSERT_EQ(a.metrics.size(), b.metrics.size());
  for (size_t i = 0; i < a.metrics.size(); ++i) expect_same(a.metrics[i], b.metrics[i]);
}

struct CriticOutcome {
  CriticMetrics metrics;
  std::vector<std::vector<float>> values;
  std::vector<float> masters;
};

inline CriticOptions critic_options() {
  CriticOptions options;
  options.max_tokens = 64;
  options.schedule.lr = 1e-3;
  options.batch.num_minibatches = 2;
  return options;
}

// Values of samples, and a step on them.
inline CriticOutcome train_critic(const RigOptions& rig_options, const CriticOptions& options) {
  CriticRig rig(rig_options, options);
  rig.fill_head(3);
  const std::vector<Sample> samples = random_samples(24, rig.model().config().vocab, 7);
  CriticOutcome out;
  out.values = rig.values(samples);
  const CriticData data(rig, samples, 5);
  out.metrics = rig.critic->step(data.batch);
  out.masters = rig.masters();
  return out;
}

// zero_group: of the ranks; 0: all.
inline std::vector<CriticOutcome> critic_on_ranks(int size, int zero_stage = 0,
                                                  int zero_group = 0) {
  std::vector<CriticOutcome> out(static_cast<size_t>(size));
  CriticOptions options = critic_options();
  options.optimizer.zero = {zero_stage, zero_group == 0 ? size : zero_group};
  run_local_ranks(size, [&](std::shared_ptr<Transport> transport) {
    DataRankGroups groups(transport, options.optimizer.zero);
    out[static_cast<size_t>(transport->rank())] = train_critic(groups.rig_options(), options);
  });
  return out;
}

// The ranks have one critic, which is that of one rank but for the order of sums.
inline void expect_one_critic(const std::vector<CriticOutcome>& ranks, const CriticOutcome& one) {
  for (const CriticOutcome& rank : ranks) {
    EXPECT_EQ(rank.values, one.values);
    EXPECT_TRUE(same_bits(rank.masters, ranks[0].masters));
    EXPECT_EQ(rank.metrics.loss, ranks[0].metrics.loss);
    EXPECT_EQ(rank.metrics.loss_tokens, one.metrics.loss_tokens);
    EXPECT_EQ(rank.metrics.optimizer_steps, 2);
    EXPECT_NEAR(rank.metrics.loss, one.metrics.loss, 1e-4 * one.metrics.loss);
    EXPECT_NEAR(rank.metrics.grad_norm, one.metrics.grad_norm, 1e-4 * one.metrics.grad_norm);
  }
  // The moments of the first steps make signs of gradients near 0.
  EXPECT_LT(relative_l2(ranks[0].masters, one.masters), 1e-3);
}

}  // namespace rl::testing
