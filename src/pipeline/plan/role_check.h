// What a pipeline of one role (pipeline.role) refuses: options that only the other role reads, and
// combinations that would let the two wait for each other.
#pragma once
#include <string_view>

#include "core/violations.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

// Whether a pipeline of this role reads the option. One of role both reads all that any role does.
bool is_read_in(PipelineRole role, std::string_view key);

void check_role(const Settings& settings, Violations& violations);

}  // namespace rl
