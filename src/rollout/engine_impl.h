// Private state of an engine, shared by engine.cc, which computes a step, and engine_calls.cc,
// which serves the owner's calls. Members are declared in the order in which they are built.
#pragma once
#include <vector>

#include "core/arena.h"
#include "core/error.h"
#include "ops/sample_ops.h"
#include "rollout/batch_builder.h"
#include "rollout/engine.h"
#include "rollout/engine_meter.h"
#include "rollout/engine_setup.h"
#include "rollout/scheduler.h"
#include "rollout/slot_lanes.h"

namespace rl {

struct Engine::Impl {
  // Where logits were not finite.
  struct NonFinite {
    uint64_t ordinal;
    uint32_t slot;
    size_t position;
  };

  Impl(const Model& model, const EngineOptions& given, const KvPool& kv, std::byte* workspace,
       const Tokenizer* tokenizer, const Tracer* tracer)
      : model(model),
        options(resolve_options(given, model, kv)),
        kv(kv),
        plan(plan_workspace(model, options)),
        forward_buffers(model.config(), kv.shape, options.max_num_batched_tokens,
                        model.compute().num_threads(), workspace + plan.forward),
        head(model.config(), model.compute_dtype(), sampled_rows(options), false,
             workspace + plan.head),
        swap_arena("swap space", options.swap_apart ? swap_bytes(kv.shape, options) : 0,
                   Touch::kLater, model.compute().ledger()),
        swap_pool{kv.shape, options.swap_apart ? swap_arena.data() : workspace + plan.swap,
                  options.swap_blocks},
        blocks(kv.num_blocks, model.block_size(), options.prefix_caching),
        swap(options.swap_blocks),
        scheduler({options.max_num_seqs, options.max_num_batched_tokens, options.prefill_chunk,
                   options.chunked_prefill, watermark_blocks(options), options.lanes},
                  blocks, swap),
        weights(&model.published()),
        builder(options.max_num_batched_tokens, options.max_num_seqs),
        sampling_scratch(workspace + plan.sampler),
        tokenizer(tokenizer),
        tracer(tracer),
        clock(tracer != nullptr ? tracer->clock() : real_clock()),
        meter(options.stats_interval_ns),
        lanes(tracer, options.number) {
    RL_CHECK(workspace != nullptr);
    version = weights->version();
    release = weights->release();
    sample_rows.reserve(static_cast<size_t>(options.max_num_seqs));
    choices.reserve(static_cast<size_t>(options.max_num_seqs));
    scales.reserve(static_cast<size_t>(head.max_rows));
    prompt_rows.reserve(static_cast<size_t>(head.max_rows));
  }

  uint64_t submit(const Request& request);
  bool step();
  void take_version();
  void run_forward(const StepSchedule& schedule);
  void move_blocks(const StepSchedule& schedule);
  void sample_tokens();
  void sample_chunk(size_t first_row, size_t rows, size_t first_target, size_t count);
  void measure_prompts(const StepSchedule& schedule);
  void measure_prompt(const ScheduledRows& rows, int64_t first_row);
  SampleRow sample_row(const SampleTarget& target, int64_t row) const;
  void make_room_for_results();
  void apply();
  void append(const SampleTarget& target, const TokenChoice& choice, int64_t now_ns);
  void prime_stop(Sequence& sequence);
  bool match_stop(Sequence& sequence, int32_t id);
  FinishReason finish_reason(Sequence& sequence);
  void end(Sequence& sequence, FinishReason reason, int64_t now_ns);
  void end_nonfinite(Sequence& sequence, int64_t now_ns);
  void abort(ActiveRequest& active, int64_t now_ns);
  void note_admitted(int64_t now_ns);
  void settle();

  const Model& model;
  const EngineOptions options;
  const KvPool kv;
  const EngineWorkspace plan;
  ForwardBuffers forward_buffers;
  HeadBuffers head;
  const Arena swap_arena;  // in the host's memory, if the device has memory of its own
  const KvPool swap_pool;
  KvBlocks blocks;
  SwapSpace swap;
  Scheduler scheduler;
  uint64_t next_number = 0;
  const ComputeCopy* weights;  // that the step under way has pinned; stale between two steps
  uint64_t version = 0;        // that blocks were computed with
  uint64_t release = 0;        // of the same weights
  BatchBuilder builder;
  std::byte* const sampling_scratch;
  const Tokenizer* tokenizer;
  const Tracer* tracer;
  const Clock& clock;
  EngineMeter meter;
  SlotLanes lanes;
  std::vector<SampleRow> sample_rows;  // that are in the head
  std::vector<TokenChoice> choices;    // of builder.sample_targets()
  std::vector<float> scales;           // of the rows in the head
  std::vector<int32_t> prompt_rows;    // whose tokens are measured
  std::vector<SamplePtr> finished;
  std::vector<NonFinite> nonfinite;
};

}  // namespace rl
