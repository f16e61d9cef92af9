// The stand-in gathers both operands as fp32, so that one loop serves both types and all layouts.
#include "cuda_host/blas_product.h"

#include <vector>

#include "core/dtype.h"

namespace rl::emulated {
namespace {

constexpr int64_t kChainsMax = 32;

// Rows of op(A), or columns of op(B), one after the other.
std::vector<float> gather(const MatrixPart& part, int64_t lines, int64_t k, bool rows) {
  std::vector<float> out(static_cast<size_t>(lines * k));
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t i = 0; i < k; ++i)
      out[static_cast<size_t>(line * k + i)] = rows ? part.at(line, i) : part.at(i, line);
  return out;
}

float sum_part(const float* a, const float* b, int64_t count, int64_t chains) {
  float sums[kChainsMax] = {};
  int64_t i = 0;
  for (; i + chains <= count; i += chains)
    for (int64_t c = 0; c < chains; ++c) sums[c] += a[i + c] * b[i + c];
  for (int64_t c = 0; i < count; ++i, ++c) sums[c] += a[i] * b[i];
  float total = sums[0];
  for (int64_t c = 1; c < chains; ++c) total += sums[c];
  return total;
}

float dot(const float* a, const float* b, int64_t k, const SumOrder& order) {
  const int64_t part = (k + order.splits - 1) / order.splits;
  float total = 0;
  for (int64_t first = 0; first < k; first += part)
    total += sum_part(a + first, b + first, first + part < k ? part : k - first, order.chains);
  return total;
}

void store(const MatrixPart& part, int64_t row, int64_t column, float value) {
  void* const data = const_cast<void*>(part.data);
  const int64_t i = row * part.row_step + column * part.column_step;
  if (part.type == CUDA_R_32F)
    static_cast<float*>(data)[i] = value;
  else
    static_cast<bf16*>(data)[i] = to_bf16(value);
}

}  // namespace

float MatrixPart::at(int64_t row, int64_t column) const {
  const int64_t i = row * row_step + column * column_step;
  return type == CUDA_R_32F ? static_cast<const float*>(data)[i]
                            : to_float(static_cast<const bf16*>(data)[i]);
}

void compute_product(const BlasProduct& p) {
  const std::vector<float> a = gather(p.a, p.m, p.k, true), b = gather(p.b, p.n, p.k, false);
  for (int64_t column = 0; column < p.n; ++column)
    for (int64_t row = 0; row < p.m; ++row) {
      float value = p.alpha * dot(a.data() + row * p.k, b.data() + column * p.k, p.k, p.order);
      if (p.beta != 0) value += p.beta * p.c.at(row, column);
      store(p.d, row, column, value);
    }
}

}  // namespace rl::emulated
