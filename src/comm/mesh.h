// The mesh of ranks: each has one index on every axis. Ranks are numbered with the tensor axis
// innermost, then context, data and pipeline, so that the ranks which exchange most are neighbours:
//   rank = ((pipeline * data_size + data) * context_size + context) * tensor_size + tensor
// Pure arithmetic; comm/group.h makes groups of it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rl {

enum class Axis : uint8_t { kTensor = 0, kContext = 1, kData = 2, kPipeline = 3 };
inline constexpr int kNumAxes = 4;

const char* axis_name(Axis axis);

struct MeshSizes {
  int tensor = 1, context = 1, data = 1, pipeline = 1;
};

class Mesh {
 public:
  // Error(kOutOfRange) names an axis of less than one rank, sizes whose product is not num_ranks,
  // and a rank that there is not.
  Mesh(const MeshSizes& sizes, int num_ranks, int rank);

  int rank() const { return rank_; }
  int num_ranks() const { return num_ranks_; }
  int size(Axis axis) const { return sizes_[slot(axis)]; }
  int index(Axis axis) const { return rank_ / stride(axis) % size(axis); }
  // The ranks that differ from this one on the axis alone, itself included, by their index there.
  std::vector<int> ranks(Axis axis) const;

 private:
  static size_t slot(Axis axis) { return static_cast<size_t>(axis); }
  int stride(Axis axis) const;

  std::array<int, kNumAxes> sizes_;
  int num_ranks_, rank_;
};

}  // namespace rl
