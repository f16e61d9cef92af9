// A fast 64-bit digest of byte streams: XXH64 (Yann Collet's public algorithm, seed 0), which
// `xxhsum -H64` reproduces. It identifies weights, checkpoint parts and option sets. It detects
// accidents, not attackers. How the data is split into update calls does not matter; integers are
// hashed as little-endian bytes.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace rl {

static_assert(std::endian::native == std::endian::little, "digests read words in memory order");

class Digest64 {
 public:
  void update(std::span<const std::byte> data);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  void update_u64(uint64_t value) { update(std::as_bytes(std::span(&value, 1))); }
  // The digest of everything so far; more may follow.
  uint64_t value() const;

 private:
  static constexpr size_t kStripe = 32;
  void consume(const std::byte* stripe);

  std::array<uint64_t, 4> lanes_ = {0x60EA27EEADC0B5D6u, 0xC2B2AE3D27D4EB4Fu, 0,
                                    0x61C8864E7A143579u};
  std::array<std::byte, kStripe> buffer_;
  size_t buffered_ = 0;
  uint64_t total_ = 0;
};

uint64_t digest64(std::span<const std::byte> data);
uint64_t digest64(std::string_view text);

// Sixteen lower-case hexadecimal digits.
std::string hex64(uint64_t value);

}  // namespace rl
