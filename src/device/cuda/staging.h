// Pinned host memory that copies between host and device pass through, so that a host array may
// change as soon as an upload returns. The memory is a ring of segments. An event after the last
// copy of a segment says when it may be filled again. Any thread; all copies go to one stream.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/arena.h"
#include "device/cuda/streams.h"

namespace rl::cuda {

class Staging {
 public:
  static constexpr int kSegments = 4;
  Staging(int device, Arena arena);

  // Copies in the stream's order. The host array is read before the call returns.
  void upload(const void* host, std::byte* device, uint64_t bytes, cudaStream_t stream);
  // Copies in the stream's order and waits for it.
  void download(const std::byte* device, void* host, uint64_t bytes, cudaStream_t stream);

 private:
  struct Piece {
    std::byte* data;
    uint64_t bytes;
  };
  Piece take(uint64_t bytes, cudaStream_t stream);
  uint64_t segment_bytes() const { return arena_.bytes() / kSegments; }

  std::mutex mutex_;
  Arena arena_;
  std::vector<Event> filled_;  // kSegments
  int segment_ = 0;
  uint64_t used_ = 0;  // bytes of the segment
};

}  // namespace rl::cuda
