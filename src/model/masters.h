// The fp32 masters, addressed by their places in the layout. Ranks that train on parts of a batch
// may divide those of the layers' matrices (parallel.zero_stage 3): each matrix, as products read
// it, belongs to one of them, and the others have no memory for it. What is no such matrix, or is
// not trained as a whole, all ranks have.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ops/device_floats.h"

namespace rl {

// A matrix and the rank that has its masters.
struct OwnedMatrix {
  int64_t master = 0, size = 0;  // place in the layout, in floats
  int owner = 0;
  bool operator==(const OwnedMatrix&) const = default;
};

// Which masters a rank has, and where: those that it lacks leave no gap in its memory.
class MasterCut {
 public:
  MasterCut() = default;  // a rank has all
  // matrices: in the order of the layout. rank: this one of `ranks`.
  MasterCut(std::vector<OwnedMatrix> matrices, int rank, int ranks);

  bool divides() const { return !matrices_.empty(); }
  int ranks() const { return ranks_; }
  // The rank with the masters of the matrix that this place is in; -1: all ranks have the place.
  int owner(int64_t place) const;
  bool has(int64_t place) const { return owner(place) < 0 || owner(place) == rank_; }
  // The place in memory of one that this rank has.
  int64_t in_memory(int64_t place) const;
  // Floats that a rank reserves, of a layout of so many: as many as the one which has most.
  int64_t floats(int64_t total) const;

  bool operator==(const MasterCut&) const = default;

 private:
  struct Gap {
    int64_t begin, end;
    int64_t before;  // floats of the gaps up to its end
    bool operator==(const Gap&) const = default;
  };
  std::vector<Gap> gaps_of(int rank) const;

  std::vector<OwnedMatrix> matrices_;
  int rank_ = 0, ranks_ = 1;
  std::vector<Gap> gaps_;
};

// The values. What follows one another in the layout does so here, between two gaps.
class MasterFloats {
 public:
  MasterFloats() = default;
  // All of them.
  MasterFloats(const DeviceFloats& all) : memory_(all) {}
  MasterFloats(std::vector<float>& all) : memory_(all) {}
  // cut outlives it.
  MasterFloats(const DeviceFloats& memory, const MasterCut& cut)
      : memory_(memory), cut_(cut.divides() ? &cut : nullptr) {}

  // Returns once all masters before a place have come, of some that come from other ranks.
  using Await = std::function<void(int64_t end)>;

  bool empty() const { return memory_.empty(); }
  bool divided() const { return cut_ != nullptr; }
  // Whether it belongs to one rank.
  bool divides(int64_t place) const { return cut_ != nullptr && cut_->owner(place) >= 0; }
  bool has(int64_t place) const { return cut_ == nullptr || cut_->has(place); }
  // In memory of the device; the rank has the place.
  float* at(int64_t place) const { return memory_.data() + in_memory(place); }
  DeviceFloats part(int64_t place, int64_t count) const {
    return memory_.part(in_memory(place), count);
  }

 private:
  int64_t in_memory(int64_t place) const {
    return cut_ == nullptr ? place : cut_->in_memory(place);
  }

  DeviceFloats memory_;
  const MasterCut* cut_ = nullptr;  // null: all
};

}  // namespace rl
