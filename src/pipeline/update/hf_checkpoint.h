// The policy of a checkpoint as a Hugging Face directory (checkpoint.contents).
#pragma once
#include "pipeline/session/loaded_model.h"
#include "train/checkpoint/checkpoint_draft.h"

namespace rl {

// Sets save_model of a draft whose contents have hf_model. The trained parameters are the draft's,
// the frozen ones those of the model, which outlives the draft. Ranks that divide the model call it
// together, and each then holds a copy of all its masters.
void add_hf_model(const LoadedModel& model, CheckpointDraft& draft);

}  // namespace rl
