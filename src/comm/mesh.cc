#include "comm/mesh.h"

#include "core/checked.h"
#include "core/error.h"

namespace rl {

const char* axis_name(Axis axis) {
  constexpr const char* kNames[] = {"tensor", "context", "data", "pipeline"};
  return kNames[static_cast<size_t>(axis)];
}

Mesh::Mesh(const MeshSizes& sizes, int num_ranks, int rank)
    : sizes_{sizes.tensor, sizes.context, sizes.data, sizes.pipeline},
      num_ranks_(num_ranks),
      rank_(rank) {
  CheckedI64 product(1);
  for (int axis = 0; axis < kNumAxes; ++axis) {
    const int size = sizes_[static_cast<size_t>(axis)];
    if (size < 1) {
      throw Error(Code::kOutOfRange, str("axis ", axis_name(static_cast<Axis>(axis)), " has ", size,
                                         " ranks, at least 1 is needed"));
    }
    product = product * CheckedI64(size);
  }
  if (product.get() != num_ranks) {
    throw Error(Code::kOutOfRange,
                str("a mesh of tensor ", sizes.tensor, ", context ", sizes.context, ", data ",
                    sizes.data, " and pipeline ", sizes.pipeline, " has ", product.get(),
                    " ranks, but there are ", num_ranks));
  }
  if (rank < 0 || rank >= num_ranks) {
    throw Error(Code::kOutOfRange, str("rank is ", rank, ", expected 0..", num_ranks - 1));
  }
}

int Mesh::stride(Axis axis) const {
  int stride = 1;
  for (size_t inner = 0; inner < slot(axis); ++inner) stride *= sizes_[inner];
  return stride;
}

std::vector<int> Mesh::ranks(Axis axis) const {
  const int step = stride(axis), first = rank_ - index(axis) * step;
  std::vector<int> out;
  for (int i = 0; i < size(axis); ++i) out.push_back(first + i * step);
  return out;
}

}  // namespace rl
