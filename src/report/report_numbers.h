// Numbers as the report prints them, and axes. Nothing here depends on the locale.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace rl {

// num_digits significant digits: 0.7812, 1,234, 1e-5. "no value" if it is not finite.
std::string format_number(double value, int num_digits = 4);
std::string format_bytes(uint64_t bytes);    // 2.87 GiB
std::string format_seconds(double seconds);  // 0.31 s, 4 min 12 s, 2 h 5 min

// A range with round ticks: low <= every tick <= high.
struct ChartAxis {
  double low = 0, high = 1;
  std::vector<double> ticks;
  // Position of a value: 0 at low, 1 at high.
  double at(double value) const { return (value - low) / (high - low); }
};
// An axis that covers [low, high] with about num_ticks ticks. Values of one sign that differ enough
// in size get an axis that includes 0. A single value gets room around it.
ChartAxis value_axis(double low, double high, int num_ticks);
// Whole numbers from first to last.
ChartAxis step_axis(double first, double last, int num_ticks);

}  // namespace rl
