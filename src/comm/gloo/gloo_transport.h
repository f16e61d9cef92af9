// Ranks that are processes, on one machine or on several, over TCP by gloo. Gloo moves the bytes of
// messages; arithmetic and order are those of comm/group.h, and failures are found and named by
// comm/watch/watch.h, on connections of its own.
#pragma once
#include <memory>

#include "comm/plugin/gloo_plugin.h"

namespace rl {

// As GlooPlugin::transport.
std::shared_ptr<Transport> make_gloo_transport(const GlooOptions& options, Rendezvous& rendezvous);

}  // namespace rl
