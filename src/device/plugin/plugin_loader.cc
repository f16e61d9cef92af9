// The path is absolute, so that no other file of that name is found. An attempt that failed is made
// again by the next call.
#include "device/plugin/plugin_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>

#include "core/error.h"

namespace rl {
namespace {

std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

[[noreturn]] void fail(Code code, const std::string& cause) {
  throw Error(code, str("cuda: unavailable, because ", cause)).with_key("runtime.device");
}

void require_identity(const PluginIdentity& given, uint32_t op_table_bytes,
                      const std::string& path) {
  const std::string version = given.version, compiler = given.compiler;
  if (version != RL_VERSION_TEXT || compiler != __VERSION__) {
    fail(Code::kIncompatible, str(path, " is of version ", version, " by compiler ", compiler,
                                  ", and librl of ", RL_VERSION_TEXT, " by ", __VERSION__));
  }
  if (given.record_bytes != sizeof(CudaPlugin) || given.op_table_bytes != op_table_bytes) {
    fail(Code::kIncompatible, str(path, " is of another build of version ", version));
  }
}

}  // namespace

const CudaPlugin& load_cuda_plugin(const std::string& path, uint32_t op_table_bytes) {
  if (access(path.c_str(), F_OK) != 0) {
    fail(Code::kNotInBuild, str(path, " is not installed (package librl", RL_SOVERSION, "-cuda)"));
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const cause = dlerror();
    fail(Code::kNotInBuild,
         str(path, " could not be opened: ", cause != nullptr ? cause : "no cause is known"));
  }
  const auto entry = reinterpret_cast<CudaPluginEntry>(dlsym(library, kCudaPluginEntry));
  if (entry == nullptr) {
    fail(Code::kIncompatible, str(path, " has no function ", kCudaPluginEntry));
  }
  const CudaPlugin* const plugin = entry();
  require_identity(plugin->identity, op_table_bytes, path);
  return *plugin;
}

const CudaPlugin& cuda_plugin(uint32_t op_table_bytes) {
  static const CudaPlugin& plugin =
      load_cuda_plugin(str(own_folder(), "/librl_cuda.so.", RL_SOVERSION), op_table_bytes);
  return plugin;
}

}  // namespace rl
