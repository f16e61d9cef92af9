// Which algorithm, and the check of its order.
#include "ops/cuda/products.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/kernels/products/gradient_product.h"
#include "ops/cuda/kernels/products/product_fp32.h"
#include "ops/cuda/kernels/products/product_mma.h"
#include "ops/cuda/kernels/products/row_differences.h"

namespace rl::cuda {
namespace {

// The numbers of rows that are compared with the largest, which is kCheckRows or what scratch has
// room for. With room for too few an algorithm is not trusted.
constexpr int64_t kCheckedRows[] = {1, 2, 17, 64, 129};
constexpr int64_t kCheckRows = 256, kCheckRowsMin = 65;
// The rows for which algorithms are proposed: a prefill, or a large decode batch.
constexpr int64_t kProposalRows = 256;
constexpr int64_t kGradientProposalRows = 1024;
// From this ratio of K to the columns on a sum of the way back is split. One product then has at
// most kProposalRows rows, since each part of a sum takes as much workspace as the result.
constexpr int64_t kSplitRatio = 16;

// Values in [-1, 1) that are not multiples of a large power of two, so that every order of a sum
// rounds in its own way.
std::vector<std::byte> check_input(Dtype dtype, int64_t count) {
  std::vector<std::byte> out(static_cast<size_t>(count) * dtype_bytes(dtype));
  for (int64_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<uint32_t>(i + 1) * 2654435761u;
    const float value = static_cast<float>(mixed >> 8) / 8388608.0f - 1.0f;
    if (dtype == Dtype::kBf16)
      reinterpret_cast<bf16*>(out.data())[i] = to_bf16(value);
    else
      reinterpret_cast<float*>(out.data())[i] = value;
  }
  return out;
}

// Whether rows of so many bytes are as aligned as they can be, up to 16 bytes.
bool is_aligned(const void* rows, int64_t row_bytes) {
  const uint64_t wanted = uint64_t{1} << std::countr_zero(static_cast<uint64_t>(row_bytes) | 16u);
  return reinterpret_cast<uintptr_t>(rows) % wanted == 0;
}

// Multiplies some rows of one input, and compares them with all of them.
class OrderCheck {
 public:
  OrderCheck(CudaCompute& gpu, const PinnedProducts& pinned, const ProductWeights& w)
      : gpu_(gpu), pinned_(pinned), w_(w), n_(w.n), k_(w.k) {
    const int64_t row_bytes = k_ * gpu.item() + 2 * n_ * static_cast<int64_t>(sizeof(float));
    rows_ = std::min(kCheckRows, gpu.scratch_rows(row_bytes));
    x_ = gpu.upload(std::span<const std::byte>(check_input(gpu.dtype(), rows_ * k_)));
    all_ = gpu.scratch<float>(rows_ * n_);
    some_ = gpu.scratch<float>(rows_ * n_);
    differences_ = gpu.scratch<int32_t>(rows_ * static_cast<int64_t>(std::size(kCheckedRows)));
  }

  bool passes(const ProductAlgorithm& algorithm) {
    if (rows_ < kCheckRowsMin || !pinned_.multiply(params(0, rows_, all_), algorithm)) return false;
    int64_t compared = 0;
    for (const int64_t rows : kCheckedRows) {
      if (rows >= rows_) break;
      // The last rows, so that their place differs too.
      const int64_t first = rows_ - rows;
      if (!pinned_.multiply(params(first, rows, some_), algorithm)) return false;
      row_differences(gpu_.stream(), {some_, all_ + first * n_, differences_ + compared, rows, n_});
      compared += rows;
    }
    std::vector<int32_t> differences(static_cast<size_t>(compared));
    gpu_.download(differences_, std::span(differences));
    return std::ranges::all_of(differences, [](int32_t count) { return count == 0; });
  }

 private:
  ProductParams params(int64_t first, int64_t rows, float* y) const {
    return {x_ + first * k_ * gpu_.item(), w_.data, y, rows, n_, k_};
  }

  CudaCompute& gpu_;
  const PinnedProducts& pinned_;
  const ProductWeights w_;
  const int64_t n_, k_;
  int64_t rows_;
  const std::byte* x_;
  float *all_, *some_;
  int32_t* differences_;
};

void multiply_by_kernel(CudaCompute& gpu, const ProductParams& p) {
  gpu.dtype() == Dtype::kBf16 ? product_mma(gpu.stream(), p) : product_fp32(gpu.stream(), p);
}

void add_by_kernel(CudaCompute& gpu, const GradientProductParams& p) {
  gpu.dtype() == Dtype::kBf16 ? gradient_product_mma(gpu.stream(), p)
                              : gradient_product_fp32(gpu.stream(), p);
}

}  // namespace

Products::Choice Products::find(const ProductWeights& w) const {
  const ScratchScope scratch(compute_);
  OrderCheck check(compute_, pinned_, w);
  const std::vector<ProductAlgorithm> proposals =
      pinned_.algorithms(ProductParams{w.data, w.data, nullptr, kProposalRows, w.n, w.k});
  for (const ProductAlgorithm& algorithm : proposals)
    if (check.passes(algorithm)) return algorithm;
  return std::nullopt;
}

void Products::prepare(const ProductWeights& w) {
  const Shape shape{w.n, w.k};
  if (!forward_.contains(shape)) forward_.emplace(shape, find(w));
}

bool Products::is_pinned(const ProductWeights& w) const {
  return forward_.at({w.n, w.k}).has_value();
}

void Products::multiply(const ProductWeights& w, const std::byte* x, int64_t rows, float* y) {
  if (rows == 0) return;
  prepare(w);
  const ProductParams params{x, w.data, y, rows, w.n, w.k};
  const Choice& choice = forward_.at({params.n, params.k});
  if (!choice) return multiply_by_kernel(compute_, params);
  // As the algorithm was proposed.
  RL_CHECK(is_aligned(x, params.k * compute_.item()));
  RL_CHECK(is_aligned(y, params.n * static_cast<int64_t>(sizeof(float))));
  if (pinned_.multiply(params, *choice)) return;
  throw Error(Code::kUnsupported,
              str("cuda: the algorithm of cublasLt that was chosen for products with a matrix of ",
                  params.n, " x ", params.k, " refuses ", rows, " rows"));
}

Products::Choice Products::find_split(const ProductWeights& w) const {
  const std::vector<ProductAlgorithm> found =
      pinned_.splitting_algorithms(ProductParams{w.data, w.data, nullptr, kProposalRows, w.n, w.k});
  return found.empty() ? std::nullopt : Choice(found.front());
}

void Products::multiply_back(const ProductWeights& w, const std::byte* x, int64_t rows, float* y) {
  const int64_t n = w.n, k = w.k;
  if (k < kSplitRatio * n) return multiply(w, x, rows, y);
  auto known = split_.find({n, k});
  if (known == split_.end()) known = split_.emplace(Shape{n, k}, find_split(w)).first;
  for (int64_t first = 0; first < rows; first += kProposalRows) {
    const ProductParams part{x + first * k * compute_.item(),       w.data, y + first * n,
                             std::min(kProposalRows, rows - first), n,      k};
    if (known->second && pinned_.multiply(part, *known->second)) continue;
    multiply(w, part.x, part.rows, part.y);
  }
}

// The order of a gradient's sum depends on its rows; only the choice must not.
Products::Choice Products::find(const GradientProductParams& params) const {
  GradientProductParams proposal = params;
  proposal.rows = kGradientProposalRows;
  const std::vector<ProductAlgorithm> found = pinned_.algorithms(proposal);
  return found.empty() ? std::nullopt : Choice(found.front());
}

void Products::add_gradient(const GradientProductParams& params) {
  if (params.rows == 0) return;
  const auto addresses = reinterpret_cast<uintptr_t>(params.dy) |
                         reinterpret_cast<uintptr_t>(params.x) |
                         reinterpret_cast<uintptr_t>(params.grad) | uintptr_t{16};
  const GradientShape shape{params.n, params.k, params.dy_stride,
                            uint32_t{1} << std::countr_zero(addresses)};
  auto known = backward_.find(shape);
  if (known == backward_.end()) known = backward_.emplace(shape, find(params)).first;
  if (known->second && pinned_.add_gradient(params, *known->second)) return;
  add_by_kernel(compute_, params);
}

}  // namespace rl::cuda
