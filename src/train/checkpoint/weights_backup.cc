// Tensors lie one after the other, in the order of the models.
#include "train/checkpoint/weights_backup.h"

#include <algorithm>

#include "core/error.h"

namespace rl {

WeightsBackup::WeightsBackup(uint64_t bytes, ArenaLedger* ledger)
    : arena_("weights backup", bytes, Touch::kLater, ledger) {}

void WeightsBackup::take(std::vector<Trained> models) {
  models_.clear();  // half a copy is none
  std::span<std::byte> room = arena_.span();
  for (const Trained& model : models) {
    for (const StateTensor& tensor : model.tensors) {
      const uint64_t size = tensor.bytes.size();
      RL_CHECK(size <= room.size());
      tensor.bytes.read(room.first(size));
      room = room.subspan(size);
    }
  }
  models_ = std::move(models);
}

std::vector<TrainerCounters> WeightsBackup::restore() const {
  RL_CHECK(taken());
  std::span<const std::byte> from = arena_.span();
  std::vector<TrainerCounters> counters;
  for (const Trained& model : models_) {
    for (const StateTensor& tensor : model.tensors) {
      tensor.bytes.fill([&](std::span<std::byte> part) {
        std::ranges::copy(from.first(part.size()), part.begin());
        from = from.subspan(part.size());
      });
    }
    counters.push_back(model.counters);
  }
  return counters;
}

}  // namespace rl
