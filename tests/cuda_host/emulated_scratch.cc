// Scratch of the device layer on the emulated GPU, in place of src/device/cuda/scratch.cc. Every
// piece is an allocation of its own, with bounds, never written at first, and freed when what was
// enqueued before it was given back is complete. So the checks see pieces, not one reservation.
#include <map>
#include <mutex>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "cuda_host/api_calls.h"
#include "cuda_host/emulated_memory.h"
#include "cuda_host/stream_queue.h"
#include "device/cuda/scratch.h"

namespace rl::cuda {
namespace {

struct Piece {
  uint64_t mark;  // bytes taken before it
  void* data;
};
std::map<const Scratch*, std::vector<Piece>>& pieces() {
  static std::map<const Scratch*, std::vector<Piece>> all;
  return all;
}

void release_later(void* data) {
  emulated::run_after_all("end of scratch", [data] {
    if (emulated::Allocation* const found = find_allocation(emulated::Memory::kDevice, data))
      release(found);
  });
}

}  // namespace

std::byte* Scratch::take(uint64_t bytes) {
  const uint64_t whole = CheckedU64(bytes).align_up(kAlignment).get();
  if (whole > left()) {
    throw Error(Code::kResourceExhausted,
                str("scratch of the device: an op needs ", bytes, " bytes beside ", taken_,
                    " that it has, of ", memory_.size(), " reserved"));
  }
  const std::lock_guard lock(emulated::emulator_mutex());
  std::vector<Piece>& own = pieces()[this];
  if (taken_ == 0) own.clear();  // an earlier object's
  void* const data =
      bytes == 0 ? memory_.data() : allocate(emulated::Memory::kDevice, bytes, false);
  RL_CHECK(data != nullptr);
  if (bytes != 0) own.push_back({taken_, data});
  taken_ += whole;
  return static_cast<std::byte*>(data);
}

void Scratch::give_back(uint64_t mark) {
  const std::lock_guard lock(emulated::emulator_mutex());
  std::vector<Piece>& own = pieces()[this];
  for (; !own.empty() && own.back().mark >= mark; own.pop_back()) release_later(own.back().data);
  taken_ = mark;
}

}  // namespace rl::cuda
