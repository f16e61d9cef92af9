// Small records on a connection: numbers in the order of the machine's bytes, and texts. All ranks
// are machines of one kind.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/error.h"

namespace rl {

class PacketWriter {
 public:
  PacketWriter& u32(uint32_t value) { return raw(&value, sizeof value); }
  PacketWriter& u64(uint64_t value) { return raw(&value, sizeof value); }
  PacketWriter& text(std::string_view value) {
    u32(static_cast<uint32_t>(value.size()));
    return raw(value.data(), value.size());
  }
  const std::string& bytes() const { return bytes_; }

 private:
  PacketWriter& raw(const void* data, size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }
  std::string bytes_;
};

// Error(kDataLoss) at the end of the bytes.
class PacketReader {
 public:
  explicit PacketReader(std::string_view bytes) : bytes_(bytes) {}
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  std::string text() { return std::string(take(u32())); }

 private:
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take(size_t size) {
    if (size > bytes_.size()) throw Error(Code::kDataLoss, "a packet of a rank ends early");
    const std::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return out;
  }
  std::string_view bytes_;
};

}  // namespace rl
