// Tensors lie one after the other, in the order of the draft.
#include "train/checkpoint/checkpoint_copy.h"

#include <algorithm>
#include <memory>
#include <vector>

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

// The beginning of the room, which then has the rest.
std::span<std::byte> cut_off(std::span<std::byte>& room, size_t bytes) {
  RL_CHECK(bytes <= room.size());
  const std::span<std::byte> first = room.first(bytes);
  room = room.subspan(bytes);
  return first;
}

// Memory of the draft, for pieces of other ranks.
std::span<std::byte> more(ModelDraft& model, size_t bytes) {
  return *model.gathered.emplace_back(std::make_shared<std::vector<std::byte>>(bytes));
}

}  // namespace

void CheckpointCopy::take(CheckpointDraft& draft) {
  std::span<std::byte> room = arena_.span();
  for (ModelDraft& model : draft.models) {
    for (StateArray& array : model.arrays) {
      for (StateTensor& tensor : array.tensors) {
        if (tensor.of_draft && !tensor.first) continue;
        const auto size = static_cast<size_t>(tensor.whole_bytes());
        const std::span<std::byte> to = tensor.of_draft ? more(model, size) : cut_off(room, size);
        read(draft, tensor, to);
        tensor.bytes = DeviceBytes(to);
        tensor.first.reset();
      }
    }
  }
  draft.parts.reset();
}

}  // namespace rl
