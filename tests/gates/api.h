// The functions of rl.h as a table, so that one host program can use the library it is linked with
// or any copy that it loaded by itself. Every member is set or the table was not made.
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

// The functions of a library that dlopen or dlmopen gave; throws for one that it lacks.
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
