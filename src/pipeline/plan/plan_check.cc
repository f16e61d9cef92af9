// What options and a model's sizes make impossible for a use, and the registry cannot check.
#include "core/error.h"
#include "core/violations.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/plan/batch_check.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/planner.h"

namespace rl {
namespace {

// The longest response against the model's own limit; limits in options are the registry's rules.
void check_answer(const OptionSet& options, const char* key, int64_t longest, Violations& v) {
  const int64_t tokens = options.get_i64(key);
  if (tokens < longest || options.get_i64("engine.max_model_len") != 0) return;
  v.add(conflict(
            key, "engine.max_model_len",
            str(key, " is ", tokens, " and leaves no room for a prompt: the longest sequence has ",
                longest, " tokens, the model's limit, because engine.max_model_len is 0"))
            .with_expected(str("at most ", longest - 1)));
}

// Checks that the registry cannot make: the model's own limit, and the block size.
void check_engine(const OptionSet& options, const ModelConfig& config, int64_t longest,
                  Violations& v) {
  const int64_t batch = options.get_i64("engine.max_num_batched_tokens");
  if (!options.get_bool("engine.chunked_prefill") && longest > batch &&
      options.get_i64("engine.max_model_len") == 0) {
    v.add(conflict("engine.chunked_prefill", "engine.max_num_batched_tokens",
                   str("engine.chunked_prefill is false, so a whole sequence must fit into one "
                       "forward: engine.max_num_batched_tokens is ",
                       batch, " but the longest sequence has ", longest,
                       " tokens, the model's limit, because engine.max_model_len is 0"))
              .with_expected(str("engine.max_num_batched_tokens of at least ", longest)));
  }
  const uint64_t space = options.get_u64("engine.swap_space_bytes");
  if (space == 0) return;
  const KvShape kv = kv_shape(config, compute_dtype_of(options), kv_format_of(options));
  const int64_t blocks = swap_blocks_of(options, kv);
  if (blocks >= 1 && blocks <= kMostBlocks) return;
  v.add(Error(Code::kOutOfRange, str("engine.swap_space_bytes is ", space, ", which holds ", blocks,
                                     " KV blocks of ", kv.block_bytes(), " bytes"))
            .with_key("engine.swap_space_bytes")
            .with_expected(str("1..", kMostBlocks, " blocks")));
}

}  // namespace

std::vector<Error> plan_violations(const OptionSet& options, const ModelConfig& config,
                                   PlanUse use) {
  const bool engine = draws_samples(options, use);
  const bool trainer = trains(use);
  const bool by_hand = use == PlanUse::kGenerate || use == PlanUse::kParts;
  Violations v;
  if (by_hand && config.scalar_head) {
    v.add(Error(Code::kConflict,
                "algo.objective = reward_model opens the model with a scalar head, which cannot "
                "generate")
              .with_key("algo.objective")
              .with_expected("another objective"));
  }
  if (use == PlanUse::kPipeline && options.get_string("engine.scheduling_policy") != "fcfs") {
    v.add(conflict("engine.scheduling_policy", "pipeline.mode",
                   "engine.scheduling_policy = priority has no effect in a pipeline: all its "
                   "requests have the same priority")
              .with_expected("fcfs"));
  }
  if (use == PlanUse::kPipeline && options.get_i64("sampling.seed") >= 0) {
    v.add(conflict("sampling.seed", "runtime.seed",
                   str("sampling.seed is ", options.get_i64("sampling.seed"),
                       ", but then every prompt of a pipeline would be sampled with the same "
                       "random numbers; a pipeline uses runtime.seed"))
              .with_expected("-1"));
  }
  if (use == PlanUse::kPipeline && options.get_i64("model.compute_copies") > 1) {
    v.add(conflict("model.compute_copies", "pipeline.mode",
                   str("model.compute_copies is ", options.get_i64("model.compute_copies"),
                       ", but a run with pipeline.mode sync never generates while it trains"))
              .with_expected("1"));
  }
  v.collect([&] {
    const int64_t longest = effective_model_len(options, config.max_position);
    if (engine) check_engine(options, config, longest, v);
    if (engine) check_answer(options, "sampling.max_new_tokens", longest, v);
    if (engine && use == PlanUse::kPipeline)
      check_answer(options, "eval.max_new_tokens", longest, v);
    if (trainer) check_batches(options, longest, use == PlanUse::kPipeline, v);
  });
  return v.errors();
}

}  // namespace rl
