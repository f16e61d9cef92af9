// The tensors of a checkpoint of ranks that divide a model (ModelConfig::split): each has pieces of
// them, and the file those of all, as one rank with all parts writes it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/tensor_ranks.h"
#include "train/checkpoint/checkpoint_draft.h"

namespace rl {

// Adds the pieces of the other ranks to the arrays, and to the mark of what is frozen; the ranks
// call it together.
void add_pieces_of_ranks(const TensorRanks& ranks, const TensorSplit& split, ModelDraft& draft);

// How many tensors the file of an array has of which this rank reads these.
size_t num_stored(const TensorList& own, int64_t ranks);
size_t num_stored(std::span<const std::string> own, int64_t ranks);

}  // namespace rl
