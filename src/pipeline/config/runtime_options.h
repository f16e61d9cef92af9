// What the runtime.* keys and model.dtype mean on this machine. Pure functions; the options are
// valid.
#pragma once
#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "ops/device.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

// The compute dtype that model.dtype means on this device.
Dtype compute_dtype_of(const Settings& settings, const Device& device = cpu_device());
// The thread count that runtime.threads and runtime.cpus mean on this machine.
int thread_count_of(const Settings& settings);
// What a plan may use: runtime.memory_budget_bytes minus the margin; 0: no limit.
uint64_t usable_budget(const Settings& settings);
// "runtime.memory_budget_bytes is 10", and the margin if there is one.
std::string budget_text(const Settings& settings);

}  // namespace rl
