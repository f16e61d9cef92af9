// Rows that are copied, and rows that are added to others. A row that receives several is summed
// from what it holds, in the order of the entries (a run), so there are no atomics and the bits are
// those of adding one entry after the other.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace rl::cuda {

// to[i] = from[rows[i]], rows of row_bytes bytes.
struct GatherRowsParams {
  const void* from;
  const int32_t* rows;  // (count)
  int64_t count, row_bytes;
  void* to;
};
void gather_rows(cudaStream_t stream, const GatherRowsParams& params);

// The first `bytes` bytes of every row, from rows of from_row_bytes bytes to rows of to_row_bytes.
struct CopyColumnsParams {
  const void* from;
  int64_t from_row_bytes;
  void* to;
  int64_t to_row_bytes;
  int64_t rows, bytes;
};
void copy_columns(cudaStream_t stream, const CopyColumnsParams& params);

// Entries ordered by the row they go to; those of a row are in order.
struct Runs {
  const int32_t* rows;     // (count) distinct
  const int32_t* starts;   // (count + 1) into entries
  const int32_t* entries;  // run i has entries[starts[i]] .. entries[starts[i + 1] - 1]
  int64_t count;
};

// to[row] += from[entry] * scale.
struct AddRunsParams {
  Runs runs;
  const float* from;  // (entries, width)
  int64_t width;
  float scale;
  float* to;  // (rows, width)
};
void add_runs(cudaStream_t stream, const AddRunsParams& params);

// to[row] += factor[entry] * w.
struct AddScaledVectorParams {
  Runs runs;
  const float* factor;  // (entries)
  const float* w;       // (width)
  int64_t width;
  float* to;  // (rows, width)
};
void add_scaled_vector(cudaStream_t stream, const AddScaledVectorParams& params);

}  // namespace rl::cuda
