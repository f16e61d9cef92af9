// The options of ranks that train together: all those that decide bits, and what the ranks divide.
#pragma once
#include <string>

#include "options/options.h"
#include "train/ranks/data_ranks.h"

namespace rl {

// "key=value" of each, a line each.
std::string shared_options(const OptionSet& options);

// A call that the ranks make together. Error(kConflict) names the first option that differs from
// rank 0's, and the rank; it is the same on all of them.
void require_same_options(const DataRanks& ranks, const std::string& own);

}  // namespace rl
