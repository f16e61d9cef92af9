// Tensors as files have them, from the pieces that a layout has of them (ModelConfig::split).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "model/model.h"

namespace rl {

// Reads floats of a parameter from its element `first` on.
using PieceReader = FunctionRef<void(const Parameter& piece, int64_t first, std::span<float> out)>;
// Rows of a tensor, all of whose pieces are in the layout.
void read_rows(const WeightLayout& layout, const TensorInfo& tensor, int64_t first_row,
               PieceReader read, std::span<float> out);

// The masters of a model. Tensor-parallel ranks make it together; each then has the pieces of all,
// in memory of the host.
class WholeTensors {
 public:
  explicit WholeTensors(const Model& model);
  void read(const TensorInfo& tensor, int64_t first_row, std::span<float> out) const;

 private:
  const Model& model_;
  const WeightLayout layout_;    // of all parts
  std::vector<float> gathered_;  // empty for one rank
};

}  // namespace rl
