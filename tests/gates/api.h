// The functions of rl.h as a table, so that one host program can use the library it is linked with
// or any copy that it loaded. A table is only made if every member is set.
#pragma once
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "rl.h"

namespace gates {

struct Api {
#define RL_FUNCTION(name) decltype(&::name) name = nullptr;
#include "names.inc"
#undef RL_FUNCTION
};

// The functions of a library from dlopen or dlmopen; throws if one is missing.
inline Api loaded_api(void* library) {
  Api api;
  const auto find = [library](const char* name) {
    void* const found = dlsym(library, name);
    if (found == nullptr) throw std::runtime_error(std::string("no symbol ") + name);
    return found;
  };
#define RL_FUNCTION(name) api.name = reinterpret_cast<decltype(&::name)>(find(#name));
#include "names.inc"
#undef RL_FUNCTION
  return api;
}

}  // namespace gates
