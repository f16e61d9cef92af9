// Options of a recorded run, which a replay takes from the record as far as its schedule depends on
// them: the others say where a run writes and how many threads it has.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "options/options.h"

namespace rl {

bool schedules_depend_on(std::string_view key);

// Error(kIncompatible) naming each option of a replay that schedules depend on and that differs
// from the record's, as JSON. path: of the record.
void require_recorded(const OptionSet& now, const std::string& recorded, const std::string& path);

// The options of a replay with those of the record, as JSON, that schedules depend on; none if they
// are the same. Error(kUnsupported) naming one that a run has from its start.
std::optional<OptionSet> with_recorded(const OptionSet& now, const std::string& recorded);

}  // namespace rl
