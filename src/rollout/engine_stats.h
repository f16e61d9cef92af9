// What an engine counts: levels, counts over a period, and maxima of some of them. The period is
// all time since the engine was built, or one interval of EngineOptions::stats_interval_ns.
#pragma once
#include <cstdint>

namespace rl {

struct EngineStats {
  // At the end of the period.
  int64_t running = 0, waiting = 0;  // samples
  int64_t started = 0;               // of these, samples that run or ran: a drain waits for them
  int64_t blocks_in_use = 0, blocks_total = 0;
  int64_t blocks_peak = 0;  // most in use in a step
  // Time in which there was work, and what was done in it.
  int64_t busy_ns = 0;
  int64_t forwards = 0;
  int64_t prefill_tokens = 0, decode_tokens = 0;  // rows computed, by kind
  int64_t prefill_ns = 0, decode_ns = 0;  // wall time of steps that prefilled, of pure decode steps
  // Of both, in the forward and the head; the rest is scheduling and sampling.
  int64_t model_ns = 0;
  int64_t generated_tokens = 0;
  // Sampled tokens that attended to keys and values of older weights.
  int64_t mixed_kv_tokens = 0;
  // Samples that ran for the first time, and those that ended.
  int64_t admitted = 0, finished = 0;
  int64_t aborted = 0;    // of finished: by the host, or by logits that were not finite
  int64_t nonfinite = 0;  // of aborted: the latter
  // From submission to the first run, over `admitted` samples.
  int64_t queue_ns = 0, longest_queue_ns = 0;
  // From submission to the first token, over `first_tokens` samples.
  int64_t first_tokens = 0, first_token_ns = 0, longest_first_token_ns = 0;
  int64_t preemptions = 0, swapped_blocks = 0;
  // Tokens of admitted sequences, and how many of them the prefix cache had.
  int64_t looked_up_tokens = 0, cached_tokens = 0;
};

// Stats of several engines combined: maxima of times take the larger value, all else is summed.
EngineStats& operator+=(EngineStats& total, const EngineStats& one);

// `part` / `whole`; 0 when whole is 0.
inline double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace rl
