// Data on two devices at once: a GPU (or its emulation) and the reference device, so that a test
// writes an op's arguments once and runs it on both.
//
//   TwoDevices devices(Dtype::kBf16);
//   OnBoth<float> x(random_values(rows * hidden, 1));
//   OnBoth<std::byte> y = elements_to_write(dtype, rows * hidden);
//   devices.run([&](Compute& compute, auto at) {
//     norm_rows(compute, {at(x), {at(w), eps, kind}, at(y), rows, hidden});
//   });
//   expect_near(dtype, y, {.absolute = 1e-6, .relative = 1e-5});
//
// Memory of the device has exactly the size of its array, so that an access past the end is found,
// and what is to be written counts as never written.
#pragma once
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "device/cpu/executors.h"
#include "device/cuda/cuda_calls.h"
#include "device/cuda/streams.h"
#include "ops/cuda/cuda_device.h"
#include "reference/reference_device.h"
#include "support/random_values.h"

namespace rl::testing {

// An array in memory of device 0.
template <typename T>
class DeviceArray {
 public:
  // Never written.
  explicit DeviceArray(int64_t count) : count_(count) {
    if (count == 0) return;
    const cuda::DeviceScope scope(0);
    void* data = nullptr;
    RL_CUDA(cudaMalloc(&data, bytes()), bytes(), " bytes");
    data_ = static_cast<T*>(data);
  }
  explicit DeviceArray(std::span<const T> values)
      : DeviceArray(static_cast<int64_t>(values.size())) {
    write(values);
  }
  ~DeviceArray() {
    if (data_ != nullptr) static_cast<void>(cudaFree(data_));
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceArray& operator=(DeviceArray&&) = delete;

  T* data() const { return data_; }
  int64_t count() const { return count_; }
  // Both wait for everything that the device has to do.
  void write(std::span<const T> values) {
    if (values.empty()) return;
    RL_CHECK(static_cast<int64_t>(values.size()) == count_);
    RL_CUDA(cudaDeviceSynchronize());
    RL_CUDA(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
    RL_CUDA(cudaDeviceSynchronize());  // cudaMemcpy may leave a part to the default stream
  }
  std::vector<T> read() const {
    std::vector<T> out(static_cast<size_t>(count_));
    if (count_ == 0) return out;
    RL_CUDA(cudaDeviceSynchronize());
    RL_CUDA(cudaMemcpy(out.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  size_t bytes() const { return static_cast<size_t>(count_) * sizeof(T); }

  T* data_ = nullptr;
  int64_t count_ = 0;
};

// The same array on the host, for the reference device, and on the GPU.
template <typename T>
class OnBoth {
 public:
  explicit OnBoth(std::vector<T> values)
      : host_(std::move(values)), device_(std::span<const T>(host_)) {}
  // To be written by an op: never written on the device.
  explicit OnBoth(int64_t count) : host_(static_cast<size_t>(count)), device_(count) {}

  T* on_host() { return host_.data(); }
  T* on_device() { return device_.data(); }
  int64_t count() const { return device_.count(); }
  const std::vector<T>& host() const { return host_; }
  std::vector<T> read_device() const { return device_.read(); }
  // Both sides become this.
  void write(std::span<const T> values) {
    host_.assign(values.begin(), values.end());
    device_.write(values);
  }

 private:
  std::vector<T> host_;
  DeviceArray<T> device_;
};

// Elements of a dtype, given, or to be written by an op.
inline OnBoth<std::byte> elements_of(Dtype dtype, const std::vector<float>& values) {
  return OnBoth<std::byte>(as_dtype(values, dtype));
}
inline OnBoth<std::byte> elements_to_write(Dtype dtype, int64_t count) {
  return OnBoth<std::byte>(count * static_cast<int64_t>(dtype_bytes(dtype)));
}

// at(array) is where a side has the array; at(nullptr) is null.
struct HostSide {
  template <typename T>
  T* operator()(OnBoth<T>& array) const {
    return array.on_host();
  }
  std::nullptr_t operator()(std::nullptr_t) const { return nullptr; }
  template <typename T>
  std::span<T> all(OnBoth<T>& array) const {
    return {array.on_host(), static_cast<size_t>(array.count())};
  }
};
struct DeviceSide {
  template <typename T>
  T* operator()(OnBoth<T>& array) const {
    return array.on_device();
  }
  std::nullptr_t operator()(std::nullptr_t) const { return nullptr; }
  template <typename T>
  std::span<T> all(OnBoth<T>& array) const {
    return {array.on_device(), static_cast<size_t>(array.count())};
  }
};

class TwoDevices {
 public:
  explicit TwoDevices(Dtype dtype, const cuda::CudaOptions& options = small_options())
      : executor_(make_thread_executor(1)),
        device_(0, options),
        gpu_(device_.make_compute(*executor_, dtype, nullptr)),
        reference_(reference_device().make_compute(*executor_, dtype, nullptr)) {}

  static cuda::CudaOptions small_options() {
    return {.scratch_bytes = uint64_t{16} << 20,
            .staging_bytes = uint64_t{1} << 20,
            .ranges = cuda::nvtx_functions()};
  }
  Compute& gpu() { return *gpu_; }
  Compute& reference() { return *reference_; }
  const Device& gpu_device() const { return device_; }
  Executor& executor() { return *executor_; }

  template <typename Op>
  void run(const Op& op) {
    op(*reference_, HostSide());
    op(*gpu_, DeviceSide());
  }

 private:
  const std::unique_ptr<Executor> executor_;
  const cuda::CudaDevice device_;
  const std::unique_ptr<Compute> gpu_, reference_;
};

// |got - want| <= absolute + relative * |want|. A bf16 result may also be a neighbour of what is
// wanted, because the last bit of the fp32 value decides which way it is rounded.
struct Tolerance {
  double absolute = 0, relative = 0;
};
inline constexpr double kBf16Step = 1.0 / 128;  // relative, between neighbours

inline std::vector<float> floats_of(Dtype dtype, const std::vector<std::byte>& elements) {
  std::vector<float> out(elements.size() / dtype_bytes(dtype));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = element(elements.data(), dtype, static_cast<int64_t>(i));
  return out;
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& want,
                        const Tolerance& tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    const double most = tolerance.absolute + tolerance.relative * std::abs(want[i]);
    if (std::isfinite(got[i]) && difference <= most) continue;
    FAIL() << "element " << i << " of " << got.size() << " is " << got[i] << ", wanted " << want[i]
           << " within " << most;
  }
}
// What the GPU has against what the reference device has.
inline void expect_near(const OnBoth<float>& array, const Tolerance& tolerance) {
  expect_near(array.read_device(), array.host(), tolerance);
}
inline void expect_near(Dtype dtype, const OnBoth<std::byte>& array, Tolerance tolerance) {
  if (dtype == Dtype::kBf16) tolerance.relative += kBf16Step;
  expect_near(floats_of(dtype, array.read_device()), floats_of(dtype, array.host()), tolerance);
}
// Bit for bit.
template <typename T>
void expect_same(const OnBoth<T>& array) {
  const std::vector<T> got = array.read_device();
  ASSERT_EQ(got.size(), array.host().size());
  EXPECT_EQ(std::memcmp(got.data(), array.host().data(), got.size() * sizeof(T)), 0);
}

}  // namespace rl::testing
