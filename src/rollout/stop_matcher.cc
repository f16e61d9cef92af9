// The kept tail is too short to hold the longest string whole. A shorter one inside it was found
// before, so a match must end in the new bytes. They are consumed in parts no longer than the
// longest string, which also bounds the tail while it grows.
#include "rollout/stop_matcher.h"

#include <algorithm>

namespace rl {
namespace {

size_t longest_of(std::span<const std::string> strings) {
  size_t longest = 0;
  for (const std::string& s : strings) longest = std::max(longest, s.size());
  return longest;
}

}  // namespace

void StopMatcher::reserve(std::span<const std::string> stop_strings) {
  tail_.reserve(2 * longest_of(stop_strings));
}

bool StopMatcher::feed(std::string_view bytes, std::span<const std::string> stop_strings) {
  if (stop_strings.empty()) return false;
  const size_t longest = longest_of(stop_strings);
  bool found = false;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(longest, bytes.size()))) {
    found |= feed_piece(bytes.substr(0, longest), stop_strings);
    if (tail_.size() >= longest) tail_.erase(0, tail_.size() - (longest - 1));
  }
  return found;
}

bool StopMatcher::feed_piece(std::string_view bytes, std::span<const std::string> stop_strings) {
  const size_t old = tail_.size();
  tail_.append(bytes);
  return std::any_of(stop_strings.begin(), stop_strings.end(), [&](const std::string& stop) {
    const size_t first = old < stop.size() ? 0 : old - stop.size() + 1;
    return tail_.find(stop, first) != std::string::npos;
  });
}

}  // namespace rl
