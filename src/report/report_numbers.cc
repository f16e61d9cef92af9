// std::to_chars throughout: it ignores the locale.
#include "report/report_numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/error.h"

namespace rl {
namespace {

std::string digits(double value, int precision, std::chars_format format) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, format, precision);
  return std::string(text, end.ptr);
}

std::string with_commas(double whole) {
  const std::string text = digits(std::fabs(whole), 0, std::chars_format::fixed);
  std::string out = whole < 0 ? "-" : "";
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && (text.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(text[i]);
  }
  return out;
}

// "1.200e-05" as "1.2e-5".
std::string scientific(double value) {
  const std::string text = digits(value, 3, std::chars_format::scientific);
  const size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  mantissa.erase(mantissa.find_last_not_of('0') + 1);
  if (mantissa.back() == '.') mantissa.pop_back();
  return str(mantissa, "e", std::atoi(text.c_str() + e + 1));
}

// A tick distance: 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

void set_ticks(ChartAxis& axis, double step) {
  const double first = std::ceil(axis.low / step - 1e-6);
  for (double k = first; k * step <= axis.high + 1e-6 * step; ++k) axis.ticks.push_back(k * step);
}

}  // namespace

std::string format_number(double value, int num_digits) {
  if (!std::isfinite(value)) return "no value";
  const double size = std::fabs(value);
  if (size == 0) return "0";
  if (size < 1e-3 || size >= 1e12) return scientific(value);
  if (size >= 999.95) return with_commas(value);
  return digits(value, num_digits, std::chars_format::general);
}

std::string format_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  const int precision = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return str(digits(value, precision, std::chars_format::fixed), " ", kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "no value";
  if (seconds < 60) return str(digits(seconds, 3, std::chars_format::general), " s");
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e15)));
  const int64_t minutes = whole / 60;
  if (minutes < 60) return str(minutes, " min ", whole % 60, " s");
  return str(minutes / 60, " h ", minutes % 60, " min");
}

// Differences below this share of the values are noise in the last digits; no axis shows them.
constexpr double kMinSpread = 1e-9;
constexpr double kMinSize = 1e-100;

ChartAxis value_axis(double low, double high, int num_ticks) {
  if (std::fabs(low) < kMinSize) low = 0;
  if (std::fabs(high) < kMinSize) high = 0;
  if (low >= 0 && low < 0.7 * high) low = 0;
  if (high <= 0 && high > 0.7 * low) high = 0;
  const double size = std::max(std::fabs(low), std::fabs(high));
  if (high - low <= kMinSpread * size) {
    const double room = size == 0 ? 1 : 0.5 * size;
    if (size != 0) low -= room;
    high += room;
  }
  const double step = round_step((high - low) / num_ticks);
  ChartAxis axis{std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, {}};
  set_ticks(axis, step);
  return axis;
}

ChartAxis step_axis(double first, double last, int num_ticks) {
  if (first == last) return {first - 1, last + 1, {first}};
  ChartAxis axis{first, last, {}};
  set_ticks(axis, std::max(1.0, round_step((last - first) / num_ticks)));
  return axis;
}

}  // namespace rl
