// The ranks that divide one model (ModelConfig::split), and how what their parts
// compute is added. A sum of all parts is ((part 0 + part 1) + part 2) + ..., in fp32, wherever the
// parts are: so its bits do not depend on the number of ranks.
//
// Ranks call the same functions in the same order (comm/group.h); for one rank they only add.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/group.h"
#include "formats/model_config.h"

namespace rl {

class Compute;

// An array of each part, one after the other in memory of the device. With a rank for each part
// there is room for one.
class PartSums {
 public:
  static int64_t slots(const TensorSplit& split) {
    const bool alone = split.divides() && split.count == 1;
    return alone ? 1 : split.parts;
  }
  PartSums(float* data, const TensorSplit& split, int64_t floats)
      : data_(data), split_(split), floats_(floats) {}

  // Of one of the parts that this rank has.
  float* part(int64_t own) const {
    return data_ + (slots(split_) == 1 ? 0 : split_.first + own) * floats_;
  }
  float* all() const { return data_; }  // where the sum is afterwards
  const TensorSplit& split() const { return split_; }
  int64_t floats() const { return floats_; }

 private:
  float* data_;
  const TensorSplit& split_;
  int64_t floats_;
};

class TensorRanks {
 public:
  TensorRanks() = default;                                      // one rank
  explicit TensorRanks(comm::Group& group) : group_(&group) {}  // which outlives it
  int rank() const { return group_ != nullptr ? group_->rank() : 0; }
  int size() const { return group_ != nullptr ? group_->size() : 1; }

  // Adds the arrays of all parts of all ranks, and returns the sum.
  const float* sum(Compute& compute, const PartSums& parts) const;
  // Each rank has a piece of the bytes, all alike; afterwards every one has all pieces.
  void gather_bytes(std::span<std::byte> pieces) const;
  // The same with pieces of any sizes, which all ranks know.
  void gather_bytes(std::span<std::byte> all, const Pieces& pieces,
                    MemorySpace space = MemorySpace::kHost) const;
  // The same of packed weights.
  void gather_weights(std::span<std::byte> all, const Pieces& pieces, MemorySpace space) const;
  // Afterwards all ranks have the bytes of the first one.
  void broadcast_bytes(std::span<std::byte> bytes) const;
  // A value of each part that this rank has; returns those of all parts.
  std::vector<double> gather(const std::vector<double>& own) const;
  // The text of each rank.
  std::vector<std::string> gather_texts(const std::string& own) const;
  // Words of 32 bits, each of which is 0 on all ranks but one; afterwards all ranks have them all.
  void merge_bytes(std::span<std::byte> words, MemorySpace space = MemorySpace::kHost) const;
  template <typename T>
  void merge(std::span<T> values, MemorySpace space = MemorySpace::kHost) const {
    static_assert(sizeof(T) % sizeof(int32_t) == 0 && alignof(T) == alignof(int32_t));
    merge_bytes(std::as_writable_bytes(values), space);
  }
  // Afterwards this rank's piece is the sum over the ranks, in their order.
  void reduce_scatter(const Values& values, const Pieces& pieces) const;
  // Piece r of what goes out comes to rank r.
  void exchange(const ConstDividedValues& out, const DividedValues& in) const;

 private:
  comm::Group* group_ = nullptr;
};

}  // namespace rl
