// Arenas of the emulated GPU that give their pages back and keep their addresses.
#include "device/cuda/device_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cuda/device_data.h"
#include "cuda_host/emulator.h"
#include "device/cuda/memory_spaces.h"
#include "support/expect_error.h"

namespace rl::testing {
namespace {

class CudaPages : public ::testing::Test {
 protected:
  CudaPages() { begin(); }
  ~CudaPages() override { begin(); }
  static void begin() {
    emulated::set_device({});
    emulated::restart(0);
  }
  static std::vector<unsigned char> read(const Arena& arena) {
    std::vector<unsigned char> bytes(arena.bytes());
    RL_CUDA(cudaMemcpy(bytes.data(), arena.data(), bytes.size(), cudaMemcpyDeviceToHost));
    return bytes;
  }

  std::shared_ptr<MemorySource> memory_ = cuda::memory_of(cuda::Space::kDevice, 0);
  ArenaLedger ledger_{memory_};
};

TEST_F(CudaPages, AnArenaComesBackAtItsAddressAsZeros) {
  Arena arena("weights", 10000, Touch::kLater, &ledger_);
  const std::byte* const address = arena.data();
  RL_CUDA(cudaMemset(arena.data(), 7, arena.bytes()));
  EXPECT_EQ(emulated::live().device_bytes, 12288u);
  arena.decommit();
  EXPECT_EQ(emulated::live().device_bytes, 0u);
  EXPECT_EQ(ledger_.bytes(), 10000u);
  arena.commit();
  EXPECT_EQ(arena.data(), address);
  EXPECT_EQ(emulated::live().device_bytes, 12288u);
  const std::vector<unsigned char> bytes = read(arena);
  EXPECT_EQ(std::ranges::count(bytes, 0), 10000);
}

// The device's memory is free for another arena, at other addresses.
TEST_F(CudaPages, AnotherArenaTakesThePages) {
  emulated::set_device({.memory_bytes = 16384});
  Arena first("first", 16384, Touch::kLater, &ledger_);
  expect_error(Code::kOutOfMemory, [&] { Arena("second", 16384, Touch::kLater, &ledger_); });
  first.decommit();
  {
    const Arena second("second", 16384, Touch::kLater, &ledger_);
    EXPECT_NE(second.data(), first.data());
    const Error error = expect_error(Code::kOutOfMemory, [&] { first.commit(); });
    EXPECT_EQ(error.key, "first");
    EXPECT_TRUE(contains(error.message, "arena first: cannot take back 16384 bytes"))
        << error.message;
    EXPECT_TRUE(contains(error.message, "0 of 16384 bytes of the device are free"))
        << error.message;
  }
  first.commit();
  EXPECT_EQ(emulated::live().device_bytes, 16384u);
}

TEST_F(CudaPages, WorkOnAddressesWithoutPagesIsAFault) {
  {
    const cuda::Stream stream(0);
    Arena arena("weights", 4096, Touch::kLater, &ledger_);
    arena.decommit();
    RL_CUDA(cudaMemsetAsync(arena.data(), 0, 100, stream.get()));
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorIllegalAddress);
  }
  const std::vector<emulated::Report> reports = emulated::take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports.front().fault, emulated::Fault::kFreed) << reports.front().text;
}

// A device that maps 2 MiB at once gives each arena a multiple of it.
TEST_F(CudaPages, SizesAreMultiplesOfWhatTheDeviceMaps) {
  emulated::set_device({.page_bytes = uint64_t{2} << 20});
  const Arena small("small", 100, Touch::kLater, &ledger_);
  EXPECT_EQ(emulated::live().device_bytes, uint64_t{2} << 20);
  const Arena large("large", (uint64_t{2} << 20) + 1, Touch::kLater, &ledger_);
  EXPECT_EQ(emulated::live().device_bytes, uint64_t{6} << 20);
  EXPECT_EQ(ledger_.bytes(), 100 + (uint64_t{2} << 20) + 1);
}

// Each call that a reservation, a drop and a return make fails once.
TEST_F(CudaPages, ACallThatFailsLeavesNothing) {
  const auto live = [] { return emulated::live().device_bytes; };
  const auto use = [&] {
    Arena arena("weights", 4096, Touch::kLater, &ledger_);
    arena.decommit();
    arena.commit();
  };
  use();
  const int64_t calls = emulated::calls();
  int64_t refused = 0;
  for (int64_t call = 0; call < calls; ++call) {
    begin();
    emulated::inject({.call = call, .error = cudaErrorMemoryAllocation});
    try {
      use();
    } catch (const Error& error) {
      EXPECT_EQ(error.code, Code::kOutOfMemory) << error.message;
      ++refused;
    }
    // A call that gives memory back cannot be made again: what it failed to give back stays.
    EXPECT_TRUE(live() == 0 || live() == 4096) << call;
  }
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace rl::testing
