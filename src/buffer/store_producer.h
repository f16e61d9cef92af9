// Hands complete groups of a buffer to a store, for another process to train on.
#pragma once
#include "buffer/experience_buffer.h"
#include "buffer/experience_store.h"

namespace rl {

// The buffer keeps a group that the store refuses. Errors of the store; kInvalidArgument for a
// group whose samples are of several instances.
void deliver_groups(ExperienceBuffer& buffer, ExperienceStore& store);

}  // namespace rl
