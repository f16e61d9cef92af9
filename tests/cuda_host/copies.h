// Copies and fills of the emulated streams.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda_host/api_calls.h"
#include "cuda_host/stream_queue.h"

namespace rl::emulated {

// A rectangle of rows; one row of `width` bytes is a plain copy.
struct CopyShape {
  void* to;
  const void* from;
  uint64_t width, height = 1, to_pitch = 0, from_pitch = 0;
};
// Memory of the host that is not pinned is read before this returns, and is written before it
// returns, as CUDA does.
cudaError_t enqueue_copy(Call& call, const CopyShape& shape, cudaMemcpyKind kind,
                         CUstream_st* stream);
// Whether cudaMemcpy waits for the copy: not where it goes to the device from memory that is not
// pinned, or from the device.
bool host_waits_for(const CopyShape& shape);
cudaError_t enqueue_fill(Call& call, void* to, int value, uint64_t bytes, CUstream_st* stream);

// Memory that a call of a library reads or writes when its turn comes. False, after a report, where
// it may not.
bool note_read_by_call(const void* from, uint64_t bytes);
bool note_write_by_call(void* to, uint64_t bytes);

}  // namespace rl::emulated
