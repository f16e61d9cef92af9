// The sections of a layout in parts (WeightLayout::sections), beside those of one rank that has all
// parts.
#pragma once
#include <cstddef>

#include "model/weights.h"

namespace rl::testing {

// Calls visit(section of the rank, the same one of the layout with all parts).
template <typename Visit>
void for_sections(const WeightLayout& rank, const WeightLayout& all, const Visit& visit) {
  visit(rank.sections().front(), all.sections().front());
  const auto first = static_cast<size_t>(rank.split().first);
  const auto count = static_cast<size_t>(rank.split().count);
  const auto parts = static_cast<size_t>(rank.split().parts);
  for (size_t i = 0; 1 + i < rank.sections().size(); ++i) {
    const size_t kind = i / count, part = i % count;
    visit(rank.sections()[1 + i], all.sections()[1 + kind * parts + first + part]);
  }
}

}  // namespace rl::testing
