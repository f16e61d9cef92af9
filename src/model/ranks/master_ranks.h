// The ranks that divide the masters of a model (model/masters.h), and what they tell each other: of
// each version the packed matrices, and for a save the masters.
//
// Ranks call the same functions in the same order (comm/group.h); for one rank they do nothing.
#pragma once
#include <cstddef>
#include <span>

#include "comm/group.h"

namespace rl {

class MasterRanks {
 public:
  MasterRanks() = default;  // one rank
  // group outlives it. first: of several groups, which all have the same masters, the one whose
  // masters are saved.
  explicit MasterRanks(comm::Group& group, bool first = true) : group_(&group), first_(first) {}
  int rank() const { return group_ != nullptr ? group_->rank() : 0; }
  int size() const { return group_ != nullptr ? group_->size() : 1; }
  bool of_first_group() const { return first_; }

  // Each rank gives the others its piece of the bytes, which are in this memory.
  void gather(std::span<std::byte> bytes, const Pieces& pieces, MemorySpace space) const;
  // Bytes of one rank, for the first one, in the memory of the host.
  void give(std::span<const std::byte> bytes) const;
  void take(std::span<std::byte> bytes, int from) const;

 private:
  comm::Group* group_ = nullptr;
  bool first_ = true;
};

}  // namespace rl
