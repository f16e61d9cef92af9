// The gradients of a model whose stages several ranks have, in fp32. One rank would have those of a
// section of its layout one after the other, those of stage 0 first.
#pragma once
#include <span>
#include <vector>

#include "comm/values.h"
#include "core/function_ref.h"
#include "model/ranks/stage_ranks.h"
#include "model/weights.h"
#include "ops/compute.h"

namespace rl {

// Afterwards the first stage has the gradient of the embedding from the last one, whose head is a
// copy of it. Nothing if there is no copy. The stages call it together.
void share_embedding_gradient(const StageRanks& stages, const WeightLayout& layout,
                              float* gradients);

// What a stage has of a section, copies aside. Places are counted from the beginning of it.
struct StageSection {
  int64_t count;
  // The sums of squares of the chunks of a range, which begin where it does.
  FunctionRef<std::vector<double>(Piece range)> squares;
  FunctionRef<void(Piece range, std::span<float> to)> read;
};

// The sum of squares of a section of all stages, with the bits of one rank: chunk after chunk of
// kOptimizerChunk elements, of which a copied embedding counts once. The stages call it together.
double squares_over_stages(const StageRanks& stages, Compute& compute, const StageSection& section);

}  // namespace rl
