// Mean and spread of the loss tokens of a batch, and whitening by them. The moments are an input
// of whitening, so that parts of a batch can be measured separately, merged, and then whitened
// alike.
//
//   whiten  (x - mean) / sqrt(var + eps)          verl masked_whiten: ddof 1, eps 1e-8
//           (x - mean) / sqrt(max(var, eps))      OpenRLHF: ddof 0, eps 1e-8, floor
//
// A masked entry (mask 0) is never read and becomes 0.
#pragma once
#include <cstdint>
#include <span>

namespace rl {

struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;  // sum of squared deviations from the mean
};

// Two passes in order over the entries with mask 1. An empty mask means that all entries count.
Moments moments_of(std::span<const double> values, std::span<const uint8_t> mask);

// sum / count, or 0 for none.
inline double mean_of(double sum, int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

// The moments of both parts combined.
Moments merge(const Moments& a, const Moments& b);

// squares / (count - ddof), or 0 if count <= ddof.
double variance(const Moments& moments, int32_t ddof);

struct WhitenParams {
  int32_t ddof = 1;           // 0 or 1
  double eps = 1e-8;          // > 0
  bool floor = false;         // eps is a lower bound of the variance, not added to it
  bool shift_mean = true;     // false: the mean is added back
  bool divide_by_std = true;  // false: only the mean is subtracted
};

// Throws Error(kOutOfRange) naming the option.
void validate(const WhitenParams& params);

void whiten(const WhitenParams& params, const Moments& moments, std::span<const uint8_t> mask,
            std::span<double> values);

}  // namespace rl
