#include "model/ranks/master_ranks.h"

namespace rl {

void MasterRanks::gather(std::span<std::byte> bytes, const Pieces& pieces,
                         MemorySpace space) const {
  if (size() == 1) return;
  Values values = values_of(bytes);
  values.space = space;
  group_->count_as(TrafficUse::kParameters);
  group_->all_gather(values, pieces);
}

void MasterRanks::give(std::span<const std::byte> bytes) const {
  if (size() == 1 || bytes.empty()) return;
  group_->count_as(TrafficUse::kStates);
  group_->send(const_values_of(bytes), 0);
}

void MasterRanks::take(std::span<std::byte> bytes, int from) const {
  if (size() == 1 || bytes.empty()) return;
  group_->count_as(TrafficUse::kStates);
  group_->receive(values_of(bytes), from);
}

}  // namespace rl
