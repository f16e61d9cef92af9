// Loops over small arrays.
#include "algo/batching/filters.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "algo/choice.h"
#include "algo/moments.h"

namespace rl {

bool is_zero_advantage(std::span<const double> advantages) {
  return std::all_of(advantages.begin(), advantages.end(), [](double a) { return a == 0; });
}

bool has_no_spread(std::span<const double> values, double limit) {
  require_value(limit >= 0 && std::isfinite(limit), "limit", limit, "a finite value of at least 0");
  if (values.size() < 2) return false;
  // Equal values may differ from their rounded mean; that is not spread.
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low == *high) return true;
  return std::sqrt(variance(moments_of(values, {}), 1)) <= limit;
}

void validate(const DynamicFilter& f) {
  require_value(std::isfinite(f.low), "pipeline.filter", f.low, "a finite lower bound");
  require_value(f.high > f.low && std::isfinite(f.high), "pipeline.filter", f.high,
                "a finite upper bound above the lower one");
}

bool passes(const DynamicFilter& f, std::span<const double> values) {
  validate(f);
  if (values.empty()) return false;
  const double mean = moments_of(values, {}).mean;
  return f.low < mean && mean < f.high;
}

double repetition(std::span<const int32_t> ids, int32_t n) {
  require_value(n >= 1, "n", n, "at least 1");
  const auto width = static_cast<size_t>(n);
  if (ids.size() < width) return 0;
  std::vector<size_t> begins(ids.size() - width + 1);
  for (size_t i = 0; i < begins.size(); ++i) begins[i] = i;
  const auto gram = [&](size_t i) { return ids.subspan(i, width); };
  const auto less = [&](size_t a, size_t b) {
    const auto x = gram(a), y = gram(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  };
  std::sort(begins.begin(), begins.end(), less);
  double distinct = 1;
  for (size_t i = 1; i < begins.size(); ++i) distinct += less(begins[i - 1], begins[i]);
  return 1 - distinct / static_cast<double>(begins.size());
}

}  // namespace rl
