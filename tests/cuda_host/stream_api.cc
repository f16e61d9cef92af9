// Streams, events, copies and launches of the emulated runtime.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda_host/api_calls.h"
#include "cuda_host/block_run.h"
#include "cuda_host/copies.h"
#include "cuda_host/kernels_known.h"
#include "cuda_host/reports.h"
#include "cuda_host/stream_queue.h"

using rl::emulated::Call;
using rl::emulated::CopyShape;
using rl::emulated::device_shape;
using rl::emulated::event_of;
using rl::emulated::KnownKernel;
using rl::emulated::last_work;
using rl::emulated::stream_of;
using rl::emulated::wait_for;

namespace {

// What a stream's synchronisation returns: a fault that its work met.
cudaError_t after_work(Call& call) {
  return rl::emulated::device_lost() ? call.fail(cudaErrorIllegalAddress) : cudaSuccess;
}

bool fits_device(const KnownKernel& kernel, dim3 grid, dim3 block, size_t shared_bytes) {
  const uint64_t shared_max =
      std::min<uint64_t>(kernel.shared_bytes_max, device_shape().shared_bytes_max);
  return block.x >= 1 && block.x <= 1024 && block.y == 1 && block.z == 1 && grid.x >= 1 &&
         grid.x <= 0x7fffffffu && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 &&
         grid.z <= 65535 && shared_bytes <= shared_max;
}

void enqueue_launch(const KnownKernel& known, const void* kernel, dim3 grid, dim3 block,
                    const void* params, size_t shared_bytes, CUstream_st* stream) {
  const char* const first = static_cast<const char*>(params);
  rl::emulated::LaunchRecord launch{known.name,
                                    kernel,
                                    known.invoke,
                                    nullptr,
                                    {grid.x, grid.y, grid.z},
                                    static_cast<int>(block.x),
                                    shared_bytes,
                                    0};
  static uint64_t launches = 0;
  ++launches;
  if (rl::emulated::emulator_seed() != 0)
    launch.seed = (rl::emulated::emulator_seed() + launches * 0x9e3779b97f4a7c15) | 1;
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  // The parameters lie aligned as any type.
  std::vector<std::max_align_t> copy(known.params_bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(copy.data(), first, known.params_bytes);
  rl::emulated::enqueue(stream, known.name, static_cast<uint32_t>(blocks),
                        [launch, copy = std::move(copy)]() mutable {
                          launch.params = copy.data();
                          if (!run_launch(launch))
                            rl::emulated::lose_device(cudaErrorIllegalAddress);
                        });
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  RL_EMULATED_CALL();
  return enqueue_copy(call, {to, from, bytes}, kind, stream_of(stream));
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  RL_EMULATED_CALL();
  CUstream_st* const standard = stream_of(nullptr);
  const rl::emulated::CopyShape shape{to, from, bytes};
  if (const cudaError_t error = enqueue_copy(call, shape, kind, standard)) return error;
  if (!rl::emulated::host_waits_for(shape)) return cudaSuccess;
  wait_for(last_work(standard));
  return after_work(call);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  RL_EMULATED_CALL();
  return enqueue_copy(call, {to, from, width, height, to_pitch, from_pitch}, kind,
                      stream_of(stream));
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  RL_EMULATED_CALL();
  return enqueue_fill(call, to, value, bytes, stream_of(nullptr));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  RL_EMULATED_CALL();
  return enqueue_fill(call, to, value, bytes, stream_of(stream));
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  RL_EMULATED_CALL();
  KnownKernel* const known = rl::emulated::known_kernel(kernel);
  if (known == nullptr) return call.fail(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<uint64_t>(value) > device_shape().shared_bytes_max)
    return call.fail(cudaErrorInvalidValue);
  known->shared_bytes_max = static_cast<uint64_t>(value);
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  RL_EMULATED_CALL();
  const KnownKernel* const known = rl::emulated::known_kernel(kernel);
  if (known == nullptr) return call.fail(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(known->shared_bytes_max);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** params,
                             size_t shared_bytes, cudaStream_t stream) {
  RL_EMULATED_CALL();
  KnownKernel* const known = rl::emulated::known_kernel(kernel);
  CUstream_st* const queue = stream_of(stream);
  if (known == nullptr) return call.fail(cudaErrorInvalidDeviceFunction);
  if (queue == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  if (!fits_device(*known, grid, block, shared_bytes))
    return call.fail(cudaErrorInvalidConfiguration);
  if (block.x % 32 != 0) {
    rl::emulated::report(rl::emulated::Fault::kLaunch, 0,
                         std::string(known->name) + " with blocks of " + std::to_string(block.x) +
                             " threads, not a multiple of 32");
    return call.fail(cudaErrorInvalidConfiguration);
  }
  ++known->launches;
  known->blocks += int64_t{grid.x} * grid.y * grid.z;
  enqueue_launch(*known, kernel, grid, block, params[0], shared_bytes, queue);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user) {
  RL_EMULATED_CALL();
  CUstream_st* const queue = stream_of(stream);
  if (queue == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  rl::emulated::enqueue(queue, "function of the host", 1, [function, user] { function(user); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  RL_EMULATED_CALL();
  *stream = rl::emulated::make_stream((flags & cudaStreamNonBlocking) != 0);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RL_EMULATED_CALL();
  CUstream_st* const queue = stream_of(stream);
  if (queue == nullptr || queue == stream_of(nullptr))
    return call.fail(cudaErrorInvalidResourceHandle);
  rl::emulated::destroy_stream(queue);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  RL_EMULATED_CALL();
  CUstream_st* const queue = stream_of(stream);
  if (queue == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  wait_for(last_work(queue));
  return after_work(call);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  RL_EMULATED_CALL();
  CUstream_st* const queue = stream_of(stream);
  if (queue == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  rl::emulated::run_for_query();
  const auto last = last_work(queue);
  if (last != nullptr && !last->done) return cudaErrorNotReady;
  wait_for(last);
  return after_work(call);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  RL_EMULATED_CALL();
  CUstream_st* const queue = stream_of(stream);
  CUevent_st* const known = event_of(event);
  if (queue == nullptr || known == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  if (const auto& mark = rl::emulated::recorded(known)) hold_for(queue, mark);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  RL_EMULATED_CALL();
  *event = rl::emulated::make_event();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  RL_EMULATED_CALL();
  CUevent_st* const known = event_of(event);
  if (known == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  rl::emulated::destroy_event(known);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  RL_EMULATED_CALL();
  CUstream_st* const queue = stream_of(stream);
  CUevent_st* const known = event_of(event);
  if (queue == nullptr || known == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  rl::emulated::recorded(known) = rl::emulated::enqueue(queue, "event", 1, {});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  RL_EMULATED_CALL();
  CUevent_st* const known = event_of(event);
  if (known == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  rl::emulated::run_for_query();
  const auto mark = rl::emulated::recorded(known);
  if (mark != nullptr && !mark->done) return cudaErrorNotReady;
  wait_for(mark);
  return after_work(call);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  RL_EMULATED_CALL();
  CUevent_st* const known = event_of(event);
  if (known == nullptr) return call.fail(cudaErrorInvalidResourceHandle);
  wait_for(rl::emulated::recorded(known));
  return after_work(call);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  RL_EMULATED_CALL();
  if (event_of(start) == nullptr || event_of(end) == nullptr)
    return call.fail(cudaErrorInvalidResourceHandle);
  *milliseconds = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  RL_EMULATED_CALL();
  rl::emulated::wait_for_all();
  return after_work(call);
}

}  // extern "C"
