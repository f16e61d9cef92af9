// Collectives between GPUs by NCCL, on the emulated GPU and its stand-in of NCCL: the bits of those
// on the host, in any order that the streams allow; and what the ranks say when something fails.
#include "ops/cuda/nccl_messages.h"

#include <gtest/gtest.h>

#include "comm/collective_checks.h"
#include "comm/local_ranks.h"
#include "cuda/device_data.h"
#include "cuda_host/emulator.h"
#include "cuda_host/nccl_stand_in.h"

namespace rl::testing {
namespace {

using comm::Group;
using cuda::NcclResult;

constexpr uint64_t kScratch = 4096;  // so that a few thousand values take several steps
constexpr uint64_t kCounts[] = {0, 1, 7, 500, 3000};
constexpr int64_t kShortNs = 500 * 1000000;

const GroupOptions kOwnOrder = {.timeout_ns = kLongNs, .own_order_on_devices = true};

class NcclMessages : public ::testing::Test {
 protected:
  NcclMessages() { begin(0); }
  ~NcclMessages() override {
    EXPECT_EQ(emulated::live_nccl_communicators(), 0);
    EXPECT_EQ(emulated::live().streams, 0);
    EXPECT_EQ(emulated::live().device_allocations, 0);
    begin(0);
  }
  static void begin(uint64_t seed) {
    emulated::forget_nccl();
    emulated::set_device({});
    emulated::restart(seed);
  }

  // Ranks that are threads and share the GPU.
  using Body = std::function<void(Group&, Compute&)>;
  static std::vector<std::exception_ptr> attempt(int size, const Body& body,
                                                 const GroupOptions& given = {kLongNs}) {
    return try_ranks(local_backend, size, [&](std::shared_ptr<Transport> transport) {
      const auto executor = make_thread_executor(1);
      const cuda::CudaDevice device(0, TwoDevices::small_options());
      const auto compute = device.make_compute(*executor, Dtype::kF32, nullptr);
      GroupOptions options = given;
      options.device = cuda::nccl_messages(*compute, kScratch);
      Group group(std::move(transport), options);
      options.device = nullptr;
      body(group, *compute);
    });
  }
  static void run(int size, const Body& body, const GroupOptions& given = {kLongNs}) {
    for (const std::exception_ptr& thrown : attempt(size, body, given))
      if (thrown != nullptr) std::rethrow_exception(thrown);
  }
};

template <typename T>
Values on_device(const DeviceArray<T>& array) {
  return {reinterpret_cast<std::byte*>(array.data()), static_cast<uint64_t>(array.count()),
          kElementOf<T>, MemorySpace::kDevice};
}

// The same call on values of the host and on those of the GPU.
template <typename T>
void expect_same(Group& group, uint64_t count, const std::function<void(const Values&)>& call) {
  std::vector<T> host = values_at<T>(group.rank(), count);
  const DeviceArray<T> device{std::span<const T>(host)};
  call(of(host));
  call(on_device(device));
  EXPECT_TRUE(same_bits(device.read(), host)) << element_name(kElementOf<T>) << " x " << count;
}

template <typename T>
void expect_same_calls(Group& group, uint64_t count) {
  const auto same = [&](const std::function<void(const Values&)>& call) {
    expect_same<T>(group, count, call);
  };
  if constexpr (!std::is_same_v<T, std::byte>) {
    same([&](const Values& v) { group.all_reduce(v); });
    same([&](const Values& v) { group.all_reduce(v, Reduction::kMax); });
    same([&](const Values& v) { group.reduce_scatter(v); });
  }
  same([&](const Values& v) { group.all_gather(v); });
  same([&](const Values& v) { group.broadcast(v, group.size() - 1); });
}

TEST_F(NcclMessages, HaveTheBitsOfTheHosts) {
  for (int size = 1; size <= 4; ++size) {
    begin(static_cast<uint64_t>(size) - 1);
    run(size, [](Group& group, Compute&) {
      for (const uint64_t count : kCounts) {
        expect_same_calls<float>(group, count);
        expect_same_calls<bf16>(group, count);
        expect_same_calls<int32_t>(group, count);
        expect_same_calls<std::byte>(group, count);
      }
    });
  }
}

TEST_F(NcclMessages, HavePiecesOfAnySize) {
  const Pieces pieces{{0, 5, 5, 3000}};
  for (uint64_t seed = 0; seed < 3; ++seed) {
    begin(seed);
    run(3, [&](Group& group, Compute&) {
      expect_same<float>(group, 3000, [&](const Values& v) {
        StartedCall sum = group.start_reduce_scatter(v, pieces);
        StartedCall all = group.start_all_gather(v, pieces);
        sum.wait();
        all.wait();
      });
    });
  }
}

template <typename T>
std::vector<T> on_gpu(const std::vector<T>& values,
                      const std::function<void(const Values&)>& call) {
  const DeviceArray<T> device{std::span<const T>(values)};
  call(on_device(device));
  return device.read();
}

// With more values than the scratch has, which such sums do not need.
TEST_F(NcclMessages, AddUpInAnOrderOfTheirOwn) {
  for (int size = 1; size <= 4; ++size) {
    begin(static_cast<uint64_t>(size) - 1);
    const auto check = [&](Group& group, Compute&) {
      for (const uint64_t count : kCounts) {
        expect_own_order<float>(group, even_pieces(count, size), on_gpu<float>);
        expect_own_order<bf16>(group, even_pieces(count, size), on_gpu<bf16>);
      }
      if (size == 3) expect_own_order<float>(group, Pieces{{0, 5, 5, 3000}}, on_gpu<float>);
      expect_same<int32_t>(group, 500, [&](const Values& v) { group.all_reduce(v); });
      expect_same<float>(group, 500,
                         [&](const Values& v) { group.all_reduce(v, Reduction::kMax); });
    };
    run(size, check, kOwnOrder);
  }
}

// Ranks 0 and 2 alone.
TEST_F(NcclMessages, GoFromRankToRank) {
  run(3, [](Group& group, Compute&) {
    const std::vector<float> mine = values_at<float>(group.rank(), 3000);
    const DeviceArray<float> values{std::span<const float>(mine)};
    const Values v = on_device(values);
    if (group.rank() == 0) group.send({v.data, v.count, v.element, v.space}, 2);
    if (group.rank() == 2) {
      group.receive(v, 0);
      EXPECT_TRUE(same_bits(values.read(), values_at<float>(0, 3000)));
    }
  });
}

TEST_F(NcclMessages, GoFromAllToAllAndInTurn) {
  constexpr uint64_t kCount = 3000;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    begin(seed);
    run(3, [](Group& group, Compute&) {
      const std::vector<float> mine = values_at<float>(group.rank(), kCount);
      std::vector<float> exchanged(kCount), shifted(kCount);
      const DeviceArray<float> from{std::span<const float>(mine)};
      const DeviceArray<float> all{std::span<const float>(mine)},
          next{std::span<const float>(mine)};
      const Values f = on_device(from);
      const ConstValues out{f.data, f.count, f.element, f.space};
      group.all_to_all(of_const(mine), of(exchanged));
      group.shift(of_const(mine), of(shifted));
      group.all_to_all(out, on_device(all));
      group.start_shift(out, on_device(next)).wait();
      EXPECT_TRUE(same_bits(all.read(), exchanged));
      EXPECT_TRUE(same_bits(next.read(), shifted));
    });
  }
}

// Nothing but the order of streams is between ops and messages: the emulation reports a race where
// there is none.
TEST_F(NcclMessages, ComeBehindTheOpsBeforeAndAheadOfThoseAfter) {
  constexpr uint64_t kCount = 3000;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    begin(seed);
    const auto work = [](Group& group, Compute& compute) {
      const std::vector<float> x = values_at<float>(group.rank(), kCount);
      const DeviceArray<float> from{std::span<const float>(x)};
      const DeviceArray<float> sums{std::span<const float>(x)}, to{std::span<const float>(x)};
      for (int round = 0; round < 3; ++round) {
        scale_add(compute, {{0, sums.data(), 2, from.data()}, static_cast<int64_t>(kCount)});
        if (round % 2 == 0) {
          group.all_reduce(on_device(sums));
        } else {
          group.start_all_reduce(on_device(sums)).wait();
        }
        scale_add(compute, {{0, to.data(), 1, sums.data()}, static_cast<int64_t>(kCount)});
      }
      compute.complete();
      const std::vector<float> got = to.read();
      for (uint64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(got[i], 2 * value_at<float>(0, i) + 2 * value_at<float>(1, i)) << i;
    };
    run(2, work, seed % 2 == 0 ? GroupOptions{kLongNs} : kOwnOrder);
  }
}

TEST_F(NcclMessages, TakeScratchThatTheLedgerCounts) {
  const auto executor = make_thread_executor(1);
  const cuda::CudaDevice device(0, TwoDevices::small_options());
  ArenaLedger ledger;
  const auto compute = device.make_compute(*executor, Dtype::kF32, &ledger);
  const uint64_t before = ledger.bytes();
  const auto messages = cuda::nccl_messages(*compute);
  EXPECT_EQ(ledger.bytes() - before, DeviceMessages::kScratchBytes);
  EXPECT_EQ(ledger.entries().back().name, DeviceMessages::kArena);
  EXPECT_EQ(ledger.entries().back().space, MemorySpace::kDevice);
}

void all_reduce_on_gpu(Group& group, Compute&) {
  const std::vector<float> mine = values_at<float>(group.rank(), 3000);
  const DeviceArray<float> values{std::span<const float>(mine)};
  group.all_reduce(on_device(values));
}

void reduce_scatter_on_gpu(Group& group, Compute&) {
  const std::vector<float> mine = values_at<float>(group.rank(), 3000);
  const DeviceArray<float> values{std::span<const float>(mine)};
  group.reduce_scatter(on_device(values));
}

// What the rank threw that had an error of its own; the others name it.
Error own_error(const std::vector<std::exception_ptr>& thrown) {
  std::optional<Error> own;
  int rank = -1;
  for (size_t r = 0; r < thrown.size(); ++r) {
    try {
      if (thrown[r] != nullptr) std::rethrow_exception(thrown[r]);
      ADD_FAILURE() << "rank " << r << " noticed nothing";
    } catch (const RankError&) {
    } catch (const Error& error) {
      EXPECT_FALSE(own.has_value()) << error.message;
      own = error;
      rank = static_cast<int>(r);
    }
  }
  expect_named(thrown, rank);
  return own.value_or(Error(Code::kOk, "no rank had an error of its own"));
}

TEST_F(NcclMessages, EndOnAllRanksWhenACallFailsOnOne) {
  const auto expect_failure = [](const char* call, const Body& body, const GroupOptions& options) {
    begin(1);
    emulated::inject({.call = 1, .error = cudaErrorUnknown, .only = call});
    const Error error = own_error(attempt(2, body, options));
    EXPECT_EQ(error.code, Code::kInternal);
    EXPECT_TRUE(contains(error.message, "unhandled cuda error")) << error.message;
    EXPECT_EQ(emulated::live_nccl_communicators(), 0);
  };
  for (const char* call : {"ncclSend", "ncclRecv", "ncclGroupStart", "ncclGroupEnd"})
    expect_failure(call, all_reduce_on_gpu, {kLongNs});
  expect_failure("ncclAllReduce", all_reduce_on_gpu, kOwnOrder);
  expect_failure("ncclReduce", reduce_scatter_on_gpu, kOwnOrder);
}

TEST_F(NcclMessages, SayWhatNcclSays) {
  const auto thrown = attempt(2, [](Group& group, Compute& compute) {
    all_reduce_on_gpu(group, compute);
    group.barrier();
    emulated::set_nccl_error(NcclResult::kRemoteError, "the link is down");
    group.barrier();
    all_reduce_on_gpu(group, compute);
  });
  for (const std::exception_ptr& each : thrown) {
    ASSERT_NE(each, nullptr);
    try {
      std::rethrow_exception(each);
    } catch (const Error& error) {  // the other's, if it came first
      EXPECT_TRUE(contains(error.message, "the link is down")) << error.message;
      EXPECT_TRUE(error.code == Code::kIo || error.code == Code::kRankLost);
    }
  }
}

TEST_F(NcclMessages, NameARankThatDoesNotCome) {
  const auto late = [](Group& group, Compute& compute) {
    if (group.rank() == 1)
      return std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kShortNs));
    all_reduce_on_gpu(group, compute);
  };
  for (const bool own_order : {false, true}) {
    begin(0);
    const GroupOptions options{.timeout_ns = kShortNs, .own_order_on_devices = own_order};
    expect_named(attempt(3, late, options), 1);
  }
}

TEST_F(NcclMessages, NeedALibraryThatHasTheFunctions) {
  const auto executor = make_thread_executor(1);
  const cuda::CudaDevice device(0, TwoDevices::small_options());
  const auto compute = device.make_compute(*executor, Dtype::kF32, nullptr);
  emulated::set_nccl_version(21300);
  const Error old =
      expect_error(Code::kNotInBuild, [&] { static_cast<void>(cuda::nccl_messages(*compute)); });
  EXPECT_TRUE(contains(old.message, "21300, older than 21400")) << old.message;
  emulated::forget_nccl();
  emulated::hide_nccl_function("ncclCommAbort");
  const Error absent =
      expect_error(Code::kNotInBuild, [&] { static_cast<void>(cuda::nccl_messages(*compute)); });
  EXPECT_TRUE(contains(absent.message, "has no function ncclCommAbort")) << absent.message;
}

}  // namespace
}  // namespace rl::testing
