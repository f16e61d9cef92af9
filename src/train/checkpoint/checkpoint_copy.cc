// Tensors lie one after the other, in the order of the draft.
#include "train/checkpoint/checkpoint_copy.h"

#include <algorithm>

#include "core/error.h"

namespace rl {

CheckpointCopy::CheckpointCopy(uint64_t bytes, ArenaLedger* ledger)
    : arena_("checkpoint copy", bytes, Touch::kLater, ledger) {}

namespace {

void read(const CheckpointDraft& draft, const StateTensor& tensor, std::span<std::byte> to) {
  if (!tensor.first) return tensor.bytes.read(to);
  draft.parts->visit(tensor, [&](std::span<const std::byte> part) {
    std::ranges::copy(part, to.begin());
    to = to.subspan(part.size());
  });
}

}  // namespace

void CheckpointCopy::take(CheckpointDraft& draft) {
  std::span<std::byte> room = arena_.span();
  for (ModelDraft& model : draft.models) {
    for (StateArray& array : model.arrays) {
      for (StateTensor& tensor : array.tensors) {
        if (tensor.of_draft) continue;
        const uint64_t size = tensor.whole_bytes();
        RL_CHECK(size <= room.size());
        read(draft, tensor, room.first(size));
        tensor.bytes = DeviceBytes(room.first(size));
        tensor.first.reset();
        room = room.subspan(size);
      }
    }
  }
  draft.parts.reset();
}

}  // namespace rl
