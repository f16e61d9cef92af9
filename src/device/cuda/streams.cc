// Owners of CUDA's handles. What cannot be destroyed, because the device is lost, is dropped.
#include "device/cuda/streams.h"

#include "device/cuda/cuda_calls.h"

namespace rl::cuda {

DeviceScope::DeviceScope(int device) : device_(device) {
  RL_CUDA(cudaGetDevice(&previous_));
  if (previous_ != device_) RL_CUDA(cudaSetDevice(device_), "device ", device_);
}
DeviceScope::~DeviceScope() {
  if (previous_ != device_) static_cast<void>(cudaSetDevice(previous_));
}

Stream::Stream(int device) {
  const DeviceScope scope(device);
  RL_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}
Stream::~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
void Stream::wait() const { RL_CUDA(cudaStreamSynchronize(stream_)); }

Event::Event(int device) {
  const DeviceScope scope(device);
  RL_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
}
Event::~Event() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}
void Event::record(cudaStream_t stream) const { RL_CUDA(cudaEventRecord(event_, stream)); }
void Event::wait() const { RL_CUDA(cudaEventSynchronize(event_)); }
void Event::hold(cudaStream_t stream) const { RL_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }

}  // namespace rl::cuda
