// A plugin of librl: a library that lies beside librl.so.N (in a program with librl.a, beside the
// program) and gives librl a record through one function. It comes from the same source tree and
// compiler as librl, so objects and exceptions cross. It is loaded at the first call that needs it
// and stays loaded.
#pragma once
#include <cstdint>
#include <string>

#include "core/error.h"

namespace rl {

struct PluginFile {
  const char* feature;  // "cuda": of librl_cuda.so.N in the package librlN-cuda
  const char* entry;    // the name of its function
  const char* key;      // the option that asks for it
};

// What has to be equal on both sides. It stands first in a plugin's record and does not change its
// form.
struct PluginIdentity {
  uint32_t record_bytes;
  uint32_t op_table_bytes;  // 0 for a plugin without ops
  const char* version;      // of the library
  const char* compiler;     // its version
};

// Where the plugin belongs: an absolute path, so that no other file of that name is found.
std::string plugin_path(const PluginFile& file);

// The record that begins with an identity of these sizes, from the plugin at the path.
// Error(kNotInBuild) if there is none, with the path; kIncompatible if it is of another version or
// build. An attempt that failed may be made again. Any thread.
const PluginIdentity& load_plugin(const PluginFile& file, const std::string& path,
                                  uint32_t record_bytes, uint32_t op_table_bytes);

}  // namespace rl
