#include "ops/cuda/nccl_messages.h"

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "device/cuda/cuda_calls.h"
#include "device/cuda/memory_spaces.h"
#include "device/cuda/nccl_library.h"
#include "device/cuda/streams.h"
#include "ops/cuda/cuda_compute.h"
#include "ops/cuda/kernels/rows/rank_order_kernels.h"

namespace rl::cuda {
namespace {

// How long a wait looks again at once, and how often after that.
constexpr int kEagerLooks = 200;
constexpr std::chrono::microseconds kPause{50};
constexpr int kLooksAfterAbort = 20000;  // a second

// Calls of this thread that NCCL takes together. One that is left by an error is closed, because
// the thread may be that of other groups too.
class OpenGroup {
 public:
  OpenGroup(const NcclFunctions& nccl, NcclComm* comm) : nccl_(nccl), comm_(comm) {
    RL_NCCL(nccl_, comm_, nccl_.GroupStart());
  }
  ~OpenGroup() {
    if (is_open_) static_cast<void>(nccl_.GroupEnd());
  }
  OpenGroup(const OpenGroup&) = delete;
  void close() {
    is_open_ = false;
    RL_NCCL(nccl_, comm_, nccl_.GroupEnd());
  }

 private:
  const NcclFunctions& nccl_;
  NcclComm* const comm_;
  bool is_open_ = true;
};

NcclType type_of(Element element) {
  RL_CHECK(element == Element::kF32 || element == Element::kBf16);
  return element == Element::kF32 ? NcclType::kFloat32 : NcclType::kBfloat16;
}

class NcclMessages final : public DeviceMessages {
 public:
  NcclMessages(CudaCompute& compute, uint64_t scratch_bytes)
      : compute_(compute),
        nccl_(find_nccl(nccl_symbols())),
        stream_(compute.device_index()),
        done_(compute.device_index()),
        scratch_source_(memory_of(Space::kScratch, compute.device_index())),
        scratch_(kArena, scratch_bytes, Touch::kLater, {compute.ledger(), scratch_source_.get()}) {}
  ~NcclMessages() override { abort(); }

  uint64_t id_bytes() const override { return sizeof(NcclId); }
  std::vector<std::byte> make_id() override;
  void join(const Place& place, StillThere still_there) override;
  void begin() override;
  void exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                StillThere still_there) override;
  void copy(std::span<const std::byte> from, std::byte* to) override;
  std::span<std::byte> scratch() const override { return scratch_.span(); }
  void reduce(Reduction reduction, uint64_t slot_bytes, const Values& out) override;
  void reduce_scatter_own_order(const DividedValues& all, StillThere still_there) override;
  void all_reduce_own_order(const Values& values, StillThere still_there) override;
  void complete(StillThere still_there) override;

 private:
  // Runs calls of NCCL and CUDA with the device current. An Error ends the communicator.
  template <typename Calls>
  void run(const Calls& calls);
  // The same with calls that NCCL takes together.
  template <typename Calls>
  void run_group(StillThere still_there, const Calls& calls);
  // Looks until done() says so, or NCCL has met an error.
  template <typename Done>
  void wait_until(const Done& done, StillThere still_there);
  bool has_settled();
  bool has_ended();
  // What was enqueued then ends soon, and the values are the caller's again.
  void abort();

  CudaCompute& compute_;
  const NcclFunctions nccl_;
  const Stream stream_;
  const Event done_;
  const std::shared_ptr<MemorySource> scratch_source_;
  const Arena scratch_;
  NcclComm* comm_ = nullptr;  // null: it has not joined, or was aborted
  int rank_ = 0, size_ = 1;
};

std::vector<std::byte> NcclMessages::make_id() {
  NcclId id;
  run([&] { RL_NCCL(nccl_, nullptr, nccl_.GetUniqueId(&id)); });
  const auto bytes = std::as_bytes(std::span(id.bytes));
  return {bytes.begin(), bytes.end()};
}

void NcclMessages::join(const Place& place, StillThere still_there) {
  RL_CHECK(comm_ == nullptr && place.id.size() == sizeof(NcclId));
  NcclId id;
  std::memcpy(id.bytes, place.id.data(), sizeof id);
  rank_ = place.rank;
  size_ = place.size;
  NcclConfig config;
  run([&] {
    RL_NCCL(nccl_, nullptr, nccl_.CommInitRankConfig(&comm_, size_, id, rank_, &config), "rank ",
            rank_, " of ", size_, ", device ", compute_.device_index());
    wait_until([&] { return has_settled(); }, still_there);
  });
}

void NcclMessages::begin() { compute_.lead(stream_.get()); }

// One group, so that no order of messages matters.
void NcclMessages::exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                            StillThere still_there) {
  run_group(still_there, [&] {
    for (const Outgoing& each : out) {
      if (each.bytes.empty()) continue;
      RL_NCCL(nccl_, comm_,
              nccl_.Send(each.bytes.data(), each.bytes.size(), NcclType::kUint8, each.to, comm_,
                         stream_.get()),
              each.bytes.size(), " bytes to rank ", each.to);
    }
    for (const Incoming& each : in) {
      if (each.bytes.empty()) continue;
      RL_NCCL(nccl_, comm_,
              nccl_.Recv(each.bytes.data(), each.bytes.size(), NcclType::kUint8, each.from, comm_,
                         stream_.get()),
              each.bytes.size(), " bytes from rank ", each.from);
    }
  });
}

void NcclMessages::reduce(Reduction reduction, uint64_t slot_bytes, const Values& out) {
  const auto slot = static_cast<int64_t>(slot_bytes / element_bytes(out.element));
  const auto count = static_cast<int64_t>(out.count);
  const bool largest = reduction == Reduction::kMax;
  const auto floats = [&](Dtype dtype) {
    run([&] {
      reduce_ranks(stream_.get(),
                   {scratch_.data(), slot, out.data, dtype, rank_, size_, largest, count});
    });
  };
  if (out.element == Element::kF32) return floats(Dtype::kF32);
  if (out.element == Element::kBf16) return floats(Dtype::kBf16);
  if (out.element != Element::kI32) {
    throw Error(Code::kUnsupported, str("nccl: reductions are of fp32, bf16 or int32, not of ",
                                        element_name(out.element)));
  }
  run([&] {
    reduce_words(stream_.get(),
                 {scratch_.at<int32_t>(0), slot, reinterpret_cast<int32_t*>(out.data), rank_, size_,
                  largest, count});
  });
}

// NCCL's own reduce-scatter has pieces of one size, so each piece is a reduction to its rank. All
// ranks give NCCL the pieces in one order.
void NcclMessages::reduce_scatter_own_order(const DividedValues& all, StillThere still_there) {
  const Values& values = all.values;
  run_group(still_there, [&] {
    for (int r = 0; r < all.pieces.parts(); ++r) {
      const Piece piece = all.pieces[r];
      if (piece.count() == 0) continue;
      std::byte* const at = values.data + piece.begin * element_bytes(values.element);
      RL_NCCL(nccl_, comm_,
              nccl_.Reduce(at, at, piece.count(), type_of(values.element), NcclReduction::kSum, r,
                           comm_, stream_.get()),
              piece.count(), " values to rank ", r);
    }
  });
}

void NcclMessages::all_reduce_own_order(const Values& values, StillThere still_there) {
  if (values.count == 0) return;
  run_group(still_there, [&] {
    RL_NCCL(nccl_, comm_,
            nccl_.AllReduce(values.data, values.data, values.count, type_of(values.element),
                            NcclReduction::kSum, comm_, stream_.get()),
            values.count, " values");
  });
}

void NcclMessages::copy(std::span<const std::byte> from, std::byte* to) {
  run([&] {
    RL_CUDA(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDeviceToDevice, stream_.get()),
            from.size(), " bytes");
  });
}

void NcclMessages::complete(StillThere still_there) {
  run([&] {
    done_.record(stream_.get());
    wait_until([&] { return has_settled() && has_ended(); }, still_there);
  });
}

template <typename Calls>
void NcclMessages::run(const Calls& calls) {
  compute_.require_device();
  try {
    const DeviceScope scope(compute_.device_index());
    calls();
  } catch (const Error& error) {
    if (error.code == Code::kDeviceLost) compute_.lose(error);
    abort();
    throw;
  } catch (...) {
    abort();
    throw;
  }
}

template <typename Calls>
void NcclMessages::run_group(StillThere still_there, const Calls& calls) {
  run([&] {
    RL_CHECK(comm_ != nullptr);
    OpenGroup group(nccl_, comm_);
    calls();
    group.close();
    wait_until([&] { return has_settled(); }, still_there);
  });
}

template <typename Done>
void NcclMessages::wait_until(const Done& done, StillThere still_there) {
  for (int looks = 0; !done(); ++looks) {
    still_there();
    if (looks < kEagerLooks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

// Whether the communicator has begun, or has enqueued what it was given. Errors of what runs show
// here too.
bool NcclMessages::has_settled() {
  NcclResult state = NcclResult::kSuccess;
  RL_NCCL(nccl_, comm_, nccl_.CommGetAsyncError(comm_, &state));
  if (state == NcclResult::kSuccess || state == NcclResult::kInProgress)
    return state == NcclResult::kSuccess;
  fail_nccl(nccl_, comm_, state, "what its communicator was given to do",
            str("rank ", rank_, " of ", size_, ", device ", compute_.device_index()));
}

bool NcclMessages::has_ended() {
  const cudaError_t status = cudaEventQuery(done_.get());
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // which keeps even this
    return false;
  }
  RL_CUDA(status, "the event after messages of NCCL");
  return true;
}

void NcclMessages::abort() {
  NcclComm* const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  static_cast<void>(nccl_.CommAbort(comm));
  for (int looks = 0; looks < kLooksAfterAbort; ++looks) {
    if (cudaStreamQuery(stream_.get()) != cudaErrorNotReady) return;
    static_cast<void>(cudaGetLastError());
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

std::shared_ptr<DeviceMessages> CudaCompute::make_messages() { return nccl_messages(*this); }

std::shared_ptr<DeviceMessages> nccl_messages(Compute& compute, uint64_t scratch_bytes) {
  return std::make_shared<NcclMessages>(cuda_of(compute), scratch_bytes);
}

}  // namespace rl::cuda
