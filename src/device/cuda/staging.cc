// Segments are filled in turn. A segment that is left gets an event; before it is filled again, the
// host waits for that event, which is three segments of copies ago.
#include "device/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "device/cuda/cuda_calls.h"

namespace rl::cuda {
namespace {

constexpr uint64_t kAlignment = 64;

}  // namespace

Staging::Staging(int device, Arena arena) : arena_(std::move(arena)) {
  RL_CHECK(segment_bytes() >= kAlignment && segment_bytes() % kAlignment == 0);
  filled_.reserve(kSegments);
  for (int i = 0; i < kSegments; ++i) filled_.emplace_back(device);
}

// Up to so many bytes of the current segment, or of the next one if it is full.
Staging::Piece Staging::take(uint64_t bytes, cudaStream_t stream) {
  if (used_ == segment_bytes()) {
    filled_[static_cast<size_t>(segment_)].record(stream);
    segment_ = (segment_ + 1) % kSegments;
    filled_[static_cast<size_t>(segment_)].wait();
    used_ = 0;
  }
  const uint64_t taken = std::min(bytes, segment_bytes() - used_);
  std::byte* const data = arena_.data() + static_cast<uint64_t>(segment_) * segment_bytes() + used_;
  used_ = std::min(segment_bytes(), CheckedU64(used_ + taken).align_up(kAlignment).get());
  return {data, taken};
}

void Staging::upload(const void* host, std::byte* device, uint64_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto* from = static_cast<const std::byte*>(host);
  while (bytes > 0) {
    const Piece piece = take(bytes, stream);
    std::memcpy(piece.data, from, piece.bytes);
    RL_CUDA(cudaMemcpyAsync(device, piece.data, piece.bytes, cudaMemcpyHostToDevice, stream),
            piece.bytes, " bytes");
    from += piece.bytes;
    device += piece.bytes;
    bytes -= piece.bytes;
  }
}

void Staging::download(const std::byte* device, void* host, uint64_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  auto* to = static_cast<std::byte*>(host);
  while (bytes > 0) {
    const Piece piece = take(bytes, stream);
    RL_CUDA(cudaMemcpyAsync(piece.data, device, piece.bytes, cudaMemcpyDeviceToHost, stream),
            piece.bytes, " bytes");
    RL_CUDA(cudaStreamSynchronize(stream), "after copying ", piece.bytes, " bytes");
    std::memcpy(to, piece.data, piece.bytes);
    to += piece.bytes;
    device += piece.bytes;
    bytes -= piece.bytes;
  }
}

}  // namespace rl::cuda
