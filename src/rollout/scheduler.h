// Decides which rows the next forward computes. Every running sequence with one row to go gets it,
// so a long prompt never delays a decode; the remaining room goes to prompts in chunks, and then
// waiting sequences are admitted, all in order of priority (rank, submission, slot).
//
// Blocks are taken as they are needed. When none is free, the running sequence of lowest priority
// is preempted: it releases its blocks and waits, and its keys and values are swapped out, or
// recomputed later. Neither changes a bit of what it samples (contract N1).
//
// Invariants:
// 1. A schedule has at most max_num_batched_tokens rows, and at most max_num_seqs sequences run.
// 2. A sequence is preempted only for one of higher priority, and one sequence alone always fits
//    (the request was checked), so the first one always makes progress: nothing starves.
// 3. Nothing is admitted in a step that preempted, and an admission leaves the watermark free
//    unless nothing else runs.
// 4. A waiting sequence is overtaken only by followers of a leader that already runs, and while
//    admissions are off by sequences that ran before. Preempted members of a group whose leader
//    recomputes the prompt are passed over until it has.
// 5. A sequence begins in a free lane only (sample_lanes.h); others wait, whoever is behind them.
// Knows nothing of models: the caller computes rows and appends tokens.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "rollout/sample_lanes.h"
#include "rollout/sequence.h"
#include "rollout/swap_space.h"

namespace rl {

struct SchedulerLimits {
  int64_t max_num_seqs;
  int64_t max_num_batched_tokens;  // at least max_num_seqs
  int64_t prefill_chunk = 0;       // most rows of one prompt per step; 0: no limit of its own
  bool chunked_prefill = true;     // false: a prompt is computed in one step or not yet
  int64_t watermark_blocks = 0;
  LaneRules lanes = {};
};

// Rows of one sequence: positions computed .. computed + rows - 1.
struct ScheduledRows {
  Sequence* sequence;
  int32_t rows;

  // The last row is the newest token of its sequence, so the next token is sampled from it.
  bool needs_logits() const { return sequence->computed + rows == sequence->length(); }
};

// Copies the content of a block to another one, within the pool or to and from the swap space.
struct BlockTransfer {
  enum class Kind : uint8_t { kCopy, kSwapOut, kSwapIn };
  Kind kind;
  int32_t from, to;
};

struct StepSchedule {
  std::vector<ScheduledRows> rows;
  std::vector<BlockTransfer> transfers;  // to be executed in order, before anything is written
  int64_t decode_rows = 0, prefill_rows = 0;

  int64_t num_rows() const { return decode_rows + prefill_rows; }
};

struct SchedulerCounts {
  int64_t preemptions = 0, swapped_blocks = 0;
  // Tokens of admitted sequences, and how many of them the prefix cache had.
  int64_t looked_up_tokens = 0, cached_tokens = 0;
};

class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, KvBlocks& blocks, SwapSpace& swap);

  // A request that passed check_request: one sequence of it fits the empty pool. If it throws,
  // nothing has changed.
  void submit(std::unique_ptr<ActiveRequest> request);
  // While admissions are off, sequences that never ran wait.
  void set_admitting(bool admitting) { admitting_ = admitting; }
  // The rows of the next forward; empty if nothing can run. Valid until the next call. Calling it
  // again without advance() returns the same rows, without transfers that were already handed out.
  // After a call that throws (no memory for a sample), call it again before anything is written.
  const StepSchedule& next();
  // The rows of the last schedule are computed: prompts are shared with their followers, whole
  // blocks enter the prefix cache.
  void advance();
  // Ends a sequence, running or waiting. Its request is removed by drop_finished().
  void finish(Sequence& sequence);
  void drop_finished();
  // All K and V must be recomputed: the weights have changed, or the bytes were used for something
  // else.
  void forget_computed();
  // The weights have changed and sequences keep their K and V; the prefix cache is cleared.
  void keep_computed();

  // In order of priority.
  std::span<Sequence* const> running() const { return running_; }
  // By submission number.
  const std::map<uint64_t, std::unique_ptr<ActiveRequest>>& requests() const { return requests_; }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  // True if nothing can run: idle, or only sequences that never ran remain while admissions are
  // off or no lane is free.
  bool nothing_runnable() const;
  int64_t num_begun() const { return num_running() + begun_waiting_; }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }
  SampleLanes& lanes() { return lanes_; }
  const SchedulerCounts& counts() const { return counts_; }

 private:
  using Waiting = std::set<Sequence*, SchedulingOrder>;

  bool schedule_running();
  int64_t rows_to_go(const Sequence& sequence) const;
  void admit_waiting();
  void follow(Sequence& sequence);
  bool admit(Sequence& sequence);
  bool has_room(int64_t blocks) const;
  bool swap_in(Sequence& sequence);
  bool take_prefix(Sequence& sequence);
  void find_cached(Sequence& sequence);
  std::span<const int32_t> whole_block(const Sequence& sequence, int64_t index) const;
  void start_running(Sequence& sequence);
  bool make_room(Sequence& sequence, int64_t end);
  int64_t blocks_missing(const Sequence& sequence, int64_t end) const;
  bool shares_next_block(const Sequence& sequence) const;
  void preempt(Sequence& sequence);
  void release_blocks(Sequence& sequence);
  void give_up_blocks(Sequence& sequence);
  void stop_running(Sequence& sequence);
  void wait_again(Sequence& sequence);
  void add_rows(Sequence& sequence, int64_t rows);
  void make_writable(Sequence& sequence, int64_t end);
  void enter_whole_blocks(Sequence& sequence);
  void share_prompt(Sequence& leader);
  void drop_swapped(Sequence& sequence);

  const SchedulerLimits limits_;
  KvBlocks& blocks_;
  SwapSpace& swap_;
  SampleLanes lanes_;
  std::map<uint64_t, std::unique_ptr<ActiveRequest>> requests_;
  Waiting waiting_;
  // Nodes of running sequences, for when they are preempted.
  std::vector<Waiting::node_type> spare_nodes_;
  std::vector<Sequence*> running_;
  std::vector<uint64_t> ended_requests_;
  StepSchedule schedule_;
  bool handed_out_ = true;  // the caller has already received its transfers
  SchedulerCounts counts_;
  bool admitting_ = true;
  int64_t begun_waiting_ = 0;  // waiting sequences that ran before
  int64_t prompt_room_ = 0;    // rows that prompts may still take in this step
};

}  // namespace rl
