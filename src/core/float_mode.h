// The floating-point mode of all computation here: round to nearest, subnormals kept, exceptions
// masked. A host thread may use another mode, and a new thread inherits its creator's; bits must
// not depend on which thread computes what.
#pragma once
#include <cfenv>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace rl {

// Whether this thread is in that mode.
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
  _mm_setcsr(0x1f80);  // FE_DFL_ENV does not reset FTZ and DAZ if the C library does not know them
#endif
}

// Sets that mode for its lifetime, then restores the thread's own. Does nothing if the thread is in
// that mode already.
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
