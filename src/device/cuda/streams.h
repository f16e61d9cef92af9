// The current device, and streams and events with an owner. Destruction never throws, also when the
// device is lost.
#pragma once
#include <cuda_runtime_api.h>

#include <utility>

namespace rl::cuda {

// Makes the device, to which the calls of a thread refer, current in this thread for the object's
// life.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;

 private:
  const int device_;
  int previous_ = 0;
};

class Stream {
 public:
  explicit Stream(int device);  // does not wait for the default stream
  ~Stream();
  Stream(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  // Waits until all its work is complete.
  void wait() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// A mark in a stream. One that was never recorded counts as complete.
class Event {
 public:
  explicit Event(int device);
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) const;
  // The host waits until the work before the mark is complete.
  void wait() const;
  // Work that is put into the stream later waits for the mark.
  void hold(cudaStream_t stream) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace rl::cuda
