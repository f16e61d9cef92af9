// What librl_gloo.so gives to librl: one function, rl_gloo_plugin(), which returns this record
// (device/plugin/plugin_file.h).
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "comm/rendezvous/rendezvous.h"
#include "comm/transport.h"
#include "device/plugin/plugin_file.h"

namespace rl {

struct GlooOptions {
  int rank, size;
  int64_t timeout_ns;       // a rank that is silent for longer is lost; negative: never
  int64_t join_timeout_ns;  // for all ranks to meet; negative: without limit
  // Of this rank for the others, numeric. Empty: that on the way to the rendezvous, if it is a
  // store, and loopback otherwise.
  std::string address;
};

struct GlooPlugin {
  PluginIdentity identity;
  // Returns when all ranks have met and are connected, after which the rendezvous is needed no
  // longer. RankError names a rank that did not come; Error(kIncompatible) one of another size or
  // version; Error(kIo) says what the system refused.
  std::shared_ptr<Transport> (*transport)(const GlooOptions& options, Rendezvous& rendezvous);
  // That of comm/rendezvous, for librl.so itself opens no connection.
  std::unique_ptr<Rendezvous> (*tcp_rendezvous)(const std::string& where, int rank, int size);
};

inline constexpr const char* kGlooPluginEntry = "rl_gloo_plugin";

}  // namespace rl
