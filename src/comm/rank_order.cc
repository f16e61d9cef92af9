// Blocks that stay in the innermost cache are reduced rank by rank. The loop over a block's
// elements is the inner one, which vectorises; it changes the order of no element's additions.
#include "comm/rank_order.h"

#include <algorithm>

#include "core/error.h"

namespace rl {
namespace {

constexpr uint64_t kBlock = 1024;

// The type that elements are reduced in: integers as unsigned ones, which wrap around.
template <typename T>
struct Arithmetic {
  using Sum = std::make_unsigned_t<T>;
  using Compared = T;
};
template <>
struct Arithmetic<float> {
  using Sum = float;
  using Compared = float;
};
template <>
struct Arithmetic<bf16> {
  using Sum = float;
  using Compared = float;
};

template <typename To, typename From>
To as(From value) {
  if constexpr (std::is_same_v<From, bf16>)
    return to_float(value);
  else if constexpr (std::is_same_v<To, bf16>)
    return to_bf16(value);
  else
    return static_cast<To>(value);
}

template <typename T>
T larger(T a, T b) {
  return b > a || b != b ? b : a;
}

template <typename Wide, typename T>
void widen(const std::byte* part, Piece block, Wide* to) {
  const T* const from = reinterpret_cast<const T*>(part) + block.begin;
  for (uint64_t i = 0; i < block.count(); ++i) to[i] = as<Wide>(from[i]);
}

// `before` are of type Wide; null: there are none.
template <typename T, typename To, typename Wide, typename Combine>
void reduce(const Wide* before, std::span<const std::byte* const> parts, const Values& out,
            Combine combine) {
  Wide block[kBlock];
  for (uint64_t begin = 0; begin < out.count; begin += kBlock) {
    const uint64_t count = std::min(kBlock, out.count - begin);
    const Piece places{begin, begin + count};
    if (before != nullptr)
      std::copy_n(before + begin, count, block);
    else
      widen<Wide, T>(parts[0], places, block);
    for (const std::byte* const part : parts.subspan(before != nullptr ? 0 : 1)) {
      const T* const next = reinterpret_cast<const T*>(part) + begin;
      for (uint64_t i = 0; i < count; ++i) block[i] = combine(block[i], as<Wide>(next[i]));
    }
    To* const to = reinterpret_cast<To*>(out.data) + begin;
    for (uint64_t i = 0; i < count; ++i) to[i] = as<To>(block[i]);
  }
}

template <typename T>
void reduce_as(Reduction reduction, std::span<const std::byte* const> parts, const Values& out) {
  using Sum = typename Arithmetic<T>::Sum;
  using Compared = typename Arithmetic<T>::Compared;
  if (reduction == Reduction::kSum)
    reduce<T, T, Sum>(nullptr, parts, out, [](Sum a, Sum b) { return a + b; });
  else
    reduce<T, T, Compared>(nullptr, parts, out, larger<Compared>);
}

template <typename T, typename To>
void add(const float* before, std::span<const std::byte* const> parts, const Values& out) {
  reduce<T, To, float>(before, parts, out, [](float a, float b) { return a + b; });
}

}  // namespace

void reduce_in_rank_order(Reduction reduction, std::span<const std::byte* const> parts,
                          const Values& out) {
  switch (out.element) {
    case Element::kF32:
      return reduce_as<float>(reduction, parts, out);
    case Element::kBf16:
      return reduce_as<bf16>(reduction, parts, out);
    case Element::kI32:
      return reduce_as<int32_t>(reduction, parts, out);
    case Element::kI64:
      return reduce_as<int64_t>(reduction, parts, out);
    case Element::kByte:
      break;
  }
  throw Error(Code::kUnsupported,
              str("reductions are of numbers, not of ", element_name(out.element)));
}

void add_in_rank_order(const float* before, std::span<const std::byte* const> parts,
                       Element element, const Values& out) {
  RL_CHECK(out.element == Element::kF32 || out.element == element);
  if (element == Element::kF32) return add<float, float>(before, parts, out);
  if (element == Element::kBf16) {
    return out.element == Element::kF32 ? add<bf16, float>(before, parts, out)
                                        : add<bf16, bf16>(before, parts, out);
  }
  throw Error(Code::kUnsupported,
              str("sums over groups of ranks are of fp32 or bf16, not of ", element_name(element)));
}

}  // namespace rl
