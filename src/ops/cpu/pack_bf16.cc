// Packing for the bf16 GEMMs. Rows of W that lie in memory one after another are interleaved in
// pairs; columns that do are rounded along K and transposed as words of two elements.
#include "ops/cpu/pack_bf16.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

namespace rl {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kPairElements = 2 * kBf16BlockColumns;
constexpr int64_t kRowsAhead = 8;

__mmask16 first_lanes(int64_t count) {
  return count >= kLanes ? 0xffff : static_cast<__mmask16>((1u << std::max<int64_t>(count, 0)) - 1);
}

// Rounds two vectors to nearest even; the elements of `low` come first.
inline __m512i round_both(__m512 low, __m512 high) {
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// a0 b0 a1 b1 ... of a vector that holds a0 to a15, then b0 to b15.
inline __m512i interleave(__m512i halves) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, halves);
}

// The masked forms, because GCC warns of an uninitialized value inside the others.
inline __m512i low_words(__m512i a, __m512i b) { return _mm512_maskz_unpacklo_epi32(0xffff, a, b); }
inline __m512i high_words(__m512i a, __m512i b) {
  return _mm512_maskz_unpackhi_epi32(0xffff, a, b);
}
inline __m512i low_quads(__m512i a, __m512i b) { return _mm512_maskz_unpacklo_epi64(0xff, a, b); }
inline __m512i high_quads(__m512i a, __m512i b) { return _mm512_maskz_unpackhi_epi64(0xff, a, b); }
inline __m512i even_lanes(__m512i a, __m512i b) {
  return _mm512_maskz_shuffle_i32x4(0xffff, a, b, 0x88);
}
inline __m512i odd_lanes(__m512i a, __m512i b) {
  return _mm512_maskz_shuffle_i32x4(0xffff, a, b, 0xdd);
}

// 16 x 16 words: four rounds of exchanges between rows whose indices differ in one bit.
inline __attribute__((always_inline)) void transpose(__m512i (&v)[kLanes]) {
  __m512i t[kLanes];
  for (int i = 0; i < 16; i += 2) {
    t[i] = low_words(v[i], v[i + 1]);
    t[i + 1] = high_words(v[i], v[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    v[i] = low_quads(t[i], t[i + 2]);
    v[i + 1] = high_quads(t[i], t[i + 2]);
    v[i + 2] = low_quads(t[i + 1], t[i + 3]);
    v[i + 3] = high_quads(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    for (int half = 0; half < 16; half += 8) {
      t[half + i] = even_lanes(v[half + i], v[half + 4 + i]);
      t[half + 4 + i] = odd_lanes(v[half + i], v[half + 4 + i]);
    }
  }
  for (int i = 0; i < 8; ++i) {
    v[i] = even_lanes(t[i], t[8 + i]);
    v[8 + i] = odd_lanes(t[i], t[8 + i]);
  }
}

// A block of columns of a matrix whose rows are contiguous.
void pack_block_of_rows(const Bf16PackArgs& a, int64_t first, bf16* out) {
  const int64_t columns = std::min(a.n - first, kBf16BlockColumns);
  const int64_t padded = (a.k + kBf16BlockRows - 1) / kBf16BlockRows * kBf16BlockRows;
  for (int64_t row = 0; row < padded; row += 2, out += kPairElements) {
    const float* w = a.w + row * a.k_stride + first;
    for (int64_t j = 0; j < kBf16BlockColumns; j += kLanes) {
      const __mmask16 lanes = row < a.k ? first_lanes(columns - j) : 0;
      const __mmask16 second = row + 1 < a.k ? lanes : 0;
      if (row + kRowsAhead < a.k) {
        __builtin_prefetch(w + kRowsAhead * a.k_stride + j);
        __builtin_prefetch(w + (kRowsAhead + 1) * a.k_stride + j);
      }
      const __m512i both = round_both(_mm512_maskz_loadu_ps(lanes, w + j),
                                      _mm512_maskz_loadu_ps(second, w + a.k_stride + j));
      _mm512_storeu_si512(out + 2 * j, interleave(both));
    }
  }
}

// 16 columns of 32 rows, where columns are contiguous: out has a pair of rows every kPairElements.
inline void pack_square(const float* w, int64_t stride, int64_t rows, int64_t columns, bf16* out) {
  __m512i words[kLanes];
  const __mmask16 low = first_lanes(rows), high = first_lanes(rows - kLanes);
  for (int64_t j = 0; j < kLanes; ++j) {
    if (j >= columns) {
      words[j] = _mm512_setzero_si512();
      continue;
    }
    const float* column = w + j * stride;
    words[j] = round_both(_mm512_maskz_loadu_ps(low, column),
                          _mm512_maskz_loadu_ps(high, column + kLanes));
  }
  transpose(words);
  for (int64_t pair = 0; pair < kLanes; ++pair)
    _mm512_storeu_si512(out + pair * kPairElements, words[pair]);
}

// A block of columns of a matrix whose columns are contiguous.
void pack_block_of_columns(const Bf16PackArgs& a, int64_t first, bf16* out) {
  for (int64_t row = 0; row < a.k; row += kBf16BlockRows, out += kLanes * kPairElements) {
    for (int64_t j = 0; j < kBf16BlockColumns; j += kLanes) {
      pack_square(a.w + (first + j) * a.n_stride + row, a.n_stride, a.k - row, a.n - first - j,
                  out + 2 * j);
    }
  }
}

}  // namespace

void pack_bf16(const Bf16PackArgs& a) {
  RL_CHECK(a.k_stride == 1 || a.n_stride == 1);
  const int64_t block = pack_bf16_elements(a.k, kBf16BlockColumns);
  bf16* out = a.out;
  for (int64_t first = 0; first < a.n; first += kBf16BlockColumns, out += block)
    a.n_stride == 1 ? pack_block_of_rows(a, first, out) : pack_block_of_columns(a, first, out);
}

}  // namespace rl
#pragma GCC pop_options

#else
namespace rl {
void pack_bf16(const Bf16PackArgs&) { RL_CHECK(false); }
}  // namespace rl
#endif
