// The table of the library that the program is linked with.
#pragma once
#include "gates/api.h"

namespace gates {

inline Api linked_api() {
  Api api;
#define RL_FUNCTION(name) api.name = &::name;
#include "names.inc"
#undef RL_FUNCTION
  return api;
}

}  // namespace gates
