#include "buffer/unit_files.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace rl {

std::string unit_of(uint64_t ordinal, int64_t num_units) {
  const std::string digits = str(ordinal % static_cast<uint64_t>(num_units));
  return str("unit_", std::string(4 - std::min<size_t>(4, digits.size()), '0'), digits);
}

std::vector<UnitFile> unit_files(FileSystem& fs, const std::string& dir) {
  std::vector<UnitFile> found;
  if (!fs.is_directory(dir)) return found;
  for (const std::string& unit : fs.list(dir)) {
    const std::string path = str(dir, "/", unit);
    if (!unit.starts_with("unit_") || !fs.is_directory(path)) continue;
    for (std::string& name : fs.list(path)) {
      if (name.ends_with(kGroupSuffix)) found.push_back({std::move(name), unit});
    }
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace rl
