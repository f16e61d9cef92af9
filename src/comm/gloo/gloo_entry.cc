// The function that librl_gloo.so exports.
#include "comm/gloo/gloo_transport.h"

namespace {

constexpr rl::GlooPlugin kPlugin = {{sizeof(rl::GlooPlugin), 0, RL_VERSION_TEXT, __VERSION__},
                                    rl::make_gloo_transport,
                                    rl::tcp_rendezvous};

}  // namespace

extern "C" __attribute__((visibility("default"))) const rl::GlooPlugin* rl_gloo_plugin() {
  return &kPlugin;
}
