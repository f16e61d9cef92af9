// Tensors lie one after the other, in the order of the draft.
#include "train/checkpoint/checkpoint_copy.h"

#include "core/error.h"

namespace rl {

CheckpointCopy::CheckpointCopy(uint64_t bytes, ArenaLedger* ledger)
    : arena_("checkpoint copy", bytes, Touch::kLater, ledger) {}

void CheckpointCopy::take(CheckpointDraft& draft) {
  std::span<std::byte> room = arena_.span();
  for (ModelDraft& model : draft.models) {
    for (StateArray& array : model.arrays) {
      for (StateTensor& tensor : array.tensors) {
        const uint64_t size = tensor.bytes.size();
        RL_CHECK(size <= room.size());
        tensor.bytes.read(room.first(size));
        tensor.bytes = DeviceBytes(room.first(size));
        room = room.subspan(size);
      }
    }
  }
}

}  // namespace rl
