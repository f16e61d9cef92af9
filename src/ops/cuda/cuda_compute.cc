// Construction order: the device is current in the thread; reservations, products.
#include "ops/cuda/cuda_compute.h"

#include <algorithm>

#include "device/cuda/cuda_calls.h"
#include "device/cuda/devices.h"
#include "device/cuda/memory_spaces.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/products.h"

namespace rl::cuda {
namespace {

// Left to uploads when an op takes its rows in parts.
constexpr uint64_t kScratchMargin = uint64_t{1} << 20;

// Of the workspace, what tables of batches may take.
uint64_t table_bytes(const CudaOptions& options) {
  return options.scratch_bytes / 16 / Scratch::kAlignment * Scratch::kAlignment;
}

}  // namespace

CudaCompute::CudaCompute(const Device& device, int device_index, Executor& executor, Dtype dtype,
                         const CudaOptions& options, ArenaLedger* ledger)
    : Compute(cuda_ops(), {device, dtype, executor.num_threads(), ledger}),
      device_index_(device_index),
      executor_(executor),
      ranges_(options.ranges),
      scratch_source_(memory_of(Space::kScratch, device_index)),
      staging_source_(memory_of(Space::kPinned, device_index)),
      stream_(device_index),
      workspace_("matmul workspace", options.scratch_bytes, Touch::kLater,
                 {ledger, scratch_source_.get()}),
      tables_(workspace_.span().first(table_bytes(options))),
      scratch_(workspace_.span().subspan(table_bytes(options))),
      staging_(device_index, Arena(kCopyStaging, options.staging_bytes, Touch::kNow,
                                   {ledger, staging_source_.get()})) {
  const DeviceScope scope(device_index);
  products_ = std::make_unique<Products>(*this);
  implementation_ = products_->library();
}

// The memory that is freed next may still be in use by the stream.
CudaCompute::~CudaCompute() {
  tables_.forget();
  static_cast<void>(cudaStreamSynchronize(stream()));
}

void CudaCompute::lose(const Error& fault) {
  const std::lock_guard lock(lost_mutex_);
  if (lost_.empty()) lost_ = fault.message;
}

void CudaCompute::require_device() const {
  const std::lock_guard lock(lost_mutex_);
  if (lost_.empty()) return;
  throw Error(Code::kDeviceLost, str("cuda: the device ", device_index_,
                                     " was lost to this process by a fault: ", lost_));
}

void CudaCompute::call(FunctionRef<void()> calls) {
  require_device();
  try {
    const DeviceScope scope(device_index_);
    calls();
  } catch (const Error& error) {
    if (error.code == Code::kDeviceLost) lose(error);
    throw;
  }
}

namespace {

// `behind` waits for what `before` has now. An event may end as soon as it is in both.
void order(int device, cudaStream_t before, cudaStream_t behind) {
  const Event mark(device);
  mark.record(before);
  mark.hold(behind);
}

[[noreturn]] void refuse_stream(int device, const std::string& cause) {
  throw Error(Code::kInvalidArgument, str("the stream is none of device ", device, ": ", cause));
}

// CUDA reads what a handle points to, whatever it is. Only numbers can be told from handles: Linux
// maps no page below 64 KiB, and handles are addresses of structures.
void check_handle(int device, cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return;
  constexpr uintptr_t kLowestAddress = 65536;
  const auto address = reinterpret_cast<uintptr_t>(stream);
  if (address < kLowestAddress || address % alignof(void*) != 0)
    refuse_stream(device, str(address, " is no handle"));
}

// A handle that is no stream's is the host's mistake.
void order_with(int device, cudaStream_t before, cudaStream_t behind) try {
  check_handle(device, before);
  check_handle(device, behind);
  order(device, before, behind);
} catch (const Error& error) {
  if (error.system_code != cudaErrorInvalidResourceHandle) throw;
  refuse_stream(device, error.message);
}

}  // namespace

void CudaCompute::follow(void* given) {
  call([&] { order_with(device_index_, static_cast<cudaStream_t>(given), stream()); });
}

void CudaCompute::lead(void* given) {
  call([&] { order_with(device_index_, stream(), static_cast<cudaStream_t>(given)); });
}

void CudaCompute::complete() {
  call([&] { wait(); });
}

// Both ends are, so that an array that begins in it and ends elsewhere is found.
bool CudaCompute::has_bytes(const void* data, uint64_t bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  bool all = true;
  call([&] {
    for (const std::byte* end : {first, first + (bytes - 1)}) {
      cudaPointerAttributes facts;
      RL_CUDA(cudaPointerGetAttributes(&facts, end));
      all = all && facts.type == cudaMemoryTypeDevice && facts.device == device_index_;
    }
  });
  return all;
}

int64_t CudaCompute::scratch_rows(int64_t row_bytes) const {
  const uint64_t left = scratch_.left(), margin = std::min(kScratchMargin, left / 4);
  return std::max<int64_t>(1,
                           static_cast<int64_t>(left - margin) / std::max<int64_t>(1, row_bytes));
}

const std::byte* CudaCompute::kept_table(std::span<const std::byte> bytes) {
  return tables_.get(
      bytes, [&](std::byte* to) { staging_.upload(bytes.data(), to, bytes.size(), stream()); });
}

void CudaCompute::upload_to(const void* host, void* device, uint64_t bytes) {
  staging_.upload(host, static_cast<std::byte*>(device), bytes, stream());
}

}  // namespace rl::cuda
