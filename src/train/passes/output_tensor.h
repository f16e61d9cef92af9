// Tensors for outputs that a host receives.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "model/model.h"

namespace rl {

// Its memory comes from where the model's arenas get theirs.
OwnedTensor make_output(const Model& model, ElementType type, std::vector<int64_t> shape);

}  // namespace rl
