// XXH64: four lanes over stripes of 32 bytes, merged, then the tail by 8, 4 and 1 bytes.
#include "core/hash.h"

#include <algorithm>

namespace rl {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5u;

static_assert(kPrime1 + kPrime2 == 0x60EA27EEADC0B5D6u && 0 - kPrime1 == 0x61C8864E7A143579u,
              "the lanes of a fresh digest start from these");

template <typename T>
uint64_t load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint64_t round_lane(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

uint64_t finish(uint64_t hash, const std::byte* p, size_t n) {
  for (; n >= 8; p += 8, n -= 8) {
    hash = std::rotl(hash ^ round_lane(0, load<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  }
  for (; n >= 4; p += 4, n -= 4) {
    hash = std::rotl(hash ^ (load<uint32_t>(p) * kPrime1), 23) * kPrime2 + kPrime3;
  }
  for (; n > 0; ++p, --n) hash = std::rotl(hash ^ (load<uint8_t>(p) * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

void Digest64::consume(const std::byte* stripe) {
  for (size_t i = 0; i < 4; ++i) lanes_[i] = round_lane(lanes_[i], load<uint64_t>(stripe + 8 * i));
}

void Digest64::update(std::span<const std::byte> data) {
  total_ += data.size();
  if (buffered_ > 0) {
    const size_t take = std::min(data.size(), kStripe - buffered_);
    std::copy_n(data.begin(), take, buffer_.begin() + static_cast<ptrdiff_t>(buffered_));
    buffered_ += take;
    data = data.subspan(take);
    if (buffered_ < kStripe) return;
    consume(buffer_.data());
    buffered_ = 0;
  }
  for (; data.size() >= kStripe; data = data.subspan(kStripe)) consume(data.data());
  std::copy(data.begin(), data.end(), buffer_.begin());
  buffered_ = data.size();
}

uint64_t Digest64::value() const {
  uint64_t hash = kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = (hash ^ round_lane(0, lane)) * kPrime1 + kPrime4;
  }
  return finish(hash + total_, buffer_.data(), buffered_);
}

uint64_t digest64(std::span<const std::byte> data) {
  Digest64 digest;
  digest.update(data);
  return digest.value();
}

uint64_t digest64(std::string_view text) { return digest64(std::as_bytes(std::span(text))); }

std::string hex64(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = 0; i < 16; ++i) text[15 - i] = "0123456789abcdef"[(value >> (4 * i)) & 15];
  return text;
}

}  // namespace rl
