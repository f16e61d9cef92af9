// oneDNN's objects (v2 API) as owned values, and its statuses as errors. Pitfalls that the matmul
// files avoid:
// - concurrent primitives need user scratchpads, one per thread;
// - a strided destination selects another kernel, whose single-row bits differ: products therefore
//   write dense tiles. Gradients are written strided, in place: their kernels follow from shapes
//   alone, whatever rows a batch has;
// - primitives are specialised by row count: rows are padded up to a bucket and primitives cached;
// - without AVX-512, fp32 bits depend on the row count: every tile then has exactly kFallbackRows
//   rows;
// - creating or re-pointing a memory object of a padded blocked layout writes its padding: weights
//   get one object per slice, made before any concurrent use;
// - the library links libgomp and would start a team per call: every call runs with one OpenMP
//   thread.
#pragma once
#include <dnnl.h>
#include <omp.h>

#include <utility>

#include "core/dtype.h"
#include "core/error.h"

namespace rl {

inline void check_dnnl(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  const Code code = status == dnnl_out_of_memory ? Code::kOutOfMemory : Code::kInternal;
  throw Error(code, str("oneDNN call ", call, " failed with status ", static_cast<int>(status)))
      .with_system_code(static_cast<int32_t>(status));
}
#define RL_DNNL(call) check_dnnl(call, #call)

template <typename T, dnnl_status_t (*destroy)(T)>
struct Owned {
  T value = nullptr;
  Owned() = default;
  Owned(Owned&& o) noexcept : value(std::exchange(o.value, nullptr)) {}
  Owned& operator=(Owned&& o) noexcept {
    std::swap(value, o.value);
    return *this;
  }
  ~Owned() {
    if (value) destroy(value);
  }
};
using OwnedMemory = Owned<dnnl_memory_t, dnnl_memory_destroy>;
using OwnedPrimitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using OwnedDesc = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using OwnedAttr = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using OwnedEngine = Owned<dnnl_engine_t, dnnl_engine_destroy>;
using OwnedStream = Owned<dnnl_stream_t, dnnl_stream_destroy>;
using OwnedPostOps = Owned<dnnl_post_ops_t, dnnl_post_ops_destroy>;

// Sets one OpenMP thread for the calling thread and restores the host's value.
class OneOmpThread {
 public:
  OneOmpThread() : saved_(omp_get_max_threads()) {
    if (saved_ != 1) omp_set_num_threads(1);
  }
  ~OneOmpThread() {
    if (saved_ != 1) omp_set_num_threads(saved_);
  }

 private:
  int saved_;
};

inline dnnl_data_type_t to_dnnl(Dtype t) { return t == Dtype::kF32 ? dnnl_f32 : dnnl_bf16; }

inline dnnl_memory_desc_t plain_desc(int64_t rows, int64_t cols, int64_t row_stride,
                                     int64_t col_stride, dnnl_data_type_t type) {
  const dnnl_dims_t dims = {rows, cols};
  const dnnl_dims_t strides = {row_stride, col_stride};
  dnnl_memory_desc_t desc;
  RL_DNNL(dnnl_memory_desc_init_by_strides(&desc, 2, dims, type, strides));
  return desc;
}

}  // namespace rl
