// Seeded corruption of valid input files for the loader tests. mutate(input, seed) is a pure
// function: the same seed gives the same bytes on every machine, so its seed is enough to
// reproduce a failing round. fuzz_rounds reads RL_FUZZ_ROUNDS, the only environment variable used
// here.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rl::test {

// SplitMix64: small, seedable and portable, unlike the distributions of <random>.
class MutationRng {
 public:
  explicit MutationRng(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // A value below limit; limit > 0.
  size_t below(size_t limit) { return static_cast<size_t>(next() % limit); }

 private:
  uint64_t state_;
};

namespace detail {

// A little-endian integer of 1, 2, 4 or 8 bytes at a boundary value.
inline std::string boundary_integer(MutationRng& rng) {
  static constexpr uint64_t kValues[] = {0,
                                         1,
                                         2,
                                         0x7f,
                                         0x80,
                                         0xff,
                                         0x7fff,
                                         0x8000,
                                         0xffff,
                                         0x7fffffff,
                                         0x80000000,
                                         0xffffffff,
                                         0x100000000,
                                         0x7fffffffffffffff,
                                         0x8000000000000000,
                                         0xffffffffffffffff};
  const uint64_t value = kValues[rng.below(std::size(kValues))];
  const size_t width = size_t{1} << rng.below(4);
  std::string bytes;
  for (size_t i = 0; i < width; ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  return bytes;
}

// A number as text, for JSON and other text formats.
inline std::string boundary_text(MutationRng& rng) {
  static constexpr const char* kTexts[] = {
      "-1",   "0",     "2147483648", "4294967296", "18446744073709551616",
      "1e99", "1e999", "0.5",        "-0",         "null",
      "true", "[]",    "{}",         "\"\"",       "\\u0000"};
  return kTexts[rng.below(std::size(kTexts))];
}

inline void overwrite(std::string& data, size_t at, std::string_view with) {
  for (size_t i = 0; i < with.size() && at + i < data.size(); ++i) data[at + i] = with[i];
}

inline void mutate_once(std::string& data, MutationRng& rng) {
  const size_t at = rng.below(data.size() + 1);
  const size_t tail = data.size() - at;
  const size_t length = tail == 0 ? 0 : rng.below(tail < 64 ? tail : 64) + 1;
  switch (rng.below(9)) {
    case 0:
      if (tail > 0) data[at] = static_cast<char>(data[at] ^ (1 << rng.below(8)));
      break;
    case 1:
      if (tail > 0) data[at] = static_cast<char>(rng.below(256));
      break;
    case 2:
      data.insert(at, 1 + rng.below(8), static_cast<char>(rng.below(256)));
      break;
    case 3:
      data.erase(at, length);
      break;
    case 4:
      data.resize(at);
      break;
    case 5:
      data.insert(rng.below(data.size() + 1), data.substr(at, length));
      break;
    case 6:
      overwrite(data, at, boundary_integer(rng));
      break;
    case 7:
      overwrite(data, at, boundary_text(rng));
      break;
    default:
      overwrite(data, rng.below(data.size() + 1), data.substr(at, length));
      break;
  }
}

}  // namespace detail

// One to four corruptions of input: flipped bits, random bytes, inserts, deletions, truncations,
// duplicated or copied ranges, integers at a boundary (binary and as text). The result may equal
// the input.
inline std::string mutate(std::string_view input, uint64_t seed) {
  MutationRng rng(seed);
  std::string data(input);
  const size_t count = 1 + rng.below(4);
  for (size_t i = 0; i < count; ++i) detail::mutate_once(data, rng);
  return data;
}

// Rounds of a mutation test: RL_FUZZ_ROUNDS if it is set, else usual.
inline int fuzz_rounds(int usual) {
  const char* text = std::getenv("RL_FUZZ_ROUNDS");
  if (text == nullptr) return usual;
  const int rounds = std::stoi(text);
  if (rounds < 1) throw std::invalid_argument("RL_FUZZ_ROUNDS must be at least 1");
  return rounds;
}

}  // namespace rl::test
