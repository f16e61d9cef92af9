// The kept tail is too short to hold the longest string whole, and a shorter one inside it would
// have ended the stream before, so every match found is new.
#include "rollout/stop_matcher.h"

#include <algorithm>

namespace rl {

bool StopMatcher::feed(std::string_view bytes, std::span<const std::string> stop_strings) {
  if (stop_strings.empty()) return false;
  tail_.append(bytes);
  size_t longest = 0;
  for (const std::string& stop : stop_strings) {
    if (tail_.find(stop) != std::string::npos) return true;
    longest = std::max(longest, stop.size());
  }
  if (tail_.size() >= longest) tail_.erase(0, tail_.size() - (longest - 1));
  return false;
}

}  // namespace rl
