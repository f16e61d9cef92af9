// Memory of the emulated runtime. cudaFree() does not wait for work that still uses the memory:
// such work is reported when it runs.
#include <cuda_runtime_api.h>

#include <map>
#include <string>

#include "cuda_host/api_calls.h"
#include "cuda_host/emulated_memory.h"
#include "cuda_host/stream_queue.h"

using rl::emulated::allocate;
using rl::emulated::Allocation;
using rl::emulated::device_shape;
using rl::emulated::find_allocation;
using rl::emulated::Memory;
using rl::emulated::memory_totals;

namespace {

cudaError_t allocate_device(rl::emulated::Call& call, void** pointer, size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const uint64_t taken = memory_totals().device_bytes;
  if (bytes > device_shape().memory_bytes || taken > device_shape().memory_bytes - bytes)
    return call.fail(cudaErrorMemoryAllocation);
  *pointer = allocate(Memory::kDevice, bytes);
  return *pointer == nullptr ? call.fail(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t allocate_pinned(rl::emulated::Call& call, void** pointer, size_t bytes) {
  *pointer = bytes == 0 ? nullptr : allocate(Memory::kPinned, bytes);
  return bytes != 0 && *pointer == nullptr ? call.fail(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t release_memory(rl::emulated::Call& call, Memory memory, void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  Allocation* const found = find_allocation(memory, pointer);
  if (found == nullptr) return call.fail(cudaErrorInvalidValue);
  release(found);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  RL_EMULATED_CALL();
  return allocate_device(call, pointer, bytes);
}
cudaError_t cudaFree(void* pointer) {
  RL_EMULATED_CALL();
  return release_memory(call, Memory::kDevice, pointer);
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  RL_EMULATED_CALL();
  if (rl::emulated::stream_of(stream) == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  return allocate_device(call, pointer, bytes);
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  RL_EMULATED_CALL();
  CUstream_st* const queue = rl::emulated::stream_of(stream);
  if (queue == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  if (find_allocation(Memory::kDevice, pointer) == nullptr) return call.fail(cudaErrorInvalidValue);
  rl::emulated::enqueue(queue, "cudaFreeAsync", 1, [pointer] {
    if (Allocation* const found = find_allocation(Memory::kDevice, pointer)) release(found);
  });
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  RL_EMULATED_CALL();
  return allocate_pinned(call, pointer, bytes);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int) {
  RL_EMULATED_CALL();
  return allocate_pinned(call, pointer, bytes);
}
cudaError_t cudaFreeHost(void* pointer) {
  RL_EMULATED_CALL();
  return release_memory(call, Memory::kPinned, pointer);
}
cudaError_t cudaHostRegister(void*, size_t, unsigned int) {
  RL_EMULATED_CALL();
  return call.fail(cudaErrorNotSupported);
}
cudaError_t cudaHostUnregister(void*) {
  RL_EMULATED_CALL();
  return call.fail(cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  RL_EMULATED_CALL();
  *total = device_shape().memory_bytes;
  const uint64_t taken = memory_totals().device_bytes;
  *free = taken < *total ? *total - taken : 0;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  RL_EMULATED_CALL();
  const Allocation* const owner = rl::emulated::owner_of(reinterpret_cast<uintptr_t>(pointer));
  void* const address = const_cast<void*>(pointer);
  if (owner == nullptr || owner->freed)
    *attributes = {cudaMemoryTypeUnregistered, 0, nullptr, address};
  else if (owner->memory == Memory::kDevice)
    *attributes = {cudaMemoryTypeDevice, 0, address, nullptr};
  else
    *attributes = {cudaMemoryTypeHost, 0, address, address};
  return cudaSuccess;
}

}  // extern "C"
