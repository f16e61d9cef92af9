// Arithmetic on values that come from outside (files, options, peers). Checked<T> never wraps: an
// operation whose result does not fit throws Error(kOutOfRange). Raw operators between Checked and
// plain integers of other types do not compile, so a size from a file cannot reach an allocation
// unchecked.
#pragma once
#include <concepts>
#include <limits>
#include <utility>

#include "core/error.h"

namespace rl {

template <std::integral T>
class Checked {
 public:
  constexpr explicit Checked(T v) : value_(v) {}
  // From another integer type: throws unless the value is representable.
  template <std::integral U>
  requires(!std::same_as<T, U>) constexpr explicit Checked(U v) : value_(static_cast<T>(v)) {
    if (!std::in_range<T>(v)) overflow("conversion");
  }
  constexpr T get() const { return value_; }
  template <std::integral U>
  constexpr U to() const {
    return Checked<U>(value_).get();
  }

  friend constexpr Checked operator+(Checked a, Checked b) {
    T r;
    if (__builtin_add_overflow(a.value_, b.value_, &r)) overflow("addition");
    return Checked(r);
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    T r;
    if (__builtin_sub_overflow(a.value_, b.value_, &r)) overflow("subtraction");
    return Checked(r);
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    T r;
    if (__builtin_mul_overflow(a.value_, b.value_, &r)) overflow("multiplication");
    return Checked(r);
  }
  friend constexpr auto operator<=>(Checked a, Checked b) = default;

  // The smallest multiple of alignment (a power of two) not below this value.
  constexpr Checked align_up(T alignment) const {
    const Checked sum = *this + Checked(static_cast<T>(alignment - 1));
    return Checked(static_cast<T>(sum.value_ & ~(alignment - 1)));
  }

 private:
  [[noreturn]] static void overflow(const char* what) {
    throw Error(Code::kOutOfRange, str("integer ", what, " does not fit in ", sizeof(T), " bytes"));
  }
  T value_;
};

using CheckedU64 = Checked<uint64_t>;
using CheckedI64 = Checked<int64_t>;

}  // namespace rl
