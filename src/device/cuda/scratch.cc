// A stack of aligned pieces.
#include "device/cuda/scratch.h"

#include "core/checked.h"
#include "core/error.h"

namespace rl::cuda {

std::byte* Scratch::take(uint64_t bytes) {
  const uint64_t whole = CheckedU64(bytes).align_up(kAlignment).get();
  if (whole > left()) {
    throw Error(Code::kResourceExhausted,
                str("scratch of the device: an op needs ", bytes, " bytes beside ", taken_,
                    " that it has, of ", memory_.size(), " reserved"));
  }
  std::byte* const data = memory_.data() + taken_;
  taken_ += whole;
  return data;
}

void Scratch::give_back(uint64_t mark) { taken_ = mark; }

}  // namespace rl::cuda
