// Small bf16 GEMM, two K steps per instruction (AVX-512 BF16). Attention uses it if the processor
// has bf16 dot products and every operand is bf16.
//
// Contract
// - c[i, j] = keep[i] * c[i, j] + sum over t of a[i, t] * b[t, j]; without keep c[i, j] = scale *
//   sum. The sum is one chain from zero over pairs of K steps (2t, 2t + 1), each a bf16 pair
//   product in fp32; a last single step is paired with zeros. keep * c is added by one fused
//   multiply-add.
// - A pair product is what VDPBF16PS computes: the odd step's product is added to the sum by a
//   fused multiply-add, then the even step's, each rounded to nearest even. Denormals count as
//   zero, on input and output.
// - A row's bits depend on its own a and keep and on b alone. Steps whose a is zero add nothing,
//   whatever finite value b has. If has_bf16_dot(), the processor's instruction is used;
//   otherwise the portable form, which has the same bits but is slow. Only tests use that one;
//   nothing else chooses pair products then.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace rl {

// True where the processor has AVX-512 bf16 dot products and oneDNN may use them too.
bool has_bf16_dot();

struct GemmBf16DotArgs {
  const bf16* a;  // (rows, k) in pairs, rows lda apart, an even number; an odd k is
                  // followed by a zero
  int64_t lda;
  const bf16* b;          // (k, cols), dense
  float* c;               // (rows, cols), dense
  int64_t rows, k, cols;  // cols is a multiple of 16
  float scale;
  const float* keep = nullptr;  // (rows), or null
  // Prefetches prefetch_lines cache lines from here during the work; null: none.
  const std::byte* prefetch = nullptr;
  int64_t prefetch_lines = 0;
  int64_t step = 2;  // from one pair of a row to its next, an even number
};
void gemm_bf16dot(const GemmBf16DotArgs& product);
void gemm_bf16dot_portable(const GemmBf16DotArgs& product);
void check_gemm_bf16dot(const GemmBf16DotArgs& product);  // the preconditions of both forms

// Rounds n values, a multiple of 16, to nearest-even bf16; denormals become zero.
void round_for_bf16dot(const float* from, int64_t n, bf16* to);
void round_for_bf16dot_portable(const float* from, int64_t n, bf16* to);

}  // namespace rl
