// The floating-point mode in which everything here computes: rounding to nearest, subnormal numbers
// kept, exceptions masked. A host may have set another one for its thread, and threads inherit that
// of whoever starts them; bits must not depend on which thread computes what.
#pragma once
#include <cfenv>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace rl {

// Whether this thread computes in that mode.
inline bool has_default_float_mode() {
#if defined(__SSE2__)
  constexpr unsigned kExceptionFlags = 0x3f;
  constexpr unsigned kDefault = 0x1f80;  // all exceptions masked, to nearest, neither FTZ nor DAZ
  return (_mm_getcsr() & ~kExceptionFlags) == kDefault;
#else
  return std::fegetround() == FE_TONEAREST;
#endif
}

inline void set_default_float_mode() {
  std::fesetenv(FE_DFL_ENV);
#if defined(__SSE2__)
  _mm_setcsr(0x1f80);  // FE_DFL_ENV leaves FTZ and DAZ where the C library does not know them
#endif
}

// That mode while it lives; then the thread's own one again. Where the thread has it anyway,
// nothing is touched.
class ScopedFloatMode {
 public:
  ScopedFloatMode() : changes_(!has_default_float_mode()) {
    if (!changes_) return;
    std::fegetenv(&before_);
    set_default_float_mode();
  }
  ~ScopedFloatMode() {
    if (changes_) std::fesetenv(&before_);
  }
  ScopedFloatMode(const ScopedFloatMode&) = delete;
  ScopedFloatMode& operator=(const ScopedFloatMode&) = delete;

 private:
  const bool changes_;
  std::fenv_t before_;
};

}  // namespace rl
