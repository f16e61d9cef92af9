// The accounting of a pipeline.
#include "abi/arguments.h"
#include "abi/guard.h"

using namespace rl;
using namespace rl::abi;

namespace {

void fill(rl_pipeline_stats& out, const PipelineStatus& status) {
  const auto count = [](int64_t v) { return static_cast<uint64_t>(v); };
  const LedgerCounts& ledger = status.ledger;
  out.state = static_cast<int32_t>(status.state);
  out.step = status.step;
  out.version = status.version;
  out.unscored = count(status.unscored);
  out.unreplied = count(status.unreplied);
  out.attempts_started = count(ledger.attempts_started);
  out.attempts_trained = count(ledger.attempts_trained);
  out.attempts_discarded = count(ledger.discarded());
  out.attempts_in_flight = count(ledger.attempts_in_flight);
  out.tokens_generated = count(ledger.tokens_generated);
  out.tokens_trained = count(ledger.tokens_trained);
  out.tokens_discarded = count(ledger.tokens_discarded);
  out.tokens_in_flight = count(ledger.tokens_in_flight);
  out.prompts_drawn = count(ledger.prompts_drawn);
  out.prompts_trained = count(ledger.prompts_trained);
  out.prompts_dropped = count(ledger.dropped());
  out.prompts_open = count(ledger.prompts_open);
  out.late_scores = count(ledger.late_scores);
  out.duplicate_scores = count(ledger.duplicate_scores);
  out.unknown_scores = count(ledger.unknown_scores);
  out.nonfinite_scores = count(ledger.nonfinite_scores);
  out.feed_size = count(status.feed_size);
  out.feed_capacity = count(status.feed_capacity);
}

}  // namespace

extern "C" {

void rl_pipeline_stats_init(rl_pipeline_stats* stats, size_t size) {
  init_struct(stats, size, sizeof(*stats));
}

rl_status rl_pipeline_get_stats(const rl_pipeline* pipeline, rl_pipeline_stats* stats,
                                rl_error** err) {
  clear_result(stats);
  return guarded(err, pipeline, [&] {
    const auto source = use(pipeline, "pipeline");
    rl_pipeline_stats& out = result_struct(stats, "stats");
    fill(out, source->status());
  });
}

}  // extern "C"
