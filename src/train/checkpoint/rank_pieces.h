// The tensors of a checkpoint of ranks that divide a model (ModelConfig::split): each has pieces of
// them, and the file those of all, as one rank with all parts writes it. Stages have whole tensors,
// and the file those of all.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/ranks/stage_ranks.h"
#include "model/ranks/tensor_ranks.h"
#include "train/checkpoint/checkpoint_draft.h"

namespace rl {

// Adds the pieces of the other ranks to the arrays, and to the mark of what is frozen; the ranks
// call it together.
void add_pieces_of_ranks(const TensorRanks& ranks, ModelDraft& draft);

// Adds the tensors of the other stages of the layout's model to those of the first one, which
// writes them; the stages call it together. Tensors are in fp32.
void add_tensors_of_stages(const StageRanks& stages, const WeightLayout& layout, ModelDraft& draft);

// How many tensors the file of an array has of which a rank with this layout reads these.
size_t num_stored(const TensorList& own, const WeightLayout& layout);
// The same of names, for ranks that have pieces.
size_t num_stored(std::span<const std::string> own, int64_t ranks);

}  // namespace rl
