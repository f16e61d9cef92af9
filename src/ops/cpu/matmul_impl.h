// Internals of the matmul files: the cached oneDNN kernels of one Matmul and the self-checks that
// make it exact.
#pragma once
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/arena.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/onednn_handles.h"

namespace rl {

// The most scratch that one product may use in a worker.
constexpr uint64_t kScratchpadBytes = 6ull << 20;

struct KernelKey {
  int64_t m, k, n, lda;
  bool gradient;
  int64_t ldb = 0, ldc = 0;  // gradients only
  auto operator<=>(const KernelKey&) const = default;
};

// One primitive with its per-worker argument objects.
struct Kernel {
  OwnedPrimitive primitive;
  dnnl_memory_desc_t weights;
  std::string implementation;
  struct Args {
    OwnedMemory src, weights, dst, pad;
  };
  std::vector<Args> workers;
};

// oneDNN's object of each slice, made once.
struct CpuForm final : PackedMatrix::DeviceForm {
  std::vector<OwnedMemory> slices;
  int64_t skinny_chunk = 0;
};
// Of a matrix that has been packed or is being packed.
CpuForm& cpu_form(const PackedMatrix& w);
// Binds the matrix; it then has a form with so many slices.
CpuForm& bind_cpu(const PackedShape& shape, std::byte* bytes, PackedMatrix& out);

struct Matmul::Impl {
  Impl(Executor& executor, Dtype compute, ArenaLedger* ledger);

  Kernel& kernel(const KernelKey& key);
  std::unique_ptr<Kernel> make_kernel(const KernelKey& key);
  void require_packed_form(const KernelKey& key, const Kernel& made);
  void execute(Kernel& kernel, int worker, const void* src, dnnl_memory_t weights, void* dst);
  void pack_slice(const PackedShape& shape, std::byte* bytes, int64_t slice,
                  const dnnl_memory_desc_t& from, const float* data, PackedMatrix& out);
  void reorder(const OwnedMemory& source, const OwnedMemory& target);
  bool check_exactness();
  bool check_exactness(int64_t k);
  int64_t skinny_chunk(const PackedShape& shape);
  int64_t skinny_chunk(int64_t k, int64_t n);
  int64_t measure_skinny_chunk(int64_t k, int64_t n);
  void set_element(void* x, int64_t i, float value) const;  // of the compute dtype
  // Address of a column tile's first weight in the given part.
  SkinnyWeights column_tile_weights(const PackedMatrix& w, const ColumnTile& columns,
                                    int64_t part) const;
  // What a worker reads first of the next matrix.
  SkinnyWeights first_weights(const PackedMatrix& next, int worker) const;
  bool stages_gradients() const;
  KernelKey gradient_key(const GradientTile& t, int64_t chunk_rows, int64_t dy_stride,
                         int64_t k) const;
  // Some rows of a gradient tile's operands, where its kernel reads them.
  struct GradientOperands {
    const void *dy, *x;
  };
  GradientOperands gradient_operands(const WeightGrad& a, const GradientTile& t, int64_t row,
                                     int64_t chunk_rows, int worker);
  void accumulate_tile(const WeightGrad& a, const GradientTile& t, int worker);
  struct Product {
    const PackedMatrix& w;
    const void* x;
    int64_t m;
    const PackedMatrix* next;
    MatmulOutput out;          // null y: the worker's scratch
    bool any_columns = false;  // the epilogue accepts columns that are not whole units
  };
  void run(const Product& product, MatmulEpilogue epilogue);
  void run_column_tiles(const Product& product, MatmulEpilogue epilogue);
  // One column tile of p.w; prefetches `prefetch` meanwhile.
  void run_column_tile(const ColumnTile& columns, const SkinnyWeights& prefetch, const Product& p,
                       const MatmulOutput& out, int worker);
  // Some rows of x against a column slice.
  void run_slice(const PackedMatrix& w, int64_t slice, const std::byte* x, int64_t rows,
                 const MatmulOutput& out, int worker);
  int64_t bucket(int64_t m) const;  // row count of the kernel that computes m rows
  int64_t max_tile() const { return fixed_rows ? fixed_rows : kMaxRows; }

  Executor& executor;
  Dtype compute;
  ArenaLedger* ledger;
  int64_t fixed_rows = 0;  // 0: buckets; otherwise every tile has exactly this many rows
  bool exact = false;
  std::string implementation;
  OwnedEngine engine;
  std::vector<OwnedStream> streams;  // one per worker
  Arena scratch;                     // per worker: tile, scratchpad, staging
  std::shared_mutex mutex;
  std::map<KernelKey, std::unique_ptr<Kernel>> kernels;
  std::map<std::pair<int64_t, int64_t>, int64_t> chunks;  // of gemm_skinny, by k and width

  static constexpr uint64_t kTileBytes = kTileFloats * sizeof(float);
  static constexpr uint64_t kPadBytes = kScratchpadBytes;
  static constexpr uint64_t kStageBytes = 4ull << 20;
  static_assert(kPadBytes + kStageBytes == kMaxJoinedFloats * sizeof(float));
  static constexpr uint64_t per_worker() { return kTileBytes + kPadBytes + kStageBytes; }
  float* tile(int w) { return scratch.at<float>(per_worker() * w); }
  float* stage_floats(int w) {
    return scratch.at<float>(per_worker() * w + kTileBytes + kPadBytes);
  }
  std::byte* pad(int w) { return scratch.at<std::byte>(per_worker() * w + kTileBytes); }
};

}  // namespace rl
