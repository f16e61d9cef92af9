// Byte results for the host.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "rl.h"

namespace rl::abi {

inline constexpr size_t kMinHeapBytes = 32;

rl_bytes* make_bytes(std::string text);
rl_bytes* make_id_bytes(std::span<const int32_t> ids);

}  // namespace rl::abi
