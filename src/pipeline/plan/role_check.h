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

// Of buffer.store_lease_ns: kOutOfRange unless it is 0 or at least a second, since the holder must
// write, durably, long before it lapses.
void require_lease_length(int64_t ns);

}  // namespace rl
