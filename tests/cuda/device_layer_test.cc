// The device layer on the emulated GPU: errors of calls, memory, scratch, staging, streams, the
// devices there are, and a device that is lost.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <thread>

#include "cuda/counted_ranges.h"
#include "cuda/device_data.h"
#include "cuda_host/emulator.h"
#include "device/cuda/devices.h"
#include "device/cuda/memory_spaces.h"
#include "device/cuda/scratch.h"
#include "device/cuda/staging.h"
#include "ops/cuda/cuda_compute.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

using cuda::Space;

// Each test begins with an empty device of the usual shape.
class CudaLayer : public ::testing::Test {
 protected:
  CudaLayer() { begin(0); }
  ~CudaLayer() override { begin(0); }
  static void begin(uint64_t seed) {
    emulated::set_device({});
    emulated::restart(seed);
  }
  static void fail(const char* call, cudaError_t error, bool sticky = false) {
    emulated::inject({.call = 0, .error = error, .sticky = sticky, .only = call});
  }
  // Arenas count in a ledger that gives them the memory of a space.
  static ArenaLedger ledger_of(Space space) { return ArenaLedger(cuda::memory_of(space, 0)); }
};

TEST_F(CudaLayer, AFailedCallNamesStatementSizesAndFreeMemory) {
  void* data = nullptr;
  fail("cudaMalloc", cudaErrorMemoryAllocation);
  const Error error =
      expect_error(Code::kOutOfMemory, [&] { RL_CUDA(cudaMalloc(&data, 4096), 4096, " bytes"); });
  EXPECT_TRUE(contains(error.message, "cudaMalloc(&data, 4096), 4096 bytes")) << error.message;
  EXPECT_TRUE(contains(error.message, "cudaErrorMemoryAllocation")) << error.message;
  EXPECT_TRUE(contains(error.message, "4294967296 bytes of the device are free")) << error.message;
  EXPECT_EQ(error.system_code, cudaErrorMemoryAllocation);
}

TEST_F(CudaLayer, ADeviceArenaIsZeroAndGoesBack) {
  ArenaLedger ledger = ledger_of(Space::kDevice);
  {
    const Arena arena("weights", 10000, Touch::kLater, &ledger);
    std::vector<unsigned char> bytes(10000, 1);
    RL_CUDA(cudaMemcpy(bytes.data(), arena.data(), bytes.size(), cudaMemcpyDeviceToHost));
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0), 0);
    EXPECT_EQ(emulated::live().device_allocations, 1);
    EXPECT_EQ(ledger.bytes(), 10000u);
  }
  EXPECT_EQ(emulated::live().device_allocations, 0);
  EXPECT_EQ(emulated::calls("cuMemAddressReserve"), 1);
  EXPECT_EQ(emulated::calls("cuMemAddressFree"), 1);
}

// The stream knows nothing of the arena: whoever frees or clears it waits.
TEST_F(CudaLayer, AnArenaIsFreedAfterTheWorkOnIt) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    begin(seed);
    const cuda::Stream stream(0);
    {
      ArenaLedger ledger = ledger_of(Space::kDevice);
      const Arena arena("weights", 4096, Touch::kLater, &ledger);
      RL_CUDA(cudaMemsetAsync(arena.data(), 5, 4096, stream.get()));
    }
    stream.wait();
  }
}
TEST_F(CudaLayer, AnArenaIsClearedAfterTheWorkOnIt) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    begin(seed);
    const cuda::Stream stream(0);
    ArenaLedger ledger = ledger_of(Space::kDevice);
    Arena arena("weights", 4096, Touch::kLater, &ledger);
    RL_CUDA(cudaMemsetAsync(arena.data(), 5, 4096, stream.get()));
    arena.decommit();
    stream.wait();
    arena.commit();
    std::vector<unsigned char> bytes(4096, 1);
    RL_CUDA(cudaMemcpy(bytes.data(), arena.data(), bytes.size(), cudaMemcpyDeviceToHost));
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0), 0) << "seed " << seed;
  }
}

TEST_F(CudaLayer, AnArenaLargerThanTheDeviceIsOutOfMemory) {
  ArenaLedger ledger = ledger_of(Space::kDevice);
  const Error error = expect_error(Code::kOutOfMemory, [&] {
    const Arena arena("weights", uint64_t{8} << 30, Touch::kLater, &ledger);
  });
  EXPECT_TRUE(contains(error.message, "8589934592 bytes")) << error.message;
  EXPECT_EQ(emulated::live().device_allocations, 0);
  EXPECT_EQ(ledger.bytes(), 0u);
}

TEST_F(CudaLayer, AnArenaThatCannotBeClearedLeavesNothing) {
  ArenaLedger ledger = ledger_of(Space::kDevice);
  fail("cudaMemset", cudaErrorUnknown);
  expect_error(Code::kInternal,
               [&] { const Arena arena("weights", 4096, Touch::kLater, &ledger); });
  EXPECT_EQ(emulated::live().device_allocations, 0);
}

TEST_F(CudaLayer, APinnedArenaIsZeroMemoryOfTheHost) {
  ArenaLedger ledger = ledger_of(Space::kPinned);
  {
    const Arena arena("staging", 4096, Touch::kNow, &ledger);
    EXPECT_EQ(std::count(arena.span().begin(), arena.span().end(), std::byte{0}), 4096);
    arena.data()[4095] = std::byte{7};
    EXPECT_EQ(emulated::live().pinned_allocations, 1);
  }
  EXPECT_EQ(emulated::live().pinned_allocations, 0);
}

TEST_F(CudaLayer, ScratchIsAStackThatNamesWhatDoesNotFit) {
  ArenaLedger ledger = ledger_of(Space::kScratch);
  const Arena arena("scratch", 4096, Touch::kLater, &ledger);
  cuda::Scratch scratch(arena.span());
  std::byte* const first = scratch.take(100);
  const uint64_t mark = scratch.taken();
  std::byte* const second = scratch.take(100);
  EXPECT_NE(first, second);
  EXPECT_EQ(scratch.taken(), 2 * cuda::Scratch::kAlignment);
  scratch.give_back(mark);
  EXPECT_EQ(scratch.taken(), mark);
  static_cast<void>(scratch.take(8));
  const Error error = expect_error(Code::kResourceExhausted, [&] { scratch.take(5000); });
  EXPECT_TRUE(contains(error.message, "needs 5000 bytes beside 512 that it has, of 4096"))
      << error.message;
}

// What was enqueued before the scratch was given back may use it, and nothing later.
TEST_F(CudaLayer, ScratchThatWasGivenBackIsNotTheOpsAnyMore) {
  for (const bool late : {false, true}) {
    begin(1);
    {
      ArenaLedger ledger = ledger_of(Space::kScratch);
      const Arena arena("scratch", 4096, Touch::kLater, &ledger);
      cuda::Scratch scratch(arena.span());
      const cuda::Stream stream(0);
      std::byte* const piece = scratch.take(100);
      if (!late) RL_CUDA(cudaMemsetAsync(piece, 0, 100, stream.get()));
      scratch.give_back(0);
      stream.wait();
      if (late) RL_CUDA(cudaMemsetAsync(piece, 0, 100, stream.get()));
      EXPECT_EQ(cudaStreamSynchronize(stream.get()), late ? cudaErrorIllegalAddress : cudaSuccess);
    }
    const std::vector<emulated::Report> reports = emulated::take_reports();
    EXPECT_EQ(reports.size(), late ? 1u : 0u);
    for (const emulated::Report& r : reports) EXPECT_EQ(r.fault, emulated::Fault::kFreed) << r.text;
  }
  begin(0);
}

// More bytes than the ring has, over seeds that let copies run early and late: a segment that was
// filled again too soon would show.
TEST_F(CudaLayer, CopiesLargerThanTheRingArrive) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    begin(seed);
    ArenaLedger pinned = ledger_of(Space::kPinned), memory = ledger_of(Space::kDevice);
    cuda::Staging staging(0, Arena("staging", 1024, Touch::kNow, &pinned));
    const Arena there("there", 4096, Touch::kLater, &memory);
    const cuda::Stream stream(0);
    for (int round = 0; round < 3; ++round) {
      std::vector<uint32_t> values(1000);
      std::iota(values.begin(), values.end(), static_cast<uint32_t>(round));
      const std::vector<uint32_t> wanted = values;
      staging.upload(values.data(), there.data(), 4000, stream.get());
      std::ranges::fill(values, 0u);
      staging.download(there.data(), values.data(), 4000, stream.get());
      ASSERT_EQ(values, wanted) << "seed " << seed << ", round " << round;
    }
  }
}

TEST_F(CudaLayer, AnEventOrdersTwoStreams) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    begin(seed);
    ArenaLedger memory = ledger_of(Space::kDevice);
    const Arena there("there", 4096, Touch::kLater, &memory);
    const cuda::Stream first(0), second(0);
    const cuda::Event written(0);
    RL_CUDA(cudaMemsetAsync(there.data(), 5, 64, first.get()));
    written.record(first.get());
    written.hold(second.get());
    RL_CUDA(cudaMemcpyAsync(there.data() + 64, there.data(), 64, cudaMemcpyDeviceToDevice,
                            second.get()));
    second.wait();
    unsigned char got = 0;
    RL_CUDA(cudaMemcpy(&got, there.data() + 127, 1, cudaMemcpyDeviceToHost));
    EXPECT_EQ(got, 5) << "seed " << seed;
  }
}

TEST_F(CudaLayer, DevicesHaveNameMemoryAndArchitecture) {
  emulated::set_device({.devices = 2, .memory_bytes = 1 << 20, .major = 8, .minor = 6});
  const std::vector<GpuFacts> devices = cuda::list_devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].name, "Emulated GPU 1");
  EXPECT_EQ(devices[1].memory_bytes, uint64_t{1} << 20);
  EXPECT_EQ(devices[1].major * 10 + devices[1].minor, 86);
  EXPECT_NO_THROW(cuda::require_device(1));
  const Error error = expect_error(Code::kUnsupported, [] { cuda::require_device(2); });
  EXPECT_TRUE(contains(error.message, "there is no device 2; this machine has 2")) << error.message;
  EXPECT_EQ(error.key, "runtime.device_index");
}

TEST_F(CudaLayer, WhatIsAbsentIsNamed) {
  const auto absence = [] {
    return expect_error(Code::kUnsupported, [] { cuda::require_device(0); }).message;
  };
  emulated::set_device({.devices = 0, .driver_version = 0});
  EXPECT_TRUE(contains(absence(), "this machine has no NVIDIA driver"));
  emulated::set_device({.devices = 0});
  EXPECT_TRUE(contains(absence(), "the driver shows no device: cudaErrorNoDevice"));
  emulated::set_device({.driver_version = 11080});
  fail("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  EXPECT_TRUE(contains(absence(), "serves CUDA 11.8 and the library needs 13.0"));
  emulated::set_device({.major = 7, .minor = 5});
  EXPECT_TRUE(contains(absence(), "architecture 7.5 and the library has code for 8.0"));
}

TEST_F(CudaLayer, AComputeReservesWhatItsDeviceSays) {
  const TwoDevices devices(Dtype::kF32);
  const emulated::Live live = emulated::live();
  EXPECT_EQ(live.device_bytes, devices.gpu_device().workspace_bytes(1));
  EXPECT_EQ(live.pinned_bytes, TwoDevices::small_options().staging_bytes);
}

// What it has copied to pinned memory may still be under way to the device.
TEST_F(CudaLayer, AComputeEndsAfterItsCopies) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    begin(seed);
    ArenaLedger ledger = ledger_of(Space::kDevice);
    const Arena there("there", 4096, Touch::kLater, &ledger);
    const std::vector<unsigned char> ones(4096, 1);
    {
      TwoDevices devices(Dtype::kF32);
      dynamic_cast<cuda::CudaCompute&>(devices.gpu()).upload_to(ones.data(), there.data(), 4096);
    }
    std::vector<unsigned char> bytes(4096);
    RL_CUDA(cudaMemcpy(bytes.data(), there.data(), bytes.size(), cudaMemcpyDeviceToHost));
    EXPECT_EQ(bytes, ones) << "seed " << seed;
  }
}

TEST_F(CudaLayer, AComputeThatCannotBeMadeLeavesNothing) {
  int64_t calls = 0;
  {
    const TwoDevices devices(Dtype::kF32);
    calls = emulated::calls();
  }
  for (int64_t call = 0; call < calls; ++call) {
    begin(0);
    emulated::inject({.call = call, .error = cudaErrorMemoryAllocation});
    try {
      const TwoDevices devices(Dtype::kF32);
    } catch (const Error& error) {
      EXPECT_NE(error.message, "") << "call " << call;
    }
    const emulated::Live live = emulated::live();
    EXPECT_EQ(live.device_allocations + live.pinned_allocations, 0) << "call " << call;
    EXPECT_EQ(live.streams + live.events, 0) << "call " << call;
  }
}

TEST_F(CudaLayer, AFaultLosesTheDeviceForEveryLaterCall) {
  auto devices = std::make_unique<TwoDevices>(Dtype::kF32);
  OnBoth<float> from(std::vector<float>(64, 1.0f)), to(int64_t{64});
  const CopyBytesArgs copy{from.on_device(), to.on_device(), 256};
  fail("cudaMemcpyAsync", cudaErrorIllegalAddress, true);
  const Error first = expect_error(Code::kDeviceLost, [&] { copy_bytes(devices->gpu(), copy); });
  EXPECT_TRUE(contains(first.message, "the device is lost to this process")) << first.message;
  // Not even a call that needs nothing of the device works.
  const Error later = expect_error(Code::kDeviceLost, [&] {
    copy_bytes(devices->gpu(), {nullptr, nullptr, 0});
  });
  EXPECT_TRUE(contains(later.message, first.message)) << later.message;
  EXPECT_NO_THROW(devices.reset());
}

TEST_F(CudaLayer, AnOrdinaryFailureLosesNothing) {
  TwoDevices devices(Dtype::kF32);
  OnBoth<float> from(std::vector<float>(64, 1.0f)), to(int64_t{64});
  const CopyBytesArgs copy{from.on_device(), to.on_device(), 256};
  fail("cudaMemcpyAsync", cudaErrorUnknown);
  expect_error(Code::kInternal, [&] { copy_bytes(devices.gpu(), copy); });
  copy_bytes(devices.gpu(), copy);
  EXPECT_EQ(to.read_device(), from.host());
}

TEST_F(CudaLayer, OpsAreRangesOnlyWhereTheyAreAskedFor) {
  const auto ranges_of = [](const cuda::CudaOptions& options) {
    RangeCounts before = range_counts();
    TwoDevices devices(Dtype::kF32, options);
    copy_bytes(devices.gpu(), {nullptr, nullptr, 0});
    RangeCounts after = range_counts();
    EXPECT_EQ(after.pushed["copy_bytes"] - before.pushed["copy_bytes"],
              after.popped - before.popped);
    return after.popped - before.popped;
  };
  cuda::CudaOptions options = TwoDevices::small_options();
  EXPECT_EQ(ranges_of(options), 1);
  options.ranges = {};
  EXPECT_EQ(ranges_of(options), 0);
}

TEST_F(CudaLayer, CopiesOfSeveralThreadsArrive) {
  TwoDevices devices(Dtype::kF32);
  std::vector<OnBoth<float>> arrays;
  for (int i = 0; i < 3; ++i) arrays.emplace_back(std::vector<float>(1000, static_cast<float>(i)));
  std::vector<std::vector<float>> got(3, std::vector<float>(1000));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      copy_bytes(devices.gpu(), {arrays[i].on_device(), got[i].data(), 4000});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(got[i], arrays[i].host());
}

}  // namespace
}  // namespace rl::testing
