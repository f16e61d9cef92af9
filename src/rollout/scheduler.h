// Decides which rows the next forward computes. Running sequences go on first (one row each), then
// prompts that are being prefilled, then waiting requests are admitted, all in order of submission.
// Invariants:
// 1. A request is admitted only when the pool can set aside all blocks it may ever need, so a
//    running sequence never runs out and nothing is preempted.
// 2. A schedule has at most max_num_batched_tokens rows, and at most max_num_seqs samples run.
// 3. No request overtakes another one.
// Knows nothing of models: rows are computed and tokens appended by the caller.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "rollout/sequence.h"

namespace rl {

struct SchedulerLimits {
  int64_t max_num_seqs;
  int64_t max_num_batched_tokens;  // at least max_num_seqs
  int64_t prefill_chunk;           // 0: as many rows as there is room for
};

// Rows of one sequence: positions computed .. computed + rows - 1.
struct ScheduledRows {
  ActiveRequest* request;
  uint32_t index;  // into request->sequences
  int32_t rows;

  Sequence& sequence() const { return request->sequences[index]; }
  // The last row is the newest token of its sequence, so the next token is drawn from it.
  bool needs_logits() const { return sequence().computed + rows == sequence().length(); }
};

struct Schedule {
  std::vector<ScheduledRows> rows;
  std::vector<BlockCopy> copies;  // to be made, in order, before anything is written
  int64_t decode_rows = 0, prefill_rows = 0;

  int64_t num_rows() const { return decode_rows + prefill_rows; }
};

class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, BlockPool& pool);

  // A request that passed check_request: it fits the limits and the empty pool.
  void submit(std::unique_ptr<ActiveRequest> request);
  // The rows of the next forward; empty when idle. Valid until the next call. Calling it again
  // without advance() gives the same rows, without copies that were already handed out.
  const Schedule& next();
  // The rows of the last schedule are computed; finished prompts are forked.
  void advance();
  // Ends a sequence of a running request. Requests without live sequences go with drop_finished().
  void finish(ActiveRequest& active, Sequence& sequence);
  void drop_finished();

  // In order of submission.
  const std::vector<std::unique_ptr<ActiveRequest>>& running() const { return running_; }
  // Hands the requests out that were not started, in order of submission.
  std::deque<std::unique_ptr<ActiveRequest>> take_waiting();
  bool idle() const { return running_.empty() && waiting_.empty(); }
  int64_t num_running() const { return num_running_; }  // samples
  int64_t num_waiting() const;                          // samples

 private:
  void schedule_decodes();
  void schedule_prefills();
  void admit_waiting();
  bool can_admit(const Request& request) const;
  void add_rows(ActiveRequest& active, uint32_t index, int64_t rows);
  int64_t prefill_room(const ActiveRequest& active) const;

  const SchedulerLimits limits_;
  BlockPool& pool_;
  std::deque<std::unique_ptr<ActiveRequest>> waiting_;
  std::vector<std::unique_ptr<ActiveRequest>> running_;
  int64_t num_running_ = 0;
  Schedule schedule_;
};

}  // namespace rl
