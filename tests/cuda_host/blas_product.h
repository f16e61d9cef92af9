// The matrix product of the cuBLASLt stand-in, and the order of its sums: K is cut into `splits`
// parts; a part is summed in `chains` chains, element i of it in chain i % chains, ascending;
// chains and then parts are added ascending. Both follow from the algorithm alone. Which algorithm
// is chosen where the caller names none depends on the number of rows and columns.
#pragma once
#include <cublasLt.h>

#include <cstdint>

namespace rl::emulated {

// op(A) is (m, k), op(B) (k, n); C and D are (m, n).
struct MatrixPart {
  const void* data;
  cudaDataType type;
  int64_t row_step, column_step;  // in elements
  float at(int64_t row, int64_t column) const;
};
struct SumOrder {
  int64_t splits, chains;
};
struct BlasProduct {
  MatrixPart a, b, c, d;
  int64_t m, n, k;
  float alpha, beta;
  SumOrder order;
};
void compute_product(const BlasProduct& product);

}  // namespace rl::emulated
