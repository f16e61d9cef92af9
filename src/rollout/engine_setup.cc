// The workspace regions follow each other; the swap space is the last.
#include "rollout/engine_setup.h"

#include <algorithm>
#include <limits>

#include "core/arena.h"
#include "core/checked.h"
#include "core/error.h"
#include "ops/sample_ops.h"
#include "rollout/request_check.h"

namespace rl {
namespace {

constexpr int64_t kHeadRows = 64;  // logits rows computed at a time

EngineWorkspace plan_workspace(const ModelConfig& config, const KvShape& kv, int num_threads,
                               const EngineOptions& options) {
  ArenaPlan plan;
  const uint64_t forward = plan.add_region(
      "forward", ForwardBuffers::bytes(config, kv, options.max_num_batched_tokens, num_threads));
  const uint64_t head =
      plan.add_region("head", HeadBuffers::bytes(config, kv.dtype(), sampled_rows(options), false));
  const uint64_t sampler =
      plan.add_region("sampler", sample_scratch_bytes(config.vocab, num_threads));
  const uint64_t swap = plan.add_region("swap", options.swap_apart ? 0 : swap_bytes(kv, options));
  return {forward, head, sampler, swap, plan.total_bytes()};
}

}  // namespace

uint64_t swap_bytes(const KvShape& kv, const EngineOptions& options) {
  return (CheckedU64(options.swap_blocks) * CheckedU64(kv.block_bytes())).get();
}

int64_t head_rows(const EngineOptions& options) {
  return std::min(kHeadRows, options.max_num_seqs);
}

HeadRows sampled_rows(const EngineOptions& options) {
  HeadRows rows(head_rows(options));
  rows.samples = true;
  return rows;
}

EngineWorkspace plan_workspace(const Model& model, EngineOptions options) {
  options.swap_apart = model.compute().has_own_memory();
  return plan_workspace(model.config(), model.kv_shape(), model.compute().num_threads(), options);
}

int64_t watermark_blocks(const EngineOptions& options) {
  return static_cast<int64_t>(options.kv_watermark * static_cast<double>(options.num_blocks));
}

EngineOptions resolve_options(EngineOptions options, const Model& model, const KvPool& kv) {
  const int64_t longest = std::min(model.config().max_position, model.max_positions());
  check_engine_options(options, longest);
  RL_CHECK(kv.data != nullptr && kv.shape.block_bytes() == model.kv_shape().block_bytes());
  if (options.max_model_len == 0) options.max_model_len = longest;
  if (options.num_blocks == 0) options.num_blocks = kv.num_blocks;
  options.swap_apart = model.compute().has_own_memory();
  if (options.num_blocks != kv.num_blocks ||
      options.num_blocks > std::numeric_limits<int32_t>::max()) {
    throw Error(Code::kOutOfRange, str("the engine is set to ", options.num_blocks,
                                       " KV blocks, but its pool has ", kv.num_blocks))
        .with_key("num_blocks")
        .with_expected("the pool's number, below 2^31");
  }
  return options;
}

uint64_t engine_workspace_bytes(const Model& model, const EngineOptions& options) {
  return plan_workspace(model, options).total;
}

uint64_t engine_workspace_bytes(const ModelConfig& config, const KvShape& kv, int num_threads,
                                const EngineOptions& options) {
  return plan_workspace(config, kv, num_threads, options).total;
}

}  // namespace rl
