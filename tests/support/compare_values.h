// Two arrays compared: bit for bit, or by the distance between them.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace rl::testing {

// NaN equals itself, and 0 is not -0.
template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// |a - b| / |b| in the Euclidean norm; infinite where either is not finite, so that a maximum of
// several shows it, and for arrays of different lengths.
inline double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  double relative = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return relative;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  const double measured = std::sqrt(difference / norm);
  return std::isfinite(measured) ? measured : relative;
}

}  // namespace rl::testing
