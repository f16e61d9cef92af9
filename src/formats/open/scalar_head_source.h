// Reads a language model as a decoder with a scalar head: its own head is left out, and
// score.weight is zero, so that every value is 0 until the head has been trained.
#pragma once
#include <memory>

#include "formats/weight_source.h"

namespace rl {

std::unique_ptr<WeightSource> give_scalar_head(std::unique_ptr<WeightSource> language_model);

}  // namespace rl
