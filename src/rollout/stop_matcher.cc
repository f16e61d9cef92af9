// The kept tail is too short to hold the longest string whole. A shorter one inside it was found
// before, so a match must end in the new bytes.
#include "rollout/stop_matcher.h"

#include <algorithm>

namespace rl {

bool StopMatcher::feed(std::string_view bytes, std::span<const std::string> stop_strings) {
  if (stop_strings.empty()) return false;
  const size_t old = tail_.size();
  tail_.append(bytes);
  bool found = false;
  size_t longest = 0;
  for (const std::string& stop : stop_strings) {
    const size_t first = old < stop.size() ? 0 : old - stop.size() + 1;
    found |= tail_.find(stop, first) != std::string::npos;
    longest = std::max(longest, stop.size());
  }
  if (tail_.size() >= longest) tail_.erase(0, tail_.size() - (longest - 1));
  return found;
}

}  // namespace rl
