// Each check of the emulation finds the kernel with its fault, under every seed, and says nothing
// about the same kernel without it.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda_host/device_array.h"
#include "cuda_host/emulator.h"
#include "cuda_host/fault_kernels.h"

namespace rl::emulated {
namespace {

using cuda::faults::FaultParams;

constexpr uint64_t kSeeds = 10;

const std::map<std::string, Fault> kExpected = {
    {"read_past_end", Fault::kOutOfBounds},
    {"write_before_start", Fault::kOutOfBounds},
    {"shared_past_end", Fault::kOutOfBounds},
    {"read_unwritten", Fault::kNeverWritten},
    {"shared_unwritten", Fault::kNeverWritten},
    {"no_sync_block", Fault::kRace},
    {"no_sync_warp", Fault::kRace},
    {"no_second_barrier", Fault::kRace},
    {"blocks_overlap", Fault::kRace},
    {"blocks_depend", Fault::kRace},
    {"halves", Fault::kRace},
    {"some_threads_sync", Fault::kDivergentBarrier},
    {"barriers_differ", Fault::kDivergentBarrier},
    {"some_lanes_shuffle", Fault::kDivergentWarp},
    {"lanes_leave", Fault::kDivergentWarp},
    {"no_such_lane", Fault::kBadLane},
    {"misaligned", Fault::kMisaligned},
    {"no_wait_for_copy", Fault::kCopyNotComplete},
    {"no_barrier_after_copy", Fault::kRace},
    {"tiles_past_end", Fault::kOutOfBounds},
};

std::vector<Report> run(const std::string& check, bool faulty, uint64_t seed) {
  restart(seed);
  const DeviceArray<float> from(std::vector<float>(64, 1.5f)), to(64);
  cuda::faults::start(check, nullptr, {faulty, to.data(), from.data(), 64});
  static_cast<void>(cudaDeviceSynchronize());
  return take_reports();
}

class Checks : public ::testing::TestWithParam<std::string> {};

TEST_P(Checks, FindsTheFaultUnderEverySeed) {
  const Fault expected = kExpected.at(GetParam());
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::vector<Report> reports = run(GetParam(), true, seed);
    ASSERT_FALSE(reports.empty()) << "seed " << seed;
    bool found = false;
    for (const Report& r : reports) {
      found |= r.fault == expected;
      // A reader that no barrier holds back may also come before anything was written.
      const bool early = r.fault == Fault::kNeverWritten && expected == Fault::kRace;
      EXPECT_TRUE(early || r.fault == expected) << r.text;
      EXPECT_EQ(r.kernel, GetParam());
      EXPECT_GE(r.thread, 0);
    }
    EXPECT_TRUE(found) << "seed " << seed << ": " << reports[0].text;
  }
  restart(0);
}

TEST_P(Checks, SaysNothingWithoutTheFault) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    for (const Report& r : run(GetParam(), false, seed)) ADD_FAILURE() << r.text;
  restart(0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Checks, ::testing::ValuesIn(cuda::faults::fault_kernels()),
                         [](const auto& info) { return info.param; });

TEST(ChecksOfKernels, HaveAnExpectationEach) {
  EXPECT_EQ(cuda::faults::fault_kernels().size(), kExpected.size());
}

// A fault that ends a kernel loses the device, as on a GPU.
TEST(ChecksOfKernels, AFaultMakesEveryLaterCallFailUntilTheRestart) {
  restart(0);
  {
    const DeviceArray<float> from(std::vector<float>(64, 1.5f)), to(64);
    cuda::faults::start("read_past_end", nullptr, {true, to.data(), from.data(), 64});
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    void* pointer;
    EXPECT_EQ(cudaMalloc(&pointer, 16), cudaErrorIllegalAddress);
  }
  EXPECT_EQ(take_reports().size(), 1u);
  restart(0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(ChecksOfKernels, AReportNamesKernelBlockThreadAddressAndAllocation) {
  restart(0);
  const DeviceArray<float> from(std::vector<float>(64, 1.5f)), to(64);
  cuda::faults::start("read_past_end", nullptr, {true, to.data(), from.data(), 64});
  static_cast<void>(cudaDeviceSynchronize());
  const std::vector<Report> reports = take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].thread, 63);
  EXPECT_EQ(reports[0].address, reinterpret_cast<uint64_t>(from.data() + 64));
  EXPECT_NE(reports[0].text.find("read_past_end: access out of bounds in block (0, 0, 0), thread "
                                 "63: read of 4 bytes at 0x"),
            std::string::npos)
      << reports[0].text;
  EXPECT_NE(
      reports[0].text.find("0 bytes past the end of allocation 1 (256 bytes of device memory)"),
      std::string::npos)
      << reports[0].text;
  restart(0);
}

}  // namespace
}  // namespace rl::emulated
