// A row-major matrix is a transposed one by columns: y^T = W x^T, grad^T = x^T dy.
#include "ops/cuda/pinned_products.h"

#include <algorithm>
#include <bit>

#include "ops/cuda/cuda_compute.h"

namespace rl::cuda {
namespace {

constexpr int64_t kMaxWorkspaceBytes = int64_t{32} << 20;
constexpr int kMaxAlgorithms = 8;
constexpr uint32_t kMaxAlignment = 16;

// What cublasLt makes and destroys.
template <typename Handle>
class Owned {
 public:
  using Destroy = cublasStatus_t (*)(Handle);
  explicit Owned(Destroy destroy) : destroy_(destroy) {}
  ~Owned() {
    if (handle_ != nullptr) static_cast<void>(destroy_(handle_));
  }
  Owned(const Owned&) = delete;
  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }

 private:
  Destroy destroy_;
  Handle handle_ = nullptr;
};

// The operands of one product, described.
struct Descriptions {
  Owned<cublasLtMatmulDesc_t> product;
  Owned<cublasLtMatrixLayout_t> a, b, out;
  explicit Descriptions(const BlasLibrary& blas)
      : product(blas->MatmulDescDestroy),
        a(blas->MatrixLayoutDestroy),
        b(blas->MatrixLayoutDestroy),
        out(blas->MatrixLayoutDestroy) {}
};

// The power of two, at most kMaxAlignment, that divides the address and the bytes of a column.
uint32_t alignment_of(const void* data, int64_t column_bytes) {
  const uint64_t both = reinterpret_cast<uintptr_t>(data) | static_cast<uint64_t>(column_bytes) |
                        uint64_t{kMaxAlignment};
  return uint32_t{1} << std::countr_zero(both);
}

cudaDataType_t type_of(Dtype dtype) { return dtype == Dtype::kBf16 ? CUDA_R_16BF : CUDA_R_32F; }

// The matrices, and how they are multiplied.
template <typename Problem>
void describe(const BlasLibrary& blas, Dtype dtype, const Problem& problem, Descriptions& to) {
  const auto add = [&](const auto& m, cudaDataType_t type, auto& layout) {
    RL_BLAS(blas->MatrixLayoutCreate(layout.out(), type, static_cast<uint64_t>(m.rows),
                                     static_cast<uint64_t>(m.columns), m.stride));
  };
  add(problem.a, type_of(dtype), to.a);
  add(problem.b, type_of(dtype), to.b);
  add(problem.out, CUDA_R_32F, to.out);
  // fp32 sums of whatever the operands are, and no TF32.
  RL_BLAS(blas->MatmulDescCreate(to.product.out(), CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const auto transpose = [&](const auto& m, cublasLtMatmulDescAttributes_t attribute) {
    const cublasOperation_t op = m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    RL_BLAS(blas->MatmulDescSetAttribute(to.product.get(), attribute, &op, sizeof op));
  };
  transpose(problem.a, CUBLASLT_MATMUL_DESC_TRANSA);
  transpose(problem.b, CUBLASLT_MATMUL_DESC_TRANSB);
}

}  // namespace

PinnedProducts::PinnedProducts(CudaCompute& compute)
    : compute_(compute),
      blas_(blas_symbols()),
      workspace_bytes_(std::min<int64_t>(
          kMaxWorkspaceBytes, static_cast<int64_t>(compute.scratch_memory().left() / 8))),
      workspace_(compute.scratch<std::byte>(workspace_bytes_)) {}

PinnedProducts::Problem PinnedProducts::problem(const ProductParams& p) {
  return {.a = {p.w, p.k, p.n, p.k, true},
          .b = {p.x, p.k, p.rows, p.k, false},
          .out = {p.y, p.n, p.rows, p.n, false},
          .beta = 0};
}

PinnedProducts::Problem PinnedProducts::problem(const GradientProductParams& p) {
  return {.a = {p.x, p.k, p.rows, p.k, false},
          .b = {p.dy, p.n, p.rows, p.dy_stride, true},
          .out = {p.grad, p.k, p.n, p.k, false},
          .beta = 1};
}

std::vector<ProductAlgorithm> PinnedProducts::algorithms(const Problem& problem,
                                                         uint32_t reductions) const {
  const BlasLibrary& blas = blas_;
  Descriptions of(blas);
  describe(blas, compute_.dtype(), problem, of);
  Owned<cublasLtMatmulPreference_t> wanted(blas->MatmulPreferenceDestroy);
  RL_BLAS(blas->MatmulPreferenceCreate(wanted.out()));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    RL_BLAS(blas->MatmulPreferenceSetAttribute(wanted.get(), attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes_));
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  const auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute, const Matrix& m,
                         int64_t item) { set(attribute, alignment_of(m.data, m.stride * item)); };
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.a, compute_.item());
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.b, compute_.item());
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem.out, sizeof(float));
  align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem.out, sizeof(float));
  cublasLtMatmulHeuristicResult_t found[kMaxAlgorithms];
  int count = 0;
  const cublasStatus_t status = blas->MatmulAlgoGetHeuristic(
      blas.handle(), of.product.get(), of.a.get(), of.b.get(), of.out.get(), of.out.get(),
      wanted.get(), kMaxAlgorithms, found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  RL_BLAS(status, "product of ", problem.out.rows, " x ", problem.out.columns);
  std::vector<ProductAlgorithm> out;
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) out.push_back(found[i].algo);
  return out;
}

bool PinnedProducts::run(const Problem& problem, const ProductAlgorithm& algorithm) const {
  const BlasLibrary& blas = blas_;
  Descriptions of(blas);
  describe(blas, compute_.dtype(), problem, of);
  const float alpha = 1;
  void* const out = const_cast<void*>(problem.out.data);
  const cublasStatus_t status = blas->Matmul(
      blas.handle(), of.product.get(), &alpha, problem.a.data, of.a.get(), problem.b.data,
      of.b.get(), &problem.beta, out, of.out.get(), out, of.out.get(), &algorithm, workspace_,
      static_cast<size_t>(workspace_bytes_), compute_.stream());
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
  RL_BLAS(status, "product of ", problem.out.rows, " x ", problem.out.columns);
  return true;
}

std::vector<ProductAlgorithm> PinnedProducts::algorithms(const ProductParams& p) const {
  return algorithms(problem(p), CUBLASLT_REDUCTION_SCHEME_NONE);
}
std::vector<ProductAlgorithm> PinnedProducts::splitting_algorithms(const ProductParams& p) const {
  // In the workspace, where the parts have places of their own.
  return algorithms(problem(p), CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
}
std::vector<ProductAlgorithm> PinnedProducts::algorithms(const GradientProductParams& p) const {
  return algorithms(problem(p), CUBLASLT_REDUCTION_SCHEME_NONE);
}
bool PinnedProducts::multiply(const ProductParams& p, const ProductAlgorithm& algorithm) const {
  return run(problem(p), algorithm);
}
bool PinnedProducts::add_gradient(const GradientProductParams& p,
                                  const ProductAlgorithm& algorithm) const {
  return run(problem(p), algorithm);
}

}  // namespace rl::cuda
