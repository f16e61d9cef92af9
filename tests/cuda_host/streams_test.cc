// Streams of the emulation run their work late, in any order that events allow, and work with no
// order between is reported when it meets in one place.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cuda_host/device_array.h"
#include "cuda_host/emulator.h"
#include "cuda_host/fault_kernels.h"
#include "cuda_host/language_kernels.h"

namespace rl::emulated {
namespace {

constexpr uint64_t kSeeds = 20;
constexpr int64_t kCount = 64;

struct Stream {
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream)); }
  cudaStream_t stream;
};
struct Event {
  Event() { EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess); }
  ~Event() { static_cast<void>(cudaEventDestroy(event)); }
  cudaEvent_t event;
};
struct Pinned {
  explicit Pinned(int64_t count) {
    EXPECT_EQ(cudaMallocHost(reinterpret_cast<void**>(&data), static_cast<size_t>(count) * 4),
              cudaSuccess);
  }
  ~Pinned() { static_cast<void>(cudaFreeHost(data)); }
  float* data;
};

size_t bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

// A copy of x by one stream, doubled by another; with an event between, or without.
std::vector<Report> copy_and_double(uint64_t seed, bool with_event, std::vector<float>* result) {
  restart(seed);
  const Stream copies, computes;
  const Event copied;
  const Pinned pinned(kCount);
  for (int64_t i = 0; i < kCount; ++i) pinned.data[i] = static_cast<float>(i);
  const DeviceArray<float> x(std::vector<float>(kCount, 100)), to(kCount);
  EXPECT_EQ(
      cudaMemcpyAsync(x.data(), pinned.data, bytes(kCount), cudaMemcpyHostToDevice, copies.stream),
      cudaSuccess);
  if (with_event) {
    EXPECT_EQ(cudaEventRecord(copied.event, copies.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(computes.stream, copied.event), cudaSuccess);
  }
  cuda::language::scale(computes.stream, {x.data(), x.data(), 1, to.data(), kCount});
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  *result = to.values();
  return take_reports();
}

TEST(Streams, AnEventOrdersTheWorkOfTwoStreams) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> result;
    for (const Report& r : copy_and_double(seed, true, &result)) ADD_FAILURE() << r.text;
    for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(result[i], static_cast<float>(2 * i));
  }
}

TEST(Streams, AMissingEventIsReportedUnderEverySeedAndChangesSomeResults) {
  std::set<float> results;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<float> result;
    const std::vector<Report> reports = copy_and_double(seed, false, &result);
    ASSERT_FALSE(reports.empty()) << "seed " << seed;
    for (const Report& r : reports) EXPECT_EQ(r.fault, Fault::kStreamRace) << r.text;
    results.insert(result[1]);
  }
  EXPECT_EQ(results, (std::set<float>{2, 200}));  // both orders were seen
}

TEST(Streams, AnEventThatWasRecordedTooEarlyDoesNotHelp) {
  restart(0);
  const Stream copies, computes;
  const Event event;
  const Pinned pinned(kCount);
  const DeviceArray<float> x(std::vector<float>(kCount, 100)), to(kCount);
  EXPECT_EQ(cudaEventRecord(event.event, copies.stream), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(x.data(), pinned.data, bytes(kCount), cudaMemcpyDefault, copies.stream),
            cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(computes.stream, event.event), cudaSuccess);
  cuda::language::scale(computes.stream, {x.data(), x.data(), 1, to.data(), kCount});
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<Report> reports = take_reports();
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports[0].fault, Fault::kStreamRace) << reports[0].text;
}

TEST(Streams, TheHostsWaitOrdersWhatComesAfterIt) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    restart(seed);
    const Stream first, second;
    const DeviceArray<float> x(std::vector<float>(kCount, 3)), y(kCount), z(kCount);
    cuda::language::scale(first.stream, {x.data(), x.data(), 1, y.data(), kCount});
    EXPECT_EQ(cudaStreamSynchronize(first.stream), cudaSuccess);
    cuda::language::scale(second.stream, {y.data(), y.data(), 1, z.data(), kCount});
    EXPECT_EQ(cudaStreamSynchronize(second.stream), cudaSuccess);
    EXPECT_EQ(z.values()[5], 12);
  }
}

TEST(Streams, WorkWaitsUntilTheHostDoes) {
  restart(0);
  const Stream stream;
  const Pinned pinned(kCount);
  const DeviceArray<float> x(std::vector<float>(kCount, 7));
  pinned.data[3] = 1;
  EXPECT_EQ(cudaMemcpyAsync(pinned.data, x.data(), bytes(kCount), cudaMemcpyDefault, stream.stream),
            cudaSuccess);
  EXPECT_EQ(pinned.data[3], 1);
  EXPECT_EQ(cudaStreamSynchronize(stream.stream), cudaSuccess);
  EXPECT_EQ(pinned.data[3], 7);
}

TEST(Streams, TheDefaultStreamWaitsForStreamsThatDoNotOptOut) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    restart(seed);
    cudaStream_t blocking;
    EXPECT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    const DeviceArray<float> x(std::vector<float>(kCount, 3)), y(kCount), z(kCount);
    cuda::language::scale(blocking, {x.data(), x.data(), 1, y.data(), kCount});
    cuda::language::scale(nullptr, {y.data(), y.data(), 1, z.data(), kCount});
    cuda::language::scale(blocking, {z.data(), z.data(), 1, y.data(), kCount});
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(y.values()[9], 24);
    EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  }
}

// Such a copy is complete for the default stream alone when cudaMemcpy returns.
TEST(Streams, ACopyFromPageableMemoryToTheDeviceIsLeftToTheDefaultStream) {
  for (const bool waits : {false, true}) {
    restart(1);
    const Stream stream;
    const std::vector<float> values(kCount, 2);
    const DeviceArray<float> x(kCount), to(kCount);
    EXPECT_EQ(cudaMemcpy(x.data(), values.data(), bytes(kCount), cudaMemcpyHostToDevice),
              cudaSuccess);
    if (waits) {
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    cuda::language::scale(stream.stream, {x.data(), x.data(), 1, to.data(), kCount});
    static_cast<void>(cudaDeviceSynchronize());
    const std::vector<Report> reports = take_reports();
    EXPECT_EQ(reports.empty(), waits);
    for (const Report& r : reports) EXPECT_EQ(r.fault, Fault::kStreamRace) << r.text;
  }
  restart(0);
}

TEST(Streams, MemoryFreedBeforeItsWorkRanIsReported) {
  restart(0);
  const Stream stream;
  const DeviceArray<float> to(kCount);
  void* x;
  EXPECT_EQ(cudaMalloc(&x, bytes(kCount)), cudaSuccess);
  EXPECT_EQ(cudaMemset(x, 0, bytes(kCount)), cudaSuccess);
  const float* const from = static_cast<float*>(x);
  cuda::language::scale(stream.stream, {from, from, 1, to.data(), kCount});
  EXPECT_EQ(cudaFree(x), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.stream), cudaErrorIllegalAddress);
  const std::vector<Report> reports = take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].fault, Fault::kFreed) << reports[0].text;
  restart(0);
}

TEST(Streams, AFreeInTheOrderOfAStreamComesAfterItsWork) {
  for (const bool use_after : {false, true}) {
    restart(0);
    const Stream stream;
    const DeviceArray<float> to(kCount);
    void* x;
    EXPECT_EQ(cudaMallocAsync(&x, bytes(kCount), stream.stream), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(x, 0, bytes(kCount), stream.stream), cudaSuccess);
    const float* const from = static_cast<float*>(x);
    cuda::language::scale(stream.stream, {from, from, 1, to.data(), kCount});
    EXPECT_EQ(cudaFreeAsync(x, stream.stream), cudaSuccess);
    if (use_after) cuda::language::scale(stream.stream, {from, from, 1, to.data(), kCount});
    static_cast<void>(cudaDeviceSynchronize());
    const std::vector<Report> reports = take_reports();
    ASSERT_EQ(reports.size(), use_after ? 1u : 0u);
    for (const Report& r : reports) EXPECT_EQ(r.fault, Fault::kFreed) << r.text;
  }
  restart(0);
}

TEST(Streams, AKernelMayNotUsePageableMemoryOfTheHost) {
  restart(0);
  const DeviceArray<float> to(kCount);
  const std::vector<float> x(kCount, 1);
  cuda::language::scale(nullptr, {x.data(), x.data(), 1, to.data(), kCount});
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  const std::vector<Report> reports = take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].fault, Fault::kHostMemory) << reports[0].text;
  restart(0);
}

TEST(Streams, AKernelMayUsePinnedMemoryWithinItsBounds) {
  for (const int64_t past : {0, 1}) {
    restart(0);
    const DeviceArray<float> to(kCount + 1);
    const Pinned x(kCount);
    for (int64_t i = 0; i < kCount; ++i) x.data[i] = 1;
    cuda::language::scale(nullptr, {x.data, x.data, 1, to.data(), kCount + past});
    EXPECT_EQ(cudaDeviceSynchronize(), past == 0 ? cudaSuccess : cudaErrorIllegalAddress);
    const std::vector<Report> reports = take_reports();
    ASSERT_EQ(reports.size(), static_cast<size_t>(past));
    for (const Report& r : reports) EXPECT_EQ(r.fault, Fault::kOutOfBounds) << r.text;
  }
  restart(0);
}

TEST(Streams, ACopyPastTheEndIsReported) {
  restart(0);
  const DeviceArray<float> x(std::vector<float>(kCount, 1)), y(kCount - 1);
  EXPECT_EQ(cudaMemcpy(y.data(), x.data(), bytes(kCount), cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  const std::vector<Report> reports = take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].fault, Fault::kOutOfBounds) << reports[0].text;
  restart(0);
}

TEST(Streams, ACopyPassesOnWhatWasNeverWritten) {
  restart(0);
  const DeviceArray<float> x(kCount), y(kCount), to(kCount);
  EXPECT_EQ(cudaMemcpy(y.data(), x.data(), bytes(kCount), cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_TRUE(take_reports().empty());
  cuda::language::scale(nullptr, {y.data(), y.data(), 1, to.data(), 1});
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<Report> reports = take_reports();
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports[0].fault, Fault::kNeverWritten) << reports[0].text;
}

TEST(Streams, ADirectionThatDoesNotFitTheMemoryIsRefused) {
  restart(0);
  const DeviceArray<float> x(kCount);
  const std::vector<float> host(kCount);
  EXPECT_EQ(cudaMemcpy(x.data(), host.data(), bytes(kCount), cudaMemcpyDeviceToDevice),
            cudaErrorInvalidMemcpyDirection);
}

TEST(HostAccessDeathTest, OfDeviceMemoryEndsTheProcessAndNamesTheAllocation) {
  restart(0);
  const DeviceArray<float> x(std::vector<float>(kCount, 1));
  volatile float* const element = x.data() + 2;
  EXPECT_DEATH(*element = 1,
               "the host touched device memory: 0x[0-9a-f]+, byte 8 of allocation 1 "
               "\\(256 bytes of device memory\\)");
  EXPECT_EQ(x.values()[2], 1);
}

}  // namespace
}  // namespace rl::emulated
