// Calls of CUDA that fail while a model loads, samples and trains: each is an Error, or changes
// nothing; afterwards the device is empty, and the same work succeeds with the same result. Calls
// are taken by a stride, so that the test is short.
#include <gtest/gtest.h>

#include "core/error.h"
#include "cuda_models/emulated_gpu.h"
#include "reference/device_steps.h"
#include "train/engine_samples.h"

namespace rl::testing {
namespace {

// The masters after a step on samples of an engine.
std::vector<float> load_sample_and_train() {
  TrainRig rig = rig_on(emulated_gpu(), "mistral");
  const std::vector<Sample> samples = sample_with_engine(rig.model(), {1, 64, 1.0f});
  rig.trainer->step(with_advantages(samples));
  return rig.masters();
}

class CudaFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    emulated::restart(0);
    want_ = load_sample_and_train();
    calls_ = emulated::calls();
    ASSERT_GT(calls_, 1000);
  }
  void TearDown() override { emulated::restart(0); }

  // Runs with one failing call; returns the Error's code, or kOk.
  static Code run_with(const emulated::Injection& injection) {
    emulated::restart(0);
    emulated::inject(injection);
    Code code = Code::kOk;
    try {
      load_sample_and_train();
    } catch (const Error& error) {
      EXPECT_NE(error.message, "");
      code = error.code;
    }
    return code;
  }
  static void expect_empty_device() {
    const emulated::Live live = emulated::live();
    EXPECT_EQ(live.device_allocations + live.pinned_allocations, 0);
    EXPECT_EQ(live.streams + live.events, 0);
  }

  std::vector<float> want_;
  int64_t calls_ = 0;
};

TEST_F(CudaFailures, AFailingCallLeavesNothingOnTheDevice) {
  int64_t refused = 0;
  for (int64_t i = 0; i < 8; ++i) {
    const int64_t call = i * calls_ / 8 + i;
    SCOPED_TRACE(call);
    refused += run_with({.call = call, .error = cudaErrorMemoryAllocation}) != Code::kOk ? 1 : 0;
    expect_empty_device();
  }
  EXPECT_GE(refused, 4);
  emulated::restart(0);
  EXPECT_EQ(load_sample_and_train(), want_);
}

TEST_F(CudaFailures, AnAllocationThatFailsIsOutOfMemory) {
  const int64_t allocations = [] {
    emulated::restart(0);
    load_sample_and_train();
    return emulated::calls("cuMemCreate");
  }();
  ASSERT_GT(allocations, 4);
  for (int64_t call = 0; call < allocations; call += std::max<int64_t>(1, allocations / 5)) {
    SCOPED_TRACE(call);
    EXPECT_EQ(run_with({.call = call, .error = cudaErrorMemoryAllocation, .only = "cuMemCreate"}),
              Code::kOutOfMemory);
  }
}

TEST_F(CudaFailures, AFaultLosesTheDevice) {
  for (int64_t i = 1; i < 5; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(run_with({.call = i * calls_ / 5, .error = cudaErrorIllegalAddress, .sticky = true}),
              Code::kDeviceLost);
  }
}

}  // namespace
}  // namespace rl::testing
