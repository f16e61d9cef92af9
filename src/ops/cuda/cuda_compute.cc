// Construction order: the device is current in the thread; reservations, products.
#include "ops/cuda/cuda_compute.h"

#include <algorithm>

#include "device/cuda/devices.h"
#include "device/cuda/memory_spaces.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/products.h"

namespace rl::cuda {
namespace {

// Left to uploads when an op takes its rows in parts.
constexpr uint64_t kScratchMargin = uint64_t{1} << 20;

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
      scratch_(Arena("matmul workspace", options.scratch_bytes, Touch::kLater,
                     {ledger, scratch_source_.get()})),
      staging_(device_index, Arena(kCopyStaging, options.staging_bytes, Touch::kNow,
                                   {ledger, staging_source_.get()})) {
  const DeviceScope scope(device_index);
  products_ = std::make_unique<Products>(*this);
  implementation_ = products_->library();
}

// The memory that is freed next may still be in use by the stream.
CudaCompute::~CudaCompute() { static_cast<void>(cudaStreamSynchronize(stream())); }

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

int64_t CudaCompute::scratch_rows(int64_t row_bytes) const {
  const uint64_t left = scratch_.left(), margin = std::min(kScratchMargin, left / 4);
  return std::max<int64_t>(1,
                           static_cast<int64_t>(left - margin) / std::max<int64_t>(1, row_bytes));
}

void CudaCompute::upload_to(const void* host, void* device, uint64_t bytes) {
  staging_.upload(host, static_cast<std::byte*>(device), bytes, stream());
}

}  // namespace rl::cuda
