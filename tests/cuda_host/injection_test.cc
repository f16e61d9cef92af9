// Failures that a test asks for, and what the emulation counts.
#include <gtest/gtest.h>

#include "cuda_host/device_array.h"
#include "cuda_host/emulator.h"
#include "cuda_host/language_kernels.h"

namespace rl::emulated {
namespace {

TEST(Injection, TheCallWithTheNumberFailsAndNoOther) {
  for (int64_t failing = 0; failing < 4; ++failing) {
    restart(0);
    inject({.call = failing, .error = cudaErrorMemoryAllocation});
    for (int64_t call = 0; call < 4; ++call) {
      void* pointer = nullptr;
      EXPECT_EQ(cudaMalloc(&pointer, 16),
                call == failing ? cudaErrorMemoryAllocation : cudaSuccess);
    }
    EXPECT_EQ(live().device_allocations, 3);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  restart(0);
}

TEST(Injection, AStickyErrorIsReturnedByEveryLaterCall) {
  restart(0);
  inject({.call = 1, .error = cudaErrorLaunchFailure, .sticky = true});
  void* pointer;
  EXPECT_EQ(cudaMalloc(&pointer, 16), cudaSuccess);
  EXPECT_EQ(cudaMemset(pointer, 0, 16), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaFree(pointer), cudaErrorLaunchFailure);
  restart(0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Injection, CallsOfOneNameCanBeCountedAlone) {
  restart(0);
  inject({.call = 1, .error = cudaErrorUnknown, .only = "cudaFree"});
  void *a, *b;
  EXPECT_EQ(cudaMalloc(&a, 16), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&b, 16), cudaSuccess);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaErrorUnknown);
  EXPECT_EQ(calls("cudaFree"), 2);
  EXPECT_EQ(calls(), 4);
  EXPECT_EQ(live().device_bytes, 16u);
  restart(0);
}

TEST(Device, HasAsMuchMemoryAsTheTestSays) {
  restart(0);
  set_device({.memory_bytes = 1 << 20});
  void* pointer;
  EXPECT_EQ(cudaMalloc(&pointer, (1 << 20) + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&pointer, 1 << 19), cudaSuccess);
  size_t free, total;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, size_t{1} << 19);
  EXPECT_EQ(total, size_t{1} << 20);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(live().device_bytes, 0u);
  restart(0);
}

TEST(Device, CountsTheLaunchesOfKernels) {
  restart(0);
  const DeviceArray<float> x(std::vector<float>(512, 1)), to(2);
  cuda::language::sum_blocks(nullptr, {x.data(), to.data(), 2});
  EXPECT_EQ(to.values()[1], 256);
  const std::vector<KernelCount> counts = kernel_counts();
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts[0].name, "sum_blocks");
  EXPECT_EQ(counts[0].launches, 1);
  EXPECT_EQ(counts[0].blocks, 2);
}

TEST(Device, RefusesMoreSharedMemoryThanTheKernelAskedForOrTheDeviceHas) {
  restart(0);
  const DeviceArray<float> x(std::vector<float>(256, 1)), to(1);
  cuda::language::SumParams params{x.data(), to.data(), 1};
  cuda::language::sum_blocks(nullptr, params);  // makes the kernel known
  const void* const kernel = cuda::language::sum_kernel_address();
  void* arguments[] = {&params};
  const auto start = [&](size_t shared_bytes) {
    return cudaLaunchKernel(kernel, {1, 1, 1}, {256, 1, 1}, arguments, shared_bytes, nullptr);
  };
  EXPECT_EQ(start((48 << 10) + 1), cudaErrorInvalidConfiguration);
  const auto allow = [&](int bytes) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(allow((99 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(allow(99 << 10), cudaSuccess);
  EXPECT_EQ(start((48 << 10) + 1), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(allow(48 << 10), cudaSuccess);
}

}  // namespace
}  // namespace rl::emulated
