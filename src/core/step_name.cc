// Six digits, so that names sort as numbers; larger steps have more.
#include "core/step_name.h"

#include <charconv>

#include "core/error.h"

namespace rl {
namespace {
constexpr std::string_view kPrefix = "step_";
constexpr size_t kDigits = 6;
}  // namespace

std::string step_name(int64_t step, std::string_view suffix) {
  const std::string digits = str(step);
  const size_t zeros = digits.size() < kDigits ? kDigits - digits.size() : 0;
  return str(kPrefix, std::string(zeros, '0'), digits, suffix);
}

std::optional<int64_t> step_of(std::string_view name, std::string_view suffix) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const auto [stop, error] =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc{} || step < 0 || step_name(step, suffix) != name) return std::nullopt;
  return step;
}

}  // namespace rl
