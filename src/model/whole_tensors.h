// Tensors as files have them, from the pieces that a layout has of them (ModelConfig::split), and
// from the stages of a model.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "comm/values.h"
#include "core/function_ref.h"
#include "model/model.h"
#include "model/weights.h"

namespace rl {

// Of a rank with `count` parts of the model, from part `first` on.
ModelConfig with_parts(ModelConfig config, int64_t first, int64_t count);

// Reads floats of a parameter from its element `first` on.
using PieceReader = FunctionRef<void(const Parameter& piece, int64_t first, std::span<float> out)>;
// Rows of a tensor, all of whose pieces are in the layout.
void read_rows(const WeightLayout& layout, const TensorInfo& tensor, int64_t first_row,
               PieceReader read, std::span<float> out);

// The masters of a model. Ranks that divide it or its masters make it together. Tensor-parallel
// ranks then have the pieces of all, and those of the first stage have the layers of all stages, in
// memory of the host; those of the other stages have their own. Of ranks that divide masters the
// first one has what they have, and the others nothing; nor has a later group with the same ones.
class WholeTensors {
 public:
  explicit WholeTensors(const Model& model);
  void read(const TensorInfo& tensor, int64_t first_row, std::span<float> out) const;

 private:
  // Those of a stage.
  struct Masters {
    Masters(const ModelConfig& config, int ranks);

    WeightLayout layout;          // of all parts
    Pieces bounds;                // of what each tensor-parallel rank has
    std::vector<int64_t> places;  // of each parameter of the layout, among all of it
    std::vector<float> values;    // empty: those of the model
  };
  void gather_masters();
  void gather_ranks();
  void gather_stages();
  const Masters& masters_with(const TensorInfo& tensor) const;

  const Model& model_;
  Masters own_;
  std::vector<Masters> later_;  // of the first stage: those of the others
};

}  // namespace rl
