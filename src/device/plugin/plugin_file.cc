#include "device/plugin/plugin_file.h"

#include <dlfcn.h>
#include <unistd.h>

namespace rl {
namespace {

std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

[[noreturn]] void refuse(const PluginFile& file, Code code, const std::string& cause) {
  throw Error(code, str(file.feature, ": unavailable, because ", cause)).with_key(file.key);
}

}  // namespace

std::string plugin_path(const PluginFile& file) {
  return str(own_folder(), "/librl_", file.feature, ".so.", RL_SOVERSION);
}

const PluginIdentity& load_plugin(const PluginFile& file, const std::string& path,
                                  uint32_t record_bytes, uint32_t op_table_bytes) {
  if (access(path.c_str(), F_OK) != 0) {
    refuse(file, Code::kNotInBuild,
           str(path, " is not installed (package librl", RL_SOVERSION, "-", file.feature, ")"));
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const cause = dlerror();
    refuse(file, Code::kNotInBuild,
           str(path, " could not be opened: ", cause != nullptr ? cause : "no cause is known"));
  }
  const auto entry = reinterpret_cast<const PluginIdentity* (*)()>(dlsym(library, file.entry));
  if (entry == nullptr) {
    refuse(file, Code::kIncompatible, str(path, " has no function ", file.entry));
  }
  const PluginIdentity& given = *entry();
  const std::string version = given.version, compiler = given.compiler;
  if (version != RL_VERSION_TEXT || compiler != __VERSION__) {
    refuse(file, Code::kIncompatible,
           str(path, " is of version ", version, " by compiler ", compiler, ", and librl of ",
               RL_VERSION_TEXT, " by ", __VERSION__));
  }
  if (given.record_bytes != record_bytes || given.op_table_bytes != op_table_bytes) {
    refuse(file, Code::kIncompatible, str(path, " is of another build of version ", version));
  }
  return given;
}

}  // namespace rl
