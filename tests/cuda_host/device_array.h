// An array of device memory for the tests of the emulation.
#pragma once
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

namespace rl::emulated {

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // cudaMemcpy may leave a part to do
  }
  ~DeviceArray() { static_cast<void>(cudaFree(data_)); }
  DeviceArray(const DeviceArray&) = delete;
  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> out(count_);
    EXPECT_EQ(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return out;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

}  // namespace rl::emulated
