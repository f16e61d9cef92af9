// Byte results for the host.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rl.h"

namespace rl::abi {

inline constexpr size_t kMinHeapBytes = 32;

// The payload of a handle: text at an address that is aligned for every element type.
std::shared_ptr<const std::string> aligned_bytes(std::string text);
rl_bytes* make_bytes(std::string text);
rl_bytes* make_id_bytes(std::span<const int32_t> ids);

}  // namespace rl::abi
