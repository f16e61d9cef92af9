// Devices only bind; how a matrix is packed is theirs.
#include "ops/packed_matrix.h"

#include "core/error.h"

namespace rl {

void PackedMatrix::bind(const PackedShape& shape, std::byte* data) {
  RL_CHECK(data_ == nullptr || data_ == data);
  shape_ = shape;
  data_ = data;
}

}  // namespace rl
