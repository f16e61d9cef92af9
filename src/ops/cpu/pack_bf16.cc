// Packing for the bf16 GEMMs. Rows of W that lie in memory one after another are interleaved in
// pairs; columns that do are rounded along K and transposed as words of two elements. A transposed
// matrix of bf16 is made of pairs of rows in the same way.
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

__mmask32 first_halves(int64_t count) {
  return count >= 2 * kLanes ? 0xffffffff
                             : static_cast<__mmask32>((1u << std::max<int64_t>(count, 0)) - 1);
}

// Columns of two rows as pairs, in order: those of the first 16 columns, then those of the others.
struct RowPair {
  __m512i first, second;
};
inline __attribute__((always_inline)) RowPair load_pair(const bf16* row, const bf16* next,
                                                        __mmask32 columns) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high =
      _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55, 23, 54,
                       22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  const __m512i a = _mm512_maskz_loadu_epi16(columns, row),
                b = _mm512_maskz_loadu_epi16(columns, next);
  return {_mm512_permutex2var_epi16(a, low, b), _mm512_permutex2var_epi16(a, high, b)};
}

// 16 columns of 32 rows: pairs of a row each, as rows of `out`; only the first `columns` of them.
inline __attribute__((always_inline)) void store_columns(__m512i (&pairs)[kLanes], int64_t columns,
                                                         int64_t stride, bf16* out) {
  if (columns <= 0) return;
  transpose(pairs);
  if (columns >= kLanes) {
    for (int64_t c = 0; c < kLanes; ++c) _mm512_storeu_si512(out + c * stride, pairs[c]);
    return;
  }
  for (int64_t c = 0; c < columns; ++c) _mm512_storeu_si512(out + c * stride, pairs[c]);
}

}  // namespace

void pack_bf16_rows(const Bf16Rows& a, bf16* out) {
  RL_CHECK(a.rows % kBf16BlockRows == 0);
  for (int64_t first = 0; first < a.columns; first += kBf16BlockColumns) {
    const __mmask32 left = first_halves(a.columns - first),
                    right = first_halves(a.columns - first - 2 * kLanes);
    const bf16* row = a.from + first;
    for (int64_t r = 0; r < a.rows; r += 2, row += 2 * a.stride, out += kPairElements) {
      const RowPair low = load_pair(row, row + a.stride, left),
                    high = load_pair(row + 2 * kLanes, row + a.stride + 2 * kLanes, right);
      _mm512_storeu_si512(out, low.first);
      _mm512_storeu_si512(out + 2 * kLanes, low.second);
      _mm512_storeu_si512(out + 4 * kLanes, high.first);
      _mm512_storeu_si512(out + 6 * kLanes, high.second);
    }
  }
}

void transpose_bf16_rows(const Bf16Rows& a, bf16* out) {
  RL_CHECK(a.rows % kBf16BlockRows == 0);
  for (int64_t row = 0; row < a.rows; row += kBf16BlockRows) {
    for (int64_t column = 0; column < a.columns; column += 2 * kLanes) {
      const int64_t columns = a.columns - column;
      const __mmask32 mask = first_halves(columns);
      __m512i first[kLanes], second[kLanes];
      const bf16* from = a.from + row * a.stride + column;
      for (int64_t i = 0; i < kLanes; ++i, from += 2 * a.stride) {
        const RowPair pair = load_pair(from, from + a.stride, mask);
        first[i] = pair.first;
        second[i] = pair.second;
      }
      bf16* to = out + column * a.rows + row;
      store_columns(first, columns, a.rows, to);
      store_columns(second, columns - kLanes, a.rows, to + kLanes * a.rows);
    }
  }
}

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
void pack_bf16_rows(const Bf16Rows&, bf16*) { RL_CHECK(false); }
void transpose_bf16_rows(const Bf16Rows&, bf16*) { RL_CHECK(false); }
}  // namespace rl
#endif
