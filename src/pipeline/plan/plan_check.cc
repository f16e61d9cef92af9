// What options and a model's sizes make impossible for a use, and the registry cannot check.
#include "core/error.h"
#include "core/violations.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/plan/batch_check.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/planner.h"
#include "pipeline/plan/role_check.h"

namespace rl {
namespace {

// The longest response against the model's own limit; limits in options are the registry's rules.
void check_response_length(const Settings& settings, const TokenOption& option, int64_t longest,
                           Violations& v) {
  const char* const key = option.key;
  const int64_t tokens = option.tokens;
  if (tokens < longest || settings.engine.max_model_len != 0) return;
  v.add(conflict(
            key, "engine.max_model_len",
            str(key, " is ", tokens, " and leaves no room for a prompt: the longest sequence has ",
                longest, " tokens, the model's limit, because engine.max_model_len is 0"))
            .with_expected(str("at most ", longest - 1)));
}

// Checks that the registry cannot make: the model's own limit, and the block size.
void check_engine(const Settings& settings, const ModelConfig& config, const Device& device,
                  int64_t longest, Violations& v) {
  const int64_t batch = settings.engine.max_num_batched_tokens;
  if (!settings.engine.chunked_prefill && longest > batch && settings.engine.max_model_len == 0) {
    v.add(conflict("engine.chunked_prefill", "engine.max_num_batched_tokens",
                   str("engine.chunked_prefill is false, so a whole sequence must fit into one "
                       "forward: engine.max_num_batched_tokens is ",
                       batch, " but the longest sequence has ", longest,
                       " tokens, the model's limit, because engine.max_model_len is 0"))
              .with_expected(str("engine.max_num_batched_tokens of at least ", longest)));
  }
  const uint64_t space = settings.engine.swap_space_bytes;
  if (space == 0) return;
  const Dtype compute = compute_dtype_of(settings, device);
  const KvShape kv = kv_shape(config, compute, kv_format_of(settings, compute));
  const int64_t blocks = swap_blocks_of(settings, kv);
  if (blocks >= 1 && blocks <= kMaxBlocks) return;
  v.add(Error(Code::kOutOfRange, str("engine.swap_space_bytes is ", space, ", which holds ", blocks,
                                     " KV blocks of ", kv.block_bytes(), " bytes"))
            .with_key("engine.swap_space_bytes")
            .with_expected(str("1..", kMaxBlocks, " blocks")));
}

// What only a buffer of a host's own loop reads.
void check_pipeline_buffer(const Settings& settings, Violations& v) {
  if (settings.buffer.policy != BufferPolicy::kFifo) {
    v.add(conflict("buffer.policy", "pipeline.mode",
                   "buffer.policy = newest has no effect in a pipeline: each of its steps takes "
                   "the groups that were drawn first")
              .with_expected("fifo"));
  }
  if (settings.buffer.max_staleness >= 0) {
    v.add(conflict("buffer.max_staleness", "pipeline.mode",
                   str("buffer.max_staleness is ", settings.buffer.max_staleness,
                       ", which has no effect in a pipeline: there pipeline.max_staleness bounds "
                       "the age of samples"))
              .with_expected("-1"));
  }
  const bool alone = settings.pipeline.role == PipelineRole::kBoth;
  if (alone && !settings.buffer.store_path.empty()) {
    v.add(conflict("buffer.store_path", "pipeline.mode",
                   str("buffer.store_path is ", settings.buffer.store_path,
                       ", which has no effect in a pipeline of pipeline.role = both: it trains on "
                       "what it generates"))
              .with_expected("empty"));
  }
  if (alone && settings.buffer.store_lease_ns != 0) {
    v.add(conflict("buffer.store_lease_ns", "pipeline.role",
                   str("buffer.store_lease_ns is ", settings.buffer.store_lease_ns,
                       ", which has no effect in a pipeline of pipeline.role = both: it takes from "
                       "no store"))
              .with_expected("0"));
  }
  if (!settings.buffer.spill_path.empty()) {
    v.add(conflict("buffer.spill_path", "pipeline.mode",
                   str("buffer.spill_path is ", settings.buffer.spill_path,
                       ", which has no effect in a pipeline: its checkpoints and queue_size bound "
                       "what waits"))
              .with_expected("empty"));
  }
}

}  // namespace

std::vector<Error> plan_violations(const Settings& settings, const ModelConfig& config, PlanUse use,
                                   const Device& device) {
  const bool engine = generates_samples(settings, use);
  const bool trainer = trains(settings, use);
  const bool by_hand = use == PlanUse::kGenerate || use == PlanUse::kParts;
  Violations v;
  v.collect([&] { with_split(config, tensor_split_from(settings, 0)); });
  v.collect([&] { with_stage(config, stage_cut_from(settings), 0); });
  if (by_hand && config.scalar_head) {
    v.add(Error(Code::kConflict,
                "algo.objective = reward_model opens the model with a scalar head, which cannot "
                "generate")
              .with_key("algo.objective")
              .with_expected("another objective"));
  }
  if (use == PlanUse::kPipeline &&
      settings.engine.scheduling_policy != EngineSchedulingPolicy::kFcfs) {
    v.add(conflict("engine.scheduling_policy", "pipeline.mode",
                   "engine.scheduling_policy = priority has no effect in a pipeline: all its "
                   "requests have the same priority")
              .with_expected("fcfs"));
  }
  if (use == PlanUse::kPipeline) check_pipeline_buffer(settings, v);
  if (use == PlanUse::kPipeline) check_role(settings, v);
  if (use == PlanUse::kPipeline && settings.sampling.seed >= 0) {
    v.add(conflict("sampling.seed", "runtime.seed",
                   str("sampling.seed is ", settings.sampling.seed,
                       ", but then every prompt of a pipeline would be sampled with the same "
                       "random numbers; a pipeline uses runtime.seed"))
              .with_expected("-1"));
  }
  const bool ahead = generates_ahead(settings);
  if (use == PlanUse::kPipeline && !ahead && settings.model.compute_copies > 1) {
    v.add(conflict("model.compute_copies", "pipeline.mode",
                   str("model.compute_copies is ", settings.model.compute_copies,
                       ", but a run with pipeline.mode sync never generates while it trains"))
              .with_expected("1"));
  }
  if (use == PlanUse::kPipeline && ahead && settings.engine.keep_kv_on_publish &&
      !settings.pipeline.partial_rollout) {
    v.add(conflict("engine.keep_kv_on_publish", "pipeline.partial_rollout",
                   "engine.keep_kv_on_publish = true has no effect in a pipeline that publishes "
                   "when no sample is under way: pipeline.partial_rollout is false")
              .with_expected("false"));
  }
  if (use == PlanUse::kPipeline) v.collect([&] { checkpoint_contents_from(settings); });
  if (trainer)
    v.collect([&] { trainable_tensors(trainable_from(settings), expected_tensors(config)); });
  if (trainer) check_recompute(settings, config.layers, v);
  if (trainer) check_context(settings, config, settings.parallel.reduction_parts, "model.path", v);
  v.collect([&] {
    const int64_t longest = effective_model_len(settings, config.max_position);
    const TokenOption response{"sampling.max_new_tokens", settings.sampling.max_new_tokens},
        eval{"eval.max_new_tokens", settings.eval.max_new_tokens};
    if (engine) check_engine(settings, config, device, longest, v);
    if (engine) check_response_length(settings, response, longest, v);
    if (engine && use == PlanUse::kPipeline) check_response_length(settings, eval, longest, v);
    if (trainer || use == PlanUse::kForward)
      check_batches(settings, longest, use == PlanUse::kPipeline, v);
  });
  return v.errors();
}

}  // namespace rl
