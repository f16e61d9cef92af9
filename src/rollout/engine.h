// The rollout engine: continuous batching over a paged KV pool with reference-counted blocks.
//
// step() is schedule -> forward -> sample -> finish, one forward at a time on the calling thread. Invariants:
// 1. No schedule changes a sample: logits depend on a row's own prefix and weights (N1), draws are Philox keyed by
//    (seed, purpose, ordinal, slot, position) (N5).
// 2. Every block's reference count equals the number of sequences that list it; all return to zero when idle.
// 3. A request is validated whole at submit: an error leaves the engine untouched.
#pragma once
#include <memory>
#include <vector>

#include "algo/sampling.h"
#include "data/sample.h"
#include "model/head.h"
#include "model/transformer.h"

namespace rl {

class TraceSink;
class Tokenizer;

struct EngineOptions {
  int64_t max_num_seqs = 64;             // running sequences
  int64_t max_num_batched_tokens = 1024; // rows per forward: decode rows plus prefill chunks
  int64_t prefill_chunk = 0;             // rows of one prompt per step; 0: whatever the batch has room for
  int64_t max_model_len = 0;             // longest prompt + generation admitted; 0: the model's maximum
  int64_t num_blocks = 0;                // KV blocks of the pool
};

struct Request {
  std::vector<int32_t> prompt;
  SamplingParams sampling;               // temperature 0 is greedy
  int64_t max_new_tokens = 0;
  int64_t num_samples = 1;               // n: a group shares the prompt's KV
  std::vector<int32_t> stop_token_ids;   // in addition to the model's eos ids, unless ignore_eos
  bool ignore_eos = false;
  std::vector<std::string> stop_strings; // the tokens that complete one stay in the sample; text is cut by the host
  // Keys of the random draws and of the resulting samples.
  uint64_t seed = 0;
  uint64_t ordinal = 0;
  uint32_t attempt = 0;
  Purpose purpose = Purpose::kTrain;
  uint64_t first_sample_id = 0;          // sample of slot i gets first_sample_id + i
};

struct EngineStats {
  int64_t running = 0, waiting = 0, blocks_in_use = 0, blocks_total = 0, preemptions = 0;
  int64_t prefill_tokens = 0, decode_tokens = 0, forwards = 0;
  int64_t prefill_ns = 0, decode_ns = 0;  // wall time of steps that prefilled, and of pure decode steps
};

// Arena bytes an engine needs beside the KV pool.
uint64_t engine_workspace_bytes(const Model& model, const EngineOptions& options);

class Engine {
 public:
  // kv and workspace bytes are the caller's and outlive the engine. tokenizer may be null when no stop strings are used.
  Engine(const Model& model, const EngineOptions& options, const KvPool& kv, std::byte* workspace,
         const Tokenizer* tokenizer, TraceSink* trace);
  ~Engine();

  // Queues a request. Errors name the field, its range and the value seen; a prompt whose prompt + max_new_tokens
  // exceeds max_model_len, or can never fit the pool, is refused with both numbers.
  void submit(const Request& request);
  // One forward, if there is anything to do; returns false when idle.
  bool step();
  // Samples finished since the last call, in order of completion.
  std::vector<SamplePtr> take_finished();
  // Ends every request: unfinished samples come back through take_finished with FinishReason::kAborted.
  void abort_all();
  bool idle() const;
  EngineStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rl
