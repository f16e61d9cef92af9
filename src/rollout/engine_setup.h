// Computes what an engine is built from: its options with the defaults resolved, and the offsets
// of its workspace. Pure functions.
#pragma once
#include <cstdint>

#include "model/head.h"
#include "rollout/engine.h"

namespace rl {

// Offsets into the workspace, 64-byte aligned. With EngineOptions::swap_apart the last region is
// empty.
struct EngineWorkspace {
  uint64_t forward, head, sampler, swap, total;
};

// Bytes of the swap space.
uint64_t swap_bytes(const KvShape& kv, const EngineOptions& options);

// Logits rows computed at a time.
int64_t head_rows(const EngineOptions& options);
// The same for the head's buffers.
HeadRows sampled_rows(const EngineOptions& options);
EngineWorkspace plan_workspace(const Model& model, EngineOptions options);
// Blocks that an admission leaves free.
int64_t watermark_blocks(const EngineOptions& options);
// Throws when the options do not fit the model or the pool.
EngineOptions resolve_options(EngineOptions options, const Model& model, const KvPool& kv);

}  // namespace rl
