#include "comm/plugin/gloo_loader.h"

namespace rl {
namespace {

constexpr PluginFile kGloo{"gloo", kGlooPluginEntry, "comm.backend"};

}  // namespace

const GlooPlugin& load_gloo_plugin(const std::string& path) {
  return reinterpret_cast<const GlooPlugin&>(load_plugin(kGloo, path, sizeof(GlooPlugin), 0));
}

const GlooPlugin& gloo_plugin() {
  static const GlooPlugin& plugin = load_gloo_plugin(plugin_path(kGloo));
  return plugin;
}

}  // namespace rl
