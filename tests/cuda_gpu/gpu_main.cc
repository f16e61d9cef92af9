// Runs the tests on GPU 0. Where none can be used it prints why and ends with 77.
#include <gtest/gtest.h>

#include <cstdio>

#include "core/error.h"
#include "device/cuda/blas_library.h"
#include "device/cuda/devices.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    rl::cuda::require_device(0);
    static_cast<void>(rl::cuda::blas_symbols());
  } catch (const rl::Error& error) {
    std::printf("skipped: %s\n", error.message.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
