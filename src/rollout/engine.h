// The rollout engine: continuous batching over a paged KV pool with reference-counted blocks.
//
// step() is schedule -> forward -> sample -> finish, one forward at a time on the calling thread.
// Invariants:
// 1. No schedule changes a sample: logits depend on a row's own prefix and weights (N1), and
//    tokens are sampled with Philox keyed by (seed, purpose, ordinal, slot, position) (N5).
// 2. Every block's reference count equals the number of running sequences that list it; all return
//    to zero when idle.
// 3. A request is validated whole at submit: an error leaves the engine untouched.
// 4. When blocks run out, the running sequence of lowest priority is preempted; see
//    rollout/scheduler.h.
// One owner, one thread. The model may be published between two steps, and with two compute copies
// at any time; a step pins the version it began with. Running samples continue under the new
// version from their next token, with their keys and values recomputed, or kept
// (EngineOptions::keep_kv).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algo/sampling/sampling.h"
#include "core/function_ref.h"
#include "core/trace.h"
#include "data/sample.h"
#include "model/head.h"
#include "model/transformer.h"
#include "rollout/engine_stats.h"
#include "rollout/lane_rules.h"

namespace rl {

class Error;
class Tokenizer;

// Which sequence goes first: the earliest submission, or by priority and number of turns.
enum class SchedulingPolicy : uint8_t { kFcfs, kPriority };

struct EngineOptions {
  int64_t max_num_seqs = 64;  // running samples
  // Rows per forward, decode rows plus prefill chunks; at least max_num_seqs.
  int64_t max_num_batched_tokens = 1024;
  int64_t prefill_chunk = 0;    // rows of one prompt per step; 0: whatever the batch has room for
  int64_t max_model_len = 0;    // longest prompt + generation admitted; 0: the model's maximum
  int64_t num_blocks = 0;       // KV blocks used; 0: all of the given pool
  bool chunked_prefill = true;  // false: needs max_num_batched_tokens >= max_model_len
  bool prefix_caching = true;   // share KV by content, within a group too
  int64_t swap_blocks = 0;      // blocks of swap space for preempted sequences; 0: KV is recomputed
  // The swap space is an arena of the engine's own, in the host's memory, and no part of the
  // workspace. Set by the engine if the device has memory of its own.
  bool swap_apart = false;
  double kv_watermark = 0.01;  // fraction of the blocks that admissions leave free, [0, 1)
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  // true: samples under way keep the keys and values of older weights; a token sampled from them
  // is Sample::mixed_kv. Prefixes are never shared between versions.
  bool keep_kv = false;
  // interrupt() spares samples that were aborted this many times; 0: it spares none.
  int64_t max_aborts = 0;
  int64_t stats_interval_ns = 0;  // length of the intervals of take_interval(); 0: none
  uint32_t trace_lane = 0;        // of the spans engine.prefill and engine.decode
  LaneRules lanes = {};           // of samples that are under way; see sample_lanes.h
  int64_t number = 0;             // among the engines of a run; names the lanes of slot_lanes.h
};

struct Request {
  std::vector<int32_t> prompt;
  // Continues a sample instead of starting one (prompt is empty, num_samples 1): one that was
  // aborted, or to which an environment's tokens were appended. It is copied, not changed.
  std::shared_ptr<const Sample> resume;
  SamplingParams sampling;     // temperature 0 is greedy
  int64_t max_new_tokens = 0;  // counted from here on
  // Tokens of a response before which no stop id is sampled and no stop string ends it. A
  // response, here and for the penalties, is what was sampled since the prompt or an environment's
  // last token.
  int64_t min_new_tokens = 0;
  int64_t num_samples = 1;
  // A higher priority overtakes a bounded number of earlier requests. Values other than 0 need
  // SchedulingPolicy::kPriority.
  int64_t priority = 0;
  std::vector<int32_t> stop_token_ids;  // in addition to the model's eos ids
  bool ignore_eos = false;
  bool prompt_logprobs = false;  // the samples get Sample::prompt_logprobs
  // The tokens that complete a stop string stay in the sample; the host cuts the text.
  std::vector<std::string> stop_strings;
  // Keys of the random numbers and of the resulting samples.
  uint64_t seed = 0;
  int64_t own_seed = -1;  // >= 0: random numbers are keyed by it instead of seed and ordinal
  uint64_t ordinal = 0;
  uint32_t attempt = 0;
  Purpose purpose = Purpose::kTrain;
  bool bare = false;  // outside a run: random numbers are keyed by RngPurpose::kRequest
  // Sample i has slot first_slot + i and id first_sample_id + i, so that one member of a group can
  // be generated alone.
  uint32_t first_slot = 0;
  uint64_t first_sample_id = 0;
  std::string tag;  // of its samples; a resumed one keeps its own
};

// Arena bytes an engine needs in addition to the KV pool.
uint64_t engine_workspace_bytes(const Model& model, const EngineOptions& options);
// The same, before the model exists.
uint64_t engine_workspace_bytes(const ModelConfig& config, const KvShape& kv, int num_threads,
                                const EngineOptions& options);

class Engine {
 public:
  // kv and workspace bytes are the caller's, in memory of the device, and outlive the engine;
  // workspace is 64-byte aligned.
  // tokenizer may be null when no stop strings are used, and so may tracer; times come from the
  // tracer's clock, or else from the real one.
  Engine(const Model& model, const EngineOptions& options, const KvPool& kv, std::byte* workspace,
         const Tokenizer* tokenizer, const Tracer* tracer);
  ~Engine();

  // Queues a request and returns its number. Errors name the field, its range and the value seen; a
  // request whose prompt + max_new_tokens exceeds max_model_len, or can never fit the pool, is
  // refused with both numbers.
  uint64_t submit(const Request& request);
  // One forward, if there is anything to do; returns false when idle.
  bool step();
  // Samples finished since the last call, in order of completion.
  std::vector<SamplePtr> take_finished();
  // Appends them; if it throws, none has left the engine.
  void take_finished(std::vector<SamplePtr>& into);
  // One Error(kNonFinite) per sample that ended because its logits were not finite, naming
  // ordinal, slot and position. Such a sample is returned as kAborted without generated tokens;
  // others continue.
  std::vector<Error> take_errors();
  // Ends one request, or all: unfinished samples are returned by take_finished with
  // FinishReason::kAborted, the tokens they had, and num_aborts incremented. False: no unfinished
  // request has this number.
  bool abort(uint64_t number);
  void abort_all();
  // After this the bytes of pool and workspace may be used for something else until the next step,
  // which starts without keys and values: the prefix cache is empty, and running samples wait to
  // be recomputed.
  void forget_kv();
  // Ends every request except those with a sample that max_aborts protects; returns the number of
  // samples that continue.
  int64_t abort_unspared();
  // The number of the request that has an unfinished sample of this id.
  std::optional<uint64_t> find(uint64_t sample_id) const;
  // While admissions are off, samples that never ran wait. Initially they are on.
  void set_admitting(bool admitting);
  // True if no sequence can run: idle, or only samples that never ran remain while admissions are
  // off.
  bool nothing_runnable() const;
  bool idle() const;
  // Calls visit for every sample that runs, with the tokens it has so far.
  void visit_running(FunctionRef<void(const Sample&)> visit) const;
  int64_t num_unfinished() const;  // samples
  int64_t num_begun() const;       // those of them that have run
  // Those of them that have tokens of more versions than this.
  int64_t num_across(int64_t versions) const;
  // See SampleLanes.
  void free_lanes(FunctionRef<bool(uint64_t sample_id)> may_be);
  int64_t lanes_taken() const;
  int64_t lanes_held() const;
  // Length of the cached prefix that this request would hit now.
  int64_t cached_prefix(const Request& request) const;
  EngineStats stats() const;
  // Restarts stats().blocks_peak: the most blocks in use since this call.
  void restart_peak();
  // Counts of the last whole interval of stats_interval_ns (see engine_meter.h), once. Called
  // after every step, it misses none.
  std::optional<EngineStats> take_interval();
  // The same without consuming it; nothing before the first interval ends.
  std::optional<EngineStats> last_interval() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl
