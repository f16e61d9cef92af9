// Predicates that decide whether a sample or a group is worth training on. Dropping, refilling and
// counting by reason are the caller's.
//
//   zero_advantage   every advantage of the group is 0                     (Telescope)
//   no_spread        the std of the group's values is at most limit        (verl filter_groups: 0;
//                    slime: 1e-6, ddof 1); a group of one has spread
//   dynamic          low < mean of the group's values < high is kept       (OpenRLHF
//                    dynamic_filtering_range, arXiv 2503.14476: 0..1)
//   repetition       fraction of a response's n-grams that occurred in it before, above limit
#pragma once
#include <cstdint>
#include <span>

namespace rl {

bool is_zero_advantage(std::span<const double> advantages);

// limit finite, >= 0, else Error(kOutOfRange).
bool has_no_spread(std::span<const double> values, double limit);

struct DynamicFilter {
  double low = 0;
  double high = 1;  // > low
};
// Throws Error(kOutOfRange) naming the option.
void validate(const DynamicFilter& filter);
// False if the group is to be replaced; an empty group is.
bool passes(const DynamicFilter& filter, std::span<const double> values);

// In [0, 1]: 1 - distinct n-grams / n-grams, 0 for a response shorter than n. n >= 1, else Error.
double repetition(std::span<const int32_t> ids, int32_t n);

}  // namespace rl
