// Arrays that collectives work on: numbers of one type in one memory space.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "core/arena.h"
#include "core/dtype.h"

namespace rl {

enum class Element : uint8_t { kF32 = 0, kBf16 = 1, kI32 = 2, kI64 = 3, kByte = 4 };

constexpr size_t element_bytes(Element element) {
  constexpr size_t kBytes[] = {4, 2, 4, 8, 1};
  return kBytes[static_cast<size_t>(element)];
}
constexpr const char* element_name(Element element) {
  constexpr const char* kNames[] = {"fp32", "bf16", "int32", "int64", "bytes"};
  return kNames[static_cast<size_t>(element)];
}

template <typename T>
inline constexpr Element kElementOf = [] {
  if constexpr (std::is_same_v<T, float>) return Element::kF32;
  if constexpr (std::is_same_v<T, bf16>) return Element::kBf16;
  if constexpr (std::is_same_v<T, int32_t>) return Element::kI32;
  if constexpr (std::is_same_v<T, int64_t>) return Element::kI64;
  if constexpr (std::is_same_v<T, std::byte>) return Element::kByte;
}();

// `Byte` is std::byte, or const std::byte for values that are only read. Aligned as the type needs.
template <typename Byte>
struct BasicValues {
  Byte* data;
  uint64_t count;
  Element element;
  MemorySpace space = MemorySpace::kHost;

  uint64_t bytes() const { return count * element_bytes(element); }
  std::span<Byte> span() const { return {data, static_cast<size_t>(bytes())}; }
};
using Values = BasicValues<std::byte>;
using ConstValues = BasicValues<const std::byte>;

template <typename T>
Values values_of(std::span<T> elements, MemorySpace space = MemorySpace::kHost) {
  return {reinterpret_cast<std::byte*>(elements.data()), elements.size(), kElementOf<T>, space};
}
template <typename T>
ConstValues const_values_of(std::span<const T> elements, MemorySpace space = MemorySpace::kHost) {
  return {reinterpret_cast<const std::byte*>(elements.data()), elements.size(), kElementOf<T>,
          space};
}

// A contiguous part of some values.
struct Piece {
  uint64_t begin, end;
  uint64_t count() const { return end - begin; }
  bool operator==(const Piece&) const = default;
};

// The piece of `index` when `count` values are divided among `parts`: piece i is
// [count * i / parts, count * (i + 1) / parts), so pieces differ by at most one value.
Piece piece_of(uint64_t count, int index, int parts);

// Values divided among parts, of which some may be empty: piece i is [bounds[i], bounds[i + 1]).
struct Pieces {
  std::vector<uint64_t> bounds;  // ascending, from 0 on

  int parts() const { return static_cast<int>(bounds.size()) - 1; }
  uint64_t count() const { return bounds.back(); }
  uint64_t longest() const;
  Piece operator[](int index) const {
    return {bounds[static_cast<size_t>(index)], bounds[static_cast<size_t>(index) + 1]};
  }
  // The part that has this value; an empty one has none. The value is one of them.
  int part_with(uint64_t value) const;
  // Of the values in the range, counted from its beginning.
  Pieces within(Piece range) const;
  bool operator==(const Pieces&) const = default;
};

// Values, and the pieces that they are divided into.
template <typename Byte>
struct BasicDivided {
  BasicValues<Byte> values;
  Pieces pieces;
};
using DividedValues = BasicDivided<std::byte>;
using ConstDividedValues = BasicDivided<const std::byte>;

// Those of piece_of().
Pieces even_pieces(uint64_t count, int parts);

}  // namespace rl
