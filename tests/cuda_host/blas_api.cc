// cuBLASLt's functions on the emulated GPU. An algorithm is three numbers: its id, a tile, and into
// how many parts K is split. Tile and split decide the order of sums; algorithm kUnsteady also
// changes it with the number of columns, as schedulers that balance work over multiprocessors do.
#include <cublasLt.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cuda_host/api_calls.h"
#include "cuda_host/blas_product.h"
#include "cuda_host/copies.h"
#include "cuda_host/stream_queue.h"

struct cublasLtContext {
  int device;
};

namespace {

using rl::emulated::BlasProduct;
using rl::emulated::Call;
using rl::emulated::MatrixPart;

constexpr int kSteady = 1, kUnsteady = 2;
constexpr int kTiles[] = {CUBLASLT_MATMUL_TILE_64x64, CUBLASLT_MATMUL_TILE_128x64,
                          CUBLASLT_MATMUL_TILE_128x128};
constexpr int kSplitsMax = 16;

// What the opaque records hold.
enum LayoutField { kType, kOrder, kRows, kColumns, kLeading };
enum DescField { kCompute, kScale, kPointerMode, kTransposeA, kTransposeB };
enum AlgoField { kId, kTile, kSplits, kReduction, kSwizzling, kCustom, kStages };

#define RL_EMULATED_BLAS_CALL()                                                    \
  Call call(__func__);                                                             \
  if (call.status == cudaErrorMemoryAllocation) return CUBLAS_STATUS_ALLOC_FAILED; \
  if (call.status != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED

// A number of 4 or 8 bytes.
bool read_number(const void* value, size_t bytes, uint64_t* to) {
  if (value == nullptr || (bytes != 4 && bytes != 8)) return false;
  *to = 0;
  std::memcpy(to, value, bytes);
  return true;
}

struct Shape {
  int64_t m, n, k;
  bool fits;
};
bool transposed(cublasLtMatmulDesc_t desc, DescField field) {
  return desc->data[field] != CUBLAS_OP_N;
}
Shape shape_of(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
               cublasLtMatrixLayout_t d) {
  const bool ta = transposed(desc, kTransposeA), tb = transposed(desc, kTransposeB);
  const uint64_t m = a->data[ta ? kColumns : kRows], k = a->data[ta ? kRows : kColumns];
  const uint64_t n = b->data[tb ? kRows : kColumns], kb = b->data[tb ? kColumns : kRows];
  return {static_cast<int64_t>(m), static_cast<int64_t>(n), static_cast<int64_t>(k),
          k == kb && d->data[kRows] == m && d->data[kColumns] == n && m > 0 && n > 0 && k > 0};
}

MatrixPart part_of(const void* data, cublasLtMatrixLayout_t layout, bool transpose) {
  const int64_t leading = static_cast<int64_t>(layout->data[kLeading]);
  const bool by_row = (layout->data[kOrder] == CUBLASLT_ORDER_ROW) != transpose;
  return {data, static_cast<cudaDataType>(layout->data[kType]), by_row ? leading : 1,
          by_row ? 1 : leading};
}

uint64_t workspace_of(const cublasLtMatmulAlgo_t& algo, const Shape& shape) {
  return algo.data[kSplits] <= 1
             ? 0
             : algo.data[kSplits] * static_cast<uint64_t>(shape.m * shape.n) * sizeof(float);
}

// What suits the shape; it changes with the number of rows and of columns.
cublasLtMatmulAlgo_t choose(const Shape& shape, int rank) {
  cublasLtMatmulAlgo_t algo{};
  const int64_t size = (shape.m + 7) / 8 + (shape.n + 7) / 8 + rank;
  algo.data[kId] = rank == 0 ? kUnsteady : kSteady;
  algo.data[kTile] = static_cast<uint64_t>(kTiles[size % 3]);
  algo.data[kSplits] = static_cast<uint64_t>(1 + size % 4);
  if (algo.data[kSplits] > 1) algo.data[kReduction] = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return algo;
}

bool is_valid(const cublasLtMatmulAlgo_t& algo) {
  bool tile = false;
  for (const int known : kTiles) tile |= algo.data[kTile] == static_cast<uint64_t>(known);
  const uint64_t splits = algo.data[kSplits];
  return tile && (algo.data[kId] == kSteady || algo.data[kId] == kUnsteady) &&
         splits <= kSplitsMax &&
         (splits <= 1 || algo.data[kReduction] != CUBLASLT_REDUCTION_SCHEME_NONE);
}

rl::emulated::SumOrder order_of(const cublasLtMatmulAlgo_t& algo, const Shape& shape) {
  int64_t splits = algo.data[kSplits] > 1 ? static_cast<int64_t>(algo.data[kSplits]) : 1;
  if (algo.data[kId] == kUnsteady || shape.k == rl::emulated::device_shape().unsteady_depth)
    splits += shape.m % 3 + shape.n % 3;
  const int64_t chains = algo.data[kTile] == CUBLASLT_MATMUL_TILE_64x64    ? 8
                         : algo.data[kTile] == CUBLASLT_MATMUL_TILE_128x64 ? 16
                                                                           : 32;
  return {splits, chains};
}

bool is_type(uint64_t type) { return type == CUDA_R_32F || type == CUDA_R_16BF; }

// Every row or column of the stored matrix, as pieces of memory.
void each_line(const MatrixPart& part, int64_t rows, int64_t columns,
               const std::function<bool(const void* line, uint64_t bytes)>& use) {
  const bool by_row = part.column_step == 1;
  const int64_t lines = by_row ? rows : columns, length = by_row ? columns : rows;
  const int64_t step = by_row ? part.row_step : part.column_step;
  const int64_t bytes = part.type == CUDA_R_32F ? 4 : 2;
  for (int64_t line = 0; line < lines; ++line)
    if (!use(static_cast<const char*>(part.data) + line * step * bytes,
             static_cast<uint64_t>(length * bytes)))
      return;
}

// What the product does when its turn in the stream comes.
void run_product(const BlasProduct& product, void* workspace, uint64_t workspace_bytes) {
  bool sound = true;
  const auto read = [&](const void* line, uint64_t bytes) {
    return sound = sound && rl::emulated::note_read_by_call(line, bytes);
  };
  const auto write = [&](const void* line, uint64_t bytes) {
    return sound = sound && rl::emulated::note_write_by_call(const_cast<void*>(line), bytes);
  };
  each_line(product.a, product.m, product.k, read);
  each_line(product.b, product.k, product.n, read);
  if (product.beta != 0) each_line(product.c, product.m, product.n, read);
  if (workspace_bytes > 0) write(workspace, workspace_bytes);
  each_line(product.d, product.m, product.n, write);
  if (sound) compute_product(product);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  RL_EMULATED_BLAS_CALL();
  *handle = new cublasLtContext{0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  RL_EMULATED_BLAS_CALL();
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 130000; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  RL_EMULATED_BLAS_CALL();
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new cublasLtMatmulDescOpaque_t{};
  (*desc)->data[kCompute] = compute;
  (*desc)->data[kScale] = scale;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  RL_EMULATED_BLAS_CALL();
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  RL_EMULATED_BLAS_CALL();
  if (static_cast<int>(attribute) > kTransposeB) return CUBLAS_STATUS_NOT_SUPPORTED;
  return read_number(value, bytes, &desc->data[attribute]) ? CUBLAS_STATUS_SUCCESS
                                                           : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  RL_EMULATED_BLAS_CALL();
  *layout = new cublasLtMatrixLayoutOpaque_t{};
  (*layout)->data[kType] = type;
  (*layout)->data[kRows] = rows;
  (*layout)->data[kColumns] = columns;
  (*layout)->data[kLeading] = static_cast<uint64_t>(leading);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  RL_EMULATED_BLAS_CALL();
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  RL_EMULATED_BLAS_CALL();
  if (static_cast<int>(attribute) > kLeading) return CUBLAS_STATUS_NOT_SUPPORTED;
  return read_number(value, bytes, &layout->data[attribute]) ? CUBLAS_STATUS_SUCCESS
                                                             : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  RL_EMULATED_BLAS_CALL();
  *preference = new cublasLtMatmulPreferenceOpaque_t{};
  (*preference)->data[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] = CUBLASLT_REDUCTION_SCHEME_MASK;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  RL_EMULATED_BLAS_CALL();
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  RL_EMULATED_BLAS_CALL();
  uint64_t number;
  if (!read_number(value, bytes, &number)) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute <= CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) preference->data[attribute] = number;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a_layout,
    cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d_layout,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t results[],
    int* found) {
  RL_EMULATED_BLAS_CALL();
  const Shape shape = shape_of(desc, a_layout, b_layout, d_layout);
  *found = 0;
  if (!shape.fits) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int rank = 0; rank < 8 && *found < wanted; ++rank) {
    const cublasLtMatmulAlgo_t algo = choose(shape, rank);
    const uint64_t mask = preference->data[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK];
    const uint64_t bytes = workspace_of(algo, shape);
    if (bytes > preference->data[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES]) continue;
    if (algo.data[kSplits] > 1 && (algo.data[kReduction] & mask) == 0) continue;
    results[(*found)++] = {algo, bytes, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
  }
  return *found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, int wanted, int ids[], int* found) {
  RL_EMULATED_BLAS_CALL();
  *found = 0;
  for (const int id : {kSteady, kUnsteady})
    if (*found < wanted) ids[(*found)++] = id;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t,
                                      cudaDataType_t a, cudaDataType_t b, cudaDataType_t,
                                      cudaDataType_t d, int id, cublasLtMatmulAlgo_t* algo) {
  RL_EMULATED_BLAS_CALL();
  if (!is_type(a) || a != b || !is_type(d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (id != kSteady && id != kUnsteady) return CUBLAS_STATUS_INVALID_VALUE;
  *algo = {};
  algo->data[kId] = static_cast<uint64_t>(id);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a_layout,
                                       cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  RL_EMULATED_BLAS_CALL();
  const Shape shape = shape_of(desc, a_layout, b_layout, d_layout);
  if (!shape.fits || !is_valid(*algo)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*algo, workspace_of(*algo, shape), CUBLAS_STATUS_SUCCESS, 1.0f, {}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  RL_EMULATED_BLAS_CALL();
  if (attribute == CUBLASLT_ALGO_CONFIG_ID || attribute > CUBLASLT_ALGO_CONFIG_STAGES_ID)
    return CUBLAS_STATUS_INVALID_VALUE;
  return read_number(value, bytes, &algo->data[attribute]) ? CUBLAS_STATUS_SUCCESS
                                                           : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  RL_EMULATED_BLAS_CALL();
  if (attribute > CUBLASLT_ALGO_CONFIG_STAGES_ID || bytes < 4) return CUBLAS_STATUS_INVALID_VALUE;
  const uint32_t number = static_cast<uint32_t>(algo->data[attribute]);
  std::memcpy(value, &number, sizeof number);
  if (written != nullptr) *written = sizeof number;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t*,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute,
                                                 void* value, size_t bytes, size_t* written) {
  RL_EMULATED_BLAS_CALL();
  std::vector<uint32_t> numbers;
  if (attribute == CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) numbers = {1};
  if (attribute == CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK)
    numbers = {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE};
  if (attribute == CUBLASLT_ALGO_CAP_TILE_IDS) numbers.assign(kTiles, kTiles + 3);
  if (attribute == CUBLASLT_ALGO_CAP_STAGES_IDS) numbers = {0};
  const size_t size = numbers.size() * sizeof(uint32_t);
  if (numbers.empty() || (bytes != 0 && bytes < size)) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes != 0) std::memcpy(value, numbers.data(), size);
  if (written != nullptr) *written = size;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  RL_EMULATED_BLAS_CALL();
  CUstream_st* const queue = rl::emulated::stream_of(stream);
  const Shape shape = shape_of(desc, a_layout, b_layout, d_layout);
  if (handle == nullptr || queue == nullptr || !shape.fits) return CUBLAS_STATUS_INVALID_VALUE;
  if (a_layout->data[kType] != b_layout->data[kType] || !is_type(a_layout->data[kType]) ||
      !is_type(d_layout->data[kType]))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  cublasLtMatmulAlgo_t used = algo != nullptr ? *algo : choose(shape, 0);
  if (algo == nullptr && workspace_of(used, shape) > workspace_bytes) used.data[kSplits] = 1;
  const uint64_t needed = workspace_of(used, shape);
  if (!is_valid(used)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (needed > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  const BlasProduct product{part_of(a, a_layout, transposed(desc, kTransposeA)),
                            part_of(b, b_layout, transposed(desc, kTransposeB)),
                            part_of(c, c_layout, false),
                            part_of(d, d_layout, false),
                            shape.m,
                            shape.n,
                            shape.k,
                            *static_cast<const float*>(alpha),
                            *static_cast<const float*>(beta),
                            order_of(used, shape)};
  rl::emulated::enqueue(queue, "cublasLtMatmul", 1,
                        [product, workspace, needed] { run_product(product, workspace, needed); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
