// Loads librl_gloo.so.N (device/plugin/plugin_file.h).
#pragma once
#include <string>

#include "comm/plugin/gloo_plugin.h"

namespace rl {

// Error(kNotInBuild) if there is no plugin, or no libgloo that it needs; kIncompatible if it is of
// another version. Any thread.
const GlooPlugin& gloo_plugin();

// The plugin of this path, for tests.
const GlooPlugin& load_gloo_plugin(const std::string& path);

}  // namespace rl
