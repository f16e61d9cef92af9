// How the layers of a model are divided among the stages of a pipeline-parallel run: the first and
// the last stage have as many as they are given, and the others equal numbers of the rest.
#pragma once
#include <cstdint>

#include "formats/model_config.h"

namespace rl {

struct StageCut {
  int64_t stages = 1;
  // Layers of the first and of the last stage; 0: as many as the others.
  int64_t first_layers = 0, last_layers = 0;

  bool divides() const { return stages > 1; }
};

// The stage of this number of an undivided decoder; with one stage, the decoder.
// Error(kIncompatible) if the layers cannot be divided so, with a number of layers that can.
ModelConfig with_stage(ModelConfig config, const StageCut& cut, int64_t index);

}  // namespace rl
