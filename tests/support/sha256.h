// SHA-256 of bytes as lower-case hexadecimal, for comparison with digests in golden files.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rl::test {
namespace sha256_detail {

// The first 32 bits of the fractional part of a root of the first N primes.
template <size_t N>
std::array<uint32_t, N> prime_fractions(long double (*root)(long double)) {
  std::array<uint32_t, N> out{};
  size_t found = 0;
  for (uint32_t candidate = 2; found < N; ++candidate) {
    bool prime = true;
    for (uint32_t d = 2; d * d <= candidate; ++d) prime = prime && candidate % d != 0;
    if (!prime) continue;
    const long double r = root(candidate);
    out[found++] = static_cast<uint32_t>((r - std::floor(r)) * 4294967296.0L);
  }
  return out;
}

inline void block(std::array<uint32_t, 8>& h, const uint8_t* p) {
  static const auto k = prime_fractions<64>([](long double v) { return std::cbrt(v); });
  std::array<uint32_t, 64> w{};
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{p[4 * i]} << 24 | uint32_t{p[4 * i + 1]} << 16 | uint32_t{p[4 * i + 2]} << 8 |
           p[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  std::array<uint32_t, 8> s = h;
  for (int i = 0; i < 64; ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                        ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
    const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                        ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (int i = 0; i < 8; ++i) h[i] += s[i];
}

}  // namespace sha256_detail

inline std::string sha256(std::span<const std::byte> data) {
  auto h = sha256_detail::prime_fractions<8>([](long double v) { return std::sqrt(v); });
  const auto* p = reinterpret_cast<const uint8_t*>(data.data());
  const size_t whole = data.size() / 64 * 64;
  for (size_t i = 0; i < whole; i += 64) sha256_detail::block(h, p + i);
  std::array<uint8_t, 128> tail{};
  const size_t rest = data.size() - whole;
  for (size_t i = 0; i < rest; ++i) tail[i] = p[whole + i];
  tail[rest] = 0x80;
  const size_t size = rest < 56 ? 64 : 128;
  for (int i = 0; i < 8; ++i) {
    tail[size - 1 - static_cast<size_t>(i)] =
        static_cast<uint8_t>(uint64_t{data.size()} * 8 >> 8 * i);
  }
  for (size_t i = 0; i < size; i += 64) sha256_detail::block(h, tail.data() + i);
  std::string out;
  for (uint32_t v : h) {
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[v >> shift & 15];
  }
  return out;
}

}  // namespace rl::test
