// rl_bytes: an immutable std::string, NUL-terminated and aligned for every element type.
#include <cstring>

#include "abi/bytes.h"
#include "abi/guard.h"

namespace rl::abi {

std::shared_ptr<const std::string> aligned_bytes(std::string text) {
  // Short strings are stored inline, at an odd multiple of 8; a reserved one is on the heap.
  if (text.capacity() < kMinHeapBytes) text.reserve(kMinHeapBytes);
  return std::make_shared<const std::string>(std::move(text));
}

rl_bytes* make_bytes(std::string text) { return issue<rl_bytes>(aligned_bytes(std::move(text))); }

rl_bytes* make_id_bytes(std::span<const int32_t> ids) {
  std::string bytes(ids.size_bytes(), '\0');
  if (!ids.empty()) std::memcpy(bytes.data(), ids.data(), ids.size_bytes());
  return make_bytes(std::move(bytes));
}

}  // namespace rl::abi

using namespace rl::abi;

extern "C" {

const void* rl_bytes_data(const rl_bytes* bytes) {
  const auto text = use_if_live(bytes);
  return text != nullptr ? text->c_str() : nullptr;
}

size_t rl_bytes_size(const rl_bytes* bytes) {
  const auto text = use_if_live(bytes);
  return text != nullptr ? text->size() : 0;
}

void rl_bytes_release(rl_bytes* bytes) { drop(bytes); }

}  // extern "C"
