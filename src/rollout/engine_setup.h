// Computes what an engine is built from: its options with the defaults resolved, and the offsets
// of its workspace. Pure functions.
#pragma once
#include <cstdint>

#include "rollout/engine.h"

namespace rl {

// Offsets into the workspace, 64-byte aligned.
struct EngineWorkspace {
  uint64_t forward, head, sampler, swap, total;
};

// Logits rows computed at a time.
int64_t head_rows(const EngineOptions& options);
EngineWorkspace plan_workspace(const Model& model, const EngineOptions& options);
// Blocks that an admission leaves free.
int64_t watermark_blocks(const EngineOptions& options);
// Throws when the options do not fit the model or the pool.
EngineOptions resolve_options(EngineOptions options, const Model& model, const KvPool& kv);

}  // namespace rl
