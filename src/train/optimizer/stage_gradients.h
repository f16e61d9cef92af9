// The gradients of a model whose stages several ranks have, in fp32. One rank would have them one
// after the other, those of stage 0 first; places here are those of that array.
#pragma once
#include "model/stage_ranks.h"
#include "model/weights.h"
#include "ops/compute.h"

namespace rl {

// Afterwards the first stage has the gradient of the embedding from the last one, whose head is a
// copy of it. Nothing if there is no copy. The stages call it together.
void share_embedding_gradient(const StageRanks& stages, const WeightLayout& layout,
                              float* gradients);

// The norm of all of them, with the bits of one rank: chunk after chunk of kOptimizerChunk
// elements, of which a copied embedding counts once. The stages call it together.
double norm_over_stages(const StageRanks& stages, const WeightLayout& layout, Compute& compute,
                        const float* gradients);

}  // namespace rl
