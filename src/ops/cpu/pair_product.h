// Small products of bf16 rows, two steps of the depth at a time: what attention multiplies where
// the processor has bf16 dot products and everything is bf16.
//
// Contract
// - c[i, j] = keep[i] * c[i, j] + sum over t of a[i, t] * b[t, j]; without keep c[i, j] = scale *
// sum. The sum is one
//   chain from zero over pairs of steps (2t, 2t + 1), each a bf16 pair product in fp32; a last
//   single step is paired with zeros. keep joins by one fused multiply-add.
// - A pair product is what VDPBF16PS does: the odd step's product joins the sum by a fused
// multiply-add, then the even
//   step's, each rounded to nearest even. Numbers too small to be normal count as zero, on the way
//   in and out.
// - A row's bits depend on its own a and keep and on b alone. Steps whose a is zero add nothing,
// whatever finite b has. Where has_pair_products() the processor does it; elsewhere the portable
// form, which has the same bits and is slow: it is there for tests, and nothing else chooses pair
// products then.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace rl {

// True where the processor has AVX-512 bf16 dot products and oneDNN may use them too.
bool has_pair_products();

struct PairProduct {
  const bf16* a;  // (rows, depth) in pairs, rows lda apart, an even number; behind an odd depth a
                  // zero follows
  int64_t lda;
  const bf16* b;              // (depth, cols), dense
  float* c;                   // (rows, cols), dense
  int64_t rows, depth, cols;  // cols is a multiple of 16
  float scale;
  const float* keep = nullptr;  // (rows), or null
  // So many lines from here on are asked for as the work goes on; null: none.
  const std::byte* ahead = nullptr;
  int64_t ahead_lines = 0;
  int64_t step = 2;  // from a row's pair to its next, an even number
};
void pair_product(const PairProduct& product);
void pair_product_portable(const PairProduct& product);
void check_pair_product(const PairProduct& product);  // what both forms ask of their caller

// Rounds n values, a multiple of 16, to the nearest even bf16; what is too small for a normal
// number becomes zero.
void round_for_pairs(const float* from, int64_t n, bf16* to);
void round_for_pairs_portable(const float* from, int64_t n, bf16* to);

}  // namespace rl
