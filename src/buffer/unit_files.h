// Files of groups below a directory, spread over units: DIR/unit_0003/NAME.rlbuf.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fs.h"

namespace rl {

inline constexpr std::string_view kGroupSuffix = ".rlbuf";

struct UnitFile {
  std::string name, unit;
  auto operator<=>(const UnitFile&) const = default;
  std::string token() const { return unit + "/" + name; }
};

// "unit_0003": the unit of an ordinal.
std::string unit_of(uint64_t ordinal, int64_t num_units);
// By name, over all units; none if there is no such directory.
std::vector<UnitFile> unit_files(FileSystem& fs, const std::string& dir);

}  // namespace rl
