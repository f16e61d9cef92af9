// Properties that every policy loss has: gradients are derivatives, masked tokens are nothing, the
// cut into micro-batches and the order of sequences do not matter.
#include <algorithm>
#include <cmath>

#include "algo/advantages/advantage.h"
#include "algo/losses/loss_agg.h"
#include "algo/losses/policy_loss.h"
#include "support/expect_error.h"

namespace rl {
namespace {

using Floats = std::vector<float>;
using Values = std::vector<double>;

constexpr PolicyLoss kAll[] = {
    PolicyLoss::kPpoClip, PolicyLoss::kNone,    PolicyLoss::kGspo,  PolicyLoss::kCispo,
    PolicyLoss::kSapo,    PolicyLoss::kGmpo,    PolicyLoss::kGpg,   PolicyLoss::kDppoTv,
    PolicyLoss::kDppoKl,  PolicyLoss::kClipCov, PolicyLoss::kKlCov, PolicyLoss::kDro,
};

PolicyLossParams params_of(PolicyLoss kind) {
  PolicyLossParams p{.kind = kind, .clip_low = 0.2, .clip_high = 0.3};
  if (kind == PolicyLoss::kPpoClip) p.dual_clip = 1.25;
  if (kind == PolicyLoss::kDppoTv || kind == PolicyLoss::kDppoKl) {
    p.clip_low = 0.0625;
    p.clip_high = 0.125;
    p.ratio_cap = 1.5;
  }
  return p;
}

// Seeded packed sequences; every number is a multiple of 1/1024 below 8, exact in fp32 with room
// for a step of 2^-14.
struct Batch {
  std::vector<int32_t> lengths{5, 1, 0, 7, 3};
  Floats log_prob, old_log_prob, advantage;
  Values weight, correction;
  std::vector<uint8_t> selected;

  explicit Batch(uint64_t seed) {
    uint64_t state = seed;
    const auto grid = [&state](int low, int high) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<float>(low + static_cast<int>((state >> 33) % (high - low))) / 1024;
    };
    for (int i = 0; i < 16; ++i) {
      log_prob.push_back(grid(-3000, -100));
      old_log_prob.push_back(log_prob.back() - grid(-600, 600));
      advantage.push_back(grid(-2000, 2000));
      correction.push_back(grid(256, 2048));
      selected.push_back(i % 3 == 0);
    }
    weight.resize(16);
    token_weights(LossAgg::kSeqMeanTokenMean, {.num_sequences = 4}, lengths, weight);
  }
  PolicyLossInput input() const {
    return {log_prob, old_log_prob, advantage, weight, correction, lengths, selected};
  }
};

struct Result {
  PolicyLossSums sums;
  Values gradient;
};

Result run(const PolicyLossParams& p, const PolicyLossInput& in) {
  Result r;
  r.gradient.assign(in.log_prob.size(), 0);
  r.sums = policy_loss(p, in, r.gradient);
  return r;
}

// gspo's token form: the ratio of the sequence at base times exp(log_prob - sg(log_prob)).
double gspo_token_surrogate(const PolicyLossParams& p, const Batch& base, const Batch& moved) {
  double loss = 0;
  size_t begin = 0;
  for (const int32_t length : base.lengths) {
    const size_t end = begin + static_cast<size_t>(length);
    double mean = 0;
    for (size_t i = begin; i < end; ++i) {
      mean += (static_cast<double>(base.log_prob[i]) - base.old_log_prob[i]) / length;
    }
    for (size_t i = begin; i < end; ++i) {
      const double move = static_cast<double>(moved.log_prob[i]) - base.log_prob[i];
      const double ratio = std::exp(mean + move);
      const double limited = std::clamp(ratio, 1 - p.clip_low, 1 + p.clip_high);
      const double a = base.advantage[i];
      loss += base.weight[i] * base.correction[i] * std::max(-a * ratio, -a * limited);
    }
    begin = end;
  }
  return loss;
}

// cispo and dppo: a coefficient that the formula holds fixed, times the log-prob.
double fixed_surrogate(const PolicyLossParams& p, const Batch& base, const Batch& moved) {
  double loss = 0;
  for (size_t i = 0; i < base.log_prob.size(); ++i) {
    const double lp = base.log_prob[i];
    const TokenLoss t = token_policy_loss(p, lp, base.old_log_prob[i], base.advantage[i]);
    loss += base.weight[i] * base.correction[i] * (t.value / lp) * moved.log_prob[i];
  }
  return loss;
}

// The loss as a function of the log-probs, with what the formula holds fixed (sg) taken at base.
double surrogate(const PolicyLossParams& p, const Batch& base, const Batch& moved) {
  if (p.kind == PolicyLoss::kCispo || p.kind == PolicyLoss::kDppoTv ||
      p.kind == PolicyLoss::kDppoKl) {
    return fixed_surrogate(p, base, moved);
  }
  if (p.kind == PolicyLoss::kGspo && p.gspo_gradient == GspoGradient::kToken) {
    return gspo_token_surrogate(p, base, moved);
  }
  return run(p, moved.input()).sums.loss;
}

// The largest difference between gradient and central difference.
double worst_difference(const PolicyLossParams& p, const Batch& batch) {
  constexpr float kStep = 1.0f / 16384;
  const Result r = run(p, batch.input());
  double worst = 0;
  for (size_t i = 0; i < batch.log_prob.size(); ++i) {
    Batch up = batch, down = batch;
    up.log_prob[i] += kStep;
    down.log_prob[i] -= kStep;
    const double slope = (surrogate(p, batch, up) - surrogate(p, batch, down)) / (2.0 * kStep);
    worst = std::max(worst, std::abs(slope - r.gradient[i]));
  }
  return worst;
}

TEST(LossProperty, GradientIsTheDerivativeOfEveryLoss) {
  for (const PolicyLoss kind : kAll) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      // Error of a central difference: step^2 / 6 = 6e-10 times a third derivative below 10.
      EXPECT_LT(worst_difference(params_of(kind), Batch(seed)), 1e-8)
          << policy_loss_name(kind) << " seed " << seed;
    }
  }
  PolicyLossParams whole = params_of(PolicyLoss::kGspo);
  whole.gspo_gradient = GspoGradient::kSequence;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_LT(worst_difference(whole, Batch(seed)), 1e-8) << seed;
  }
}

TEST(LossProperty, GspoFormsAgreeWhereTheAdvantageIsConstant) {
  Batch b(3);
  size_t next = 0;
  for (size_t i = 0; i < b.lengths.size(); ++i) {
    for (int32_t t = 0; t < b.lengths[i]; ++t) b.advantage[next++] = i % 2 == 0 ? 0.5f : -1.0f;
  }
  b.correction.assign(b.correction.size(), 1);
  PolicyLossParams p = params_of(PolicyLoss::kGspo);
  const Result token = run(p, b.input());
  p.gspo_gradient = GspoGradient::kSequence;
  const Result whole = run(p, b.input());
  for (size_t i = 0; i < token.gradient.size(); ++i) {
    EXPECT_NEAR(token.gradient[i], whole.gradient[i], 1e-15);  // the order of one sum
  }
}

TEST(LossProperty, AMaskedTokenContributesExactlyNothing) {
  for (const PolicyLoss kind : kAll) {
    Batch b(7);
    for (const size_t i : {0u, 6u, 9u, 15u}) b.weight[i] = 0;
    const Result clean = run(params_of(kind), b.input());
    for (const size_t i : {0u, 6u, 9u, 15u}) {
      b.log_prob[i] = NAN;
      b.old_log_prob[i] = INFINITY;
      b.advantage[i] = NAN;
      b.correction[i] = NAN;
      b.selected[i] = 1;
    }
    const Result dirty = run(params_of(kind), b.input());
    EXPECT_EQ(dirty.sums.loss, clean.sums.loss) << policy_loss_name(kind);
    EXPECT_EQ(dirty.sums.k3, clean.sums.k3) << policy_loss_name(kind);
    EXPECT_EQ(dirty.sums.num_clipped, clean.sums.num_clipped) << policy_loss_name(kind);
    EXPECT_EQ(dirty.sums.num_tokens, 12) << policy_loss_name(kind);
    EXPECT_EQ(dirty.gradient, clean.gradient) << policy_loss_name(kind);
  }
}

TEST(LossProperty, MaskedTokensMightAsWellBeAbsent) {
  for (const PolicyLoss kind : kAll) {
    Batch b(11);
    const std::vector<size_t> masked{1, 8, 9, 14};
    for (const size_t i : masked) b.weight[i] = 0;
    const Result with = run(params_of(kind), b.input());
    Batch without = b;
    without.lengths = {4, 1, 0, 5, 2};
    for (auto i = masked.rbegin(); i != masked.rend(); ++i) {
      const auto at = static_cast<ptrdiff_t>(*i);
      without.log_prob.erase(without.log_prob.begin() + at);
      without.old_log_prob.erase(without.old_log_prob.begin() + at);
      without.advantage.erase(without.advantage.begin() + at);
      without.weight.erase(without.weight.begin() + at);
      without.correction.erase(without.correction.begin() + at);
      without.selected.erase(without.selected.begin() + at);
    }
    const Result less = run(params_of(kind), without.input());
    EXPECT_EQ(with.sums.loss, less.sums.loss) << policy_loss_name(kind);
    Values kept;
    for (size_t i = 0; i < with.gradient.size(); ++i) {
      if (b.weight[i] != 0) kept.push_back(with.gradient[i]);
    }
    EXPECT_EQ(kept, less.gradient) << policy_loss_name(kind);
  }
}

// Sequences [first, last) as a micro-batch of their own, with the weights of the whole.
PolicyLossInput part(const Batch& b, size_t first, size_t last, size_t begin, size_t end) {
  const auto cut = [&](const auto& v) { return std::span(v).subspan(begin, end - begin); };
  return {cut(b.log_prob), cut(b.old_log_prob), cut(b.advantage),
          cut(b.weight),   cut(b.correction),   std::span(b.lengths).subspan(first, last - first),
          cut(b.selected)};
}

TEST(LossProperty, GradientsDoNotDependOnTheCutIntoMicroBatches) {
  const std::vector<std::vector<size_t>> cuts{{1, 2, 3, 4}, {2}, {3}, {1, 4}};
  for (const PolicyLoss kind : kAll) {
    const Batch b(13);
    const Result whole = run(params_of(kind), b.input());
    for (std::vector<size_t> ends : cuts) {
      ends.push_back(b.lengths.size());
      Values gradient;
      double loss = 0;
      size_t first = 0, begin = 0;
      for (const size_t last : ends) {
        size_t end = begin;
        for (size_t i = first; i < last; ++i) end += static_cast<size_t>(b.lengths[i]);
        const Result r = run(params_of(kind), part(b, first, last, begin, end));
        gradient.insert(gradient.end(), r.gradient.begin(), r.gradient.end());
        loss += r.sums.loss;
        first = last;
        begin = end;
      }
      EXPECT_EQ(gradient, whole.gradient) << policy_loss_name(kind);
      EXPECT_NEAR(loss, whole.sums.loss, 1e-14) << policy_loss_name(kind);  // the order of one sum
    }
  }
}

TEST(LossProperty, TheOrderOfSequencesMovesNoGradient) {
  for (const PolicyLoss kind : kAll) {
    const Batch b(17);
    const Result straight = run(params_of(kind), b.input());
    Batch turned = b;
    std::vector<size_t> from;
    turned.lengths.assign(b.lengths.rbegin(), b.lengths.rend());
    size_t end = b.log_prob.size();
    for (const int32_t n : turned.lengths) {
      const size_t begin = end - static_cast<size_t>(n);
      for (size_t i = begin; i < end; ++i) from.push_back(i);
      end = begin;
    }
    for (size_t i = 0; i < from.size(); ++i) {
      turned.log_prob[i] = b.log_prob[from[i]];
      turned.old_log_prob[i] = b.old_log_prob[from[i]];
      turned.advantage[i] = b.advantage[from[i]];
      turned.weight[i] = b.weight[from[i]];
      turned.correction[i] = b.correction[from[i]];
      turned.selected[i] = b.selected[from[i]];
    }
    const Result r = run(params_of(kind), turned.input());
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(r.gradient[i], straight.gradient[from[i]]) << policy_loss_name(kind);
    }
  }
}

TEST(LossProperty, ACorrectionOfZeroTakesTheLossOfATokenAway) {
  for (const PolicyLoss kind : kAll) {
    if (kind == PolicyLoss::kGmpo) continue;  // corrects by a geometric mean of the sequence
    Batch b(19);
    b.correction[4] = 0;
    b.advantage[4] = 1e30f;
    PolicyLossParams p = params_of(kind);
    const Result r = run(p, b.input());
    EXPECT_EQ(r.gradient[4], 0) << policy_loss_name(kind);
    EXPECT_EQ(r.sums.num_tokens, 16) << policy_loss_name(kind);
    EXPECT_LT(std::abs(r.sums.loss), 100) << policy_loss_name(kind);
  }
}

TEST(LossProperty, PermutingGroupsAndSamplesMovesNoAdvantage) {
  const Values rewards{1, 0, 0.5, 2, -1, 0.25, 3, 1};
  const std::vector<int32_t> group{0, 0, 0, 1, 1, 1, 2, 2};
  const std::vector<int32_t> lengths{3, 1, 4, 1, 5, 9, 2, 6};
  // Groups 2, 0, 1, interleaved and renamed; the order within each group is kept, so sums are too.
  const std::vector<size_t> order{6, 0, 1, 7, 3, 2, 4, 5};
  const std::vector<int32_t> names{5, 7, 3};
  for (const Advantage kind :
       {Advantage::kGrpo, Advantage::kDrGrpo, Advantage::kRloo, Advantage::kOpo, Advantage::kGpg,
        Advantage::kGrpoPassk, Advantage::kReinforcePpBaseline}) {
    Values straight(8), turned(8), moved_rewards;
    std::vector<int32_t> moved_group, moved_lengths;
    for (const size_t i : order) {
      moved_rewards.push_back(rewards[i]);
      moved_group.push_back(names[static_cast<size_t>(group[i])]);
      moved_lengths.push_back(lengths[i]);
    }
    group_advantages({.kind = kind}, rewards, group, straight, lengths);
    group_advantages({.kind = kind}, moved_rewards, moved_group, turned, moved_lengths);
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(turned[i], straight[order[i]]) << advantage_name(kind);
    }
  }
}

TEST(LossProperty, EveryNameOfALossIsReadBack) {
  for (const PolicyLoss kind : kAll) EXPECT_EQ(parse_policy_loss(policy_loss_name(kind)), kind);
}

TEST(LossProperty, InputThatALossNeedsIsRequired) {
  const Batch b(1);
  Values gradient(16);
  for (const PolicyLoss kind : kAll) {
    PolicyLossInput in = b.input();
    in.lengths = {};
    in.selected = {};
    const auto call = [&] { policy_loss(params_of(kind), in, gradient); };
    if (is_sequence_loss(kind) || needs_selection(kind)) {
      expect_error(Code::kInvalidArgument, call);
    } else {
      call();
    }
  }
}

}  // namespace
}  // namespace rl
