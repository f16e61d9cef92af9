// Selection by sorting indices; ties go to the lower index, so the selection is unique.
#include "algo/losses/covariance.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "algo/choice.h"

namespace rl {
namespace {

void require_ratio(double ratio) {
  require_value(ratio > 0 && ratio <= 1, "algo.cov_ratio", ratio, "above 0, at most 1");
}

size_t selection_size(double ratio, size_t num_tokens) {
  require_ratio(ratio);
  const auto share = static_cast<size_t>(ratio * static_cast<double>(num_tokens));
  return std::min(num_tokens, std::max<size_t>(1, share));
}

// Marks the `count` candidates with the smallest key.
template <typename Key>
void mark_smallest(std::vector<size_t>& candidates, size_t count, const Key& key,
                   std::span<uint8_t> selected) {
  std::fill(selected.begin(), selected.end(), uint8_t{0});
  const size_t n = std::min(count, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(n),
                    candidates.end(),
                    [&](size_t a, size_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  for (size_t i = 0; i < n; ++i) selected[candidates[i]] = 1;
}

}  // namespace

void validate(const ClipCovParams& p) {
  require_ratio(p.ratio);
  require_value(std::isfinite(p.low), "algo.clip_cov_low", p.low, "a finite value");
  require_value(p.high > p.low && std::isfinite(p.high), "algo.clip_cov_high", p.high,
                "a finite value above algo.clip_cov_low");
}

void token_covariances(const CovarianceMeans& means, std::span<const float> advantage,
                       std::span<const float> log_prob, std::span<double> covariance) {
  require_same_size("log_prob", log_prob.size(), advantage.size());
  require_same_size("covariance", covariance.size(), advantage.size());
  for (size_t i = 0; i < advantage.size(); ++i) {
    covariance[i] = (advantage[i] - means.advantage) * (log_prob[i] - means.log_prob);
  }
}

void select_largest(double ratio, std::span<const double> covariance, std::span<uint8_t> selected) {
  require_same_size("selected", selected.size(), covariance.size());
  std::vector<size_t> all(covariance.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  mark_smallest(
      all, selection_size(ratio, all.size()), [&](size_t i) { return -covariance[i]; }, selected);
}

void select_between(const ClipCovParams& params, const ClipCovInput& in,
                    std::span<uint8_t> selected) {
  validate(params);
  const size_t n = in.covariance.size();
  require_same_size("clipped", in.clipped.size(), n);
  require_same_size("u", in.u.size(), n);
  require_same_size("selected", selected.size(), n);
  std::vector<size_t> candidates;
  for (size_t i = 0; i < n; ++i) {
    const double cov = in.covariance[i];
    if (cov > params.low && cov < params.high && in.clipped[i] == 0) candidates.push_back(i);
  }
  mark_smallest(
      candidates, selection_size(params.ratio, n), [&](size_t i) { return in.u[i]; }, selected);
}

}  // namespace rl
