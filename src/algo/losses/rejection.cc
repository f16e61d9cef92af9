// Rejection of tokens and sequences: statistics, bounds and masks of algo/losses/correction.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "algo/choice.h"
#include "algo/losses/correction.h"

namespace rl {
namespace {

constexpr double kLogLimit = 20.0;

constexpr std::array<Choice<RejectLevel>, 4> kLevels{{
    {RejectLevel::kToken, "token"},
    {RejectLevel::kSeqSum, "seq_sum"},
    {RejectLevel::kSeqMean, "seq_mean"},
    {RejectLevel::kSeqMax, "seq_max"},
}};
constexpr std::array<Choice<RejectStatistic>, 5> kStatistics{{
    {RejectStatistic::kK1, "k1"},
    {RejectStatistic::kK2, "k2"},
    {RejectStatistic::kK3, "k3"},
    {RejectStatistic::kBinaryKl, "binary_kl"},
    {RejectStatistic::kTv, "tv"},
}};

// KL of (q, 1 - q) from (p, 1 - p); the bound keeps 1 - p away from 0 in any precision.
double two_way_kl(double log_q, double log_p) {
  constexpr double kEps = 1e-6;
  const double q = std::clamp(std::exp(log_q), kEps, 1 - kEps);
  const double p = std::clamp(std::exp(log_p), kEps, 1 - kEps);
  return q * std::log(q / p) + (1 - q) * std::log((1 - q) / (1 - p));
}

double statistic(RejectStatistic kind, double old_log_prob, double rollout_log_prob) {
  const double l = std::clamp(old_log_prob - rollout_log_prob, -kLogLimit, kLogLimit);
  switch (kind) {
    case RejectStatistic::kK1:
      return -l;
    case RejectStatistic::kK2:
      return l * l / 2;
    case RejectStatistic::kK3:
      return std::exp(l) - 1 - l;
    case RejectStatistic::kBinaryKl:
      return two_way_kl(rollout_log_prob, old_log_prob);
    case RejectStatistic::kTv:
      return std::abs(std::exp(old_log_prob) - std::exp(rollout_log_prob));
  }
  RL_CHECK(false && "unknown RejectStatistic");
  return 0;
}

bool in_bounds(const Rejection& r, double value) {
  if (r.statistic != RejectStatistic::kK1) return value <= r.high;
  return value >= std::log(r.low) && value <= std::log(r.high);
}

// Sum, mean or largest of the statistic over the sequence's tokens; 0 for none.
double sequence_statistic(const Rejection& r, const MismatchInput& in, size_t begin, size_t end) {
  double sum = 0, count = 0, most = -HUGE_VAL;
  for (size_t t = begin; t < end; ++t) {
    if (in.shape.mask[t] == 0) continue;
    const double v = statistic(r.statistic, in.old_log_prob[t], in.rollout_log_prob[t]);
    sum += v;
    count += 1;
    most = std::max(most, v);
  }
  if (count == 0) return 0;
  if (r.level == RejectLevel::kSeqMax) return most;
  return r.level == RejectLevel::kSeqMean ? sum / count : sum;
}

void check(const ResponseShape& shape, std::span<const float> a, std::span<const float> b,
           size_t keep_size) {
  require_same_size("log-probs", b.size(), a.size());
  check_shape(shape, a.size());
  require_same_size("keep", keep_size, a.size());
}

void drop(std::span<uint8_t> keep, size_t begin, size_t end) {
  std::fill(keep.begin() + static_cast<ptrdiff_t>(begin),
            keep.begin() + static_cast<ptrdiff_t>(end), uint8_t{0});
}

void start(const ResponseShape& shape, std::span<uint8_t> keep) {
  for (size_t t = 0; t < keep.size(); ++t) keep[t] = shape.mask[t] != 0;
}

RejectionSums count(const ResponseShape& shape, std::span<const uint8_t> keep) {
  RejectionSums s;
  for_each_sequence(shape, [&](size_t, size_t begin, size_t end) {
    double tokens = 0, rejected = 0;
    for (size_t t = begin; t < end; ++t) {
      tokens += shape.mask[t] != 0;
      rejected += shape.mask[t] != 0 && keep[t] == 0;
    }
    s.num_tokens += tokens;
    s.num_rejected += rejected;
    s.num_sequences += tokens > 0;
    s.num_touched += rejected > 0;
  });
  return s;
}

}  // namespace

void RejectionSums::add(const RejectionSums& o) {
  num_tokens += o.num_tokens;
  num_rejected += o.num_rejected;
  num_sequences += o.num_sequences;
  num_touched += o.num_touched;
}

std::string rejection_name(const Rejection& v) {
  return str(choice_name(kLevels, v.level), "_", choice_name(kStatistics, v.statistic));
}

Rejection parse_rejection(std::string_view text) {
  std::string expected = "one of";
  for (const auto& level : kLevels) {
    for (const auto& stat : kStatistics) {
      const Rejection r{.level = level.value, .statistic = stat.value};
      if (r.level == RejectLevel::kSeqMax && r.statistic == RejectStatistic::kK1) continue;
      if (rejection_name(r) == text) return r;
      expected += (expected.size() == 6 ? " " : ", ") + rejection_name(r);
    }
  }
  throw Error(Code::kInvalidArgument,
              str("algo.correction.rs is '", text, "', expected ", expected))
      .with_key("algo.correction.rs")
      .with_expected(expected);
}

void validate(const Rejection& r) {
  const bool two_sided = r.statistic == RejectStatistic::kK1;
  require_value(r.high > 0, "algo.correction.rs_bounds", r.high, "above 0");
  if (!two_sided) return;
  require_value(r.low > 0 && r.low <= r.high, "algo.correction.rs_bounds", r.low,
                "above 0, at most the upper bound");
}

RejectionSums reject(std::span<const Rejection> rejections, const MismatchInput& in,
                     std::span<uint8_t> keep) {
  check(in.shape, in.old_log_prob, in.rollout_log_prob, keep.size());
  start(in.shape, keep);
  for (const Rejection& r : rejections) {
    validate(r);
    for_each_sequence(in.shape, [&](size_t, size_t begin, size_t end) {
      if (r.level != RejectLevel::kToken) {
        if (!in_bounds(r, sequence_statistic(r, in, begin, end))) drop(keep, begin, end);
        return;
      }
      for (size_t t = begin; t < end; ++t) {
        if (keep[t] == 0) continue;
        const double v = statistic(r.statistic, in.old_log_prob[t], in.rollout_log_prob[t]);
        if (!in_bounds(r, v)) keep[t] = 0;
      }
    });
  }
  return count(in.shape, keep);
}

RejectionSums veto(double threshold, const MismatchInput& in, std::span<uint8_t> keep) {
  require_value(threshold > 0 && threshold < 1, "algo.correction.veto", threshold,
                "above 0, below 1");
  check(in.shape, in.old_log_prob, in.rollout_log_prob, keep.size());
  start(in.shape, keep);
  const double limit = std::log(threshold);
  for_each_sequence(in.shape, [&](size_t, size_t begin, size_t end) {
    for (size_t t = begin; t < end; ++t) {
      const double l = static_cast<double>(in.old_log_prob[t]) - in.rollout_log_prob[t];
      if (in.shape.mask[t] != 0 && l < limit) return drop(keep, begin, end);
    }
  });
  return count(in.shape, keep);
}

RejectionSums opsm(double delta, const OpsmInput& in, std::span<uint8_t> keep) {
  require_value(delta >= 0 && std::isfinite(delta), "algo.correction.opsm_delta", delta,
                "a finite value of at least 0");
  check(in.shape, in.old_log_prob, in.log_prob, keep.size());
  require_same_size("advantage", in.advantage.size(), in.shape.lengths.size());
  start(in.shape, keep);
  for_each_sequence(in.shape, [&](size_t i, size_t begin, size_t end) {
    double sum = 0, tokens = 0;
    for (size_t t = begin; t < end; ++t) {
      if (in.shape.mask[t] == 0) continue;
      sum += static_cast<double>(in.old_log_prob[t]) - in.log_prob[t];
      tokens += 1;
    }
    if (in.advantage[i] < 0 && tokens > 0 && sum / tokens > delta) drop(keep, begin, end);
  });
  return count(in.shape, keep);
}

}  // namespace rl
