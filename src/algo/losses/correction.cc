// Importance sampling weights and the mismatch sums.
#include "algo/losses/correction.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "algo/choice.h"

namespace rl {
namespace {

constexpr double kLogLimit = 20.0;

constexpr std::array<Choice<CorrectionLevel>, 3> kLevels{{
    {CorrectionLevel::kNone, "none"},
    {CorrectionLevel::kToken, "token"},
    {CorrectionLevel::kSequence, "sequence"},
}};
constexpr std::array<Choice<CorrectionMode>, 2> kModes{
    {{CorrectionMode::kTis, "tis"}, {CorrectionMode::kIcepop, "icepop"}}};

double log_ratio(const MismatchInput& in, size_t t) {
  return static_cast<double>(in.old_log_prob[t]) - in.rollout_log_prob[t];
}

double raw_weight(const CorrectionParams& p, double log_ratio) {
  if (p.level == CorrectionLevel::kNone) return 1;
  if (p.log_clamp == 0) return std::exp(log_ratio);
  return std::exp(std::clamp(log_ratio, -p.log_clamp, p.log_clamp));
}

double bounded_weight(const CorrectionParams& p, double raw) {
  if (p.level == CorrectionLevel::kNone) return raw;
  if (p.mode == CorrectionMode::kTis) return std::clamp(raw, p.low, p.high);
  return raw < p.low || raw > p.high ? 0.0 : raw;
}

void check(const MismatchInput& in) {
  require_same_size("rollout_log_prob", in.rollout_log_prob.size(), in.old_log_prob.size());
  check_shape(in.shape, in.old_log_prob.size());
}

}  // namespace

std::string_view correction_level_name(CorrectionLevel v) { return choice_name(kLevels, v); }
CorrectionLevel parse_correction_level(std::string_view text) {
  return parse_choice("algo.correction.is", kLevels, text);
}
std::string_view correction_mode_name(CorrectionMode v) { return choice_name(kModes, v); }
CorrectionMode parse_correction_mode(std::string_view text) {
  return parse_choice("algo.correction.mode", kModes, text);
}

void validate(const CorrectionParams& p) {
  require_value(p.high > 0, "algo.correction.high", p.high, "above 0");
  require_value(p.low >= 0 && p.low <= p.high, "algo.correction.low", p.low,
                "0..algo.correction.high");
  require_value(p.log_clamp >= 0 && std::isfinite(p.log_clamp), "log_clamp", p.log_clamp,
                "0 (off) or a finite value above 0");
}

void CorrectionSums::add(const CorrectionSums& o) {
  num_tokens += o.num_tokens;
  num_sequences += o.num_sequences;
  token_sum += o.token_sum;
  token_squares += o.token_squares;
  sequence_sum += o.sequence_sum;
  num_below += o.num_below;
  num_above += o.num_above;
  weight_min = std::min(weight_min, o.weight_min);
  weight_max = std::max(weight_max, o.weight_max);
}

CorrectionSums correction_weights(const CorrectionParams& params, const MismatchInput& in,
                                  std::span<double> weights) {
  validate(params);
  check(in);
  require_same_size("weights", weights.size(), in.old_log_prob.size());
  const double below = params.low > 0 ? params.low : 1 / params.high;
  CorrectionSums sums;
  for_each_sequence(in.shape, [&](size_t, size_t begin, size_t end) {
    double total = 0;
    for (size_t t = begin; t < end; ++t) {
      if (in.shape.mask[t] != 0) total += log_ratio(in, t);
    }
    double tokens = 0;
    double sum = 0;
    for (size_t t = begin; t < end; ++t) {
      weights[t] = 0;
      if (in.shape.mask[t] == 0) continue;
      const bool whole = params.level == CorrectionLevel::kSequence;
      const double raw = raw_weight(params, whole ? total : log_ratio(in, t));
      const double w = bounded_weight(params, raw);
      weights[t] = w;
      tokens += 1;
      sum += w;
      sums.token_squares += w * w;
      sums.num_below += raw < below;
      sums.num_above += raw > params.high;
      sums.weight_min = std::min(sums.weight_min, w);
      sums.weight_max = std::max(sums.weight_max, w);
    }
    sums.num_tokens += tokens;
    sums.token_sum += sum;
    if (tokens == 0) return;
    sums.num_sequences += 1;
    sums.sequence_sum += sum / tokens;
  });
  return sums;
}

double correction_mean(CorrectionLevel level, const CorrectionSums& s) {
  const bool whole = level == CorrectionLevel::kSequence;
  const double count = whole ? s.num_sequences : s.num_tokens;
  const double mean = count > 0 ? (whole ? s.sequence_sum : s.token_sum) / count : 0.0;
  return mean > 1e-8 ? mean : 1.0;
}

void MismatchSums::add(const MismatchSums& o) {
  num_tokens += o.num_tokens;
  num_sequences += o.num_sequences;
  neg_log_ratio += o.neg_log_ratio;
  k3 += o.k3;
  ratio_squares += o.ratio_squares;
  seq_ratio_squares += o.seq_ratio_squares;
  log_ppl_old += o.log_ppl_old;
  log_ppl_rollout += o.log_ppl_rollout;
  ppl_old += o.ppl_old;
  ppl_rollout += o.ppl_rollout;
  log_ppl_abs_diff += o.log_ppl_abs_diff;
  ppl_ratio += o.ppl_ratio;
}

MismatchSums mismatch(const MismatchInput& in) {
  check(in);
  MismatchSums s;
  for_each_sequence(in.shape, [&](size_t, size_t begin, size_t end) {
    double tokens = 0, old = 0, rollout = 0, total = 0;
    for (size_t t = begin; t < end; ++t) {
      if (in.shape.mask[t] == 0) continue;
      const double l = log_ratio(in, t);
      tokens += 1;
      old += in.old_log_prob[t];
      rollout += in.rollout_log_prob[t];
      total += l;
      s.neg_log_ratio -= l;
      s.k3 += std::exp(l) - l - 1;
      s.ratio_squares += std::exp(2 * std::clamp(l, -kLogLimit, kLogLimit));
    }
    if (tokens == 0) return;
    const double diff = (rollout - old) / tokens;
    s.num_tokens += tokens;
    s.num_sequences += 1;
    s.seq_ratio_squares += std::exp(2 * std::clamp(total, -kLogLimit, kLogLimit));
    s.log_ppl_old -= old / tokens;
    s.log_ppl_rollout -= rollout / tokens;
    s.ppl_old += std::exp(-old / tokens);
    s.ppl_rollout += std::exp(-rollout / tokens);
    s.log_ppl_abs_diff += std::abs(diff);
    s.ppl_ratio += std::exp(diff);
  });
  return s;
}

}  // namespace rl
