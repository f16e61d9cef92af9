// The loop: prompts -> samples -> rewards from the host -> update -> publication, on one library
// thread. pipeline/flow decides what comes when, pipeline_impl.h has what it uses. Invariants:
// 1. Every group is accounted for: the ledger's invariants hold after every event.
// 2. Batches are ordered by (ordinal, slot): the arrival order of rewards changes nothing.
// 3. Every wait of the loop ends with an event, a deadline, or stop().
// 4. A failure ends the loop; next() keeps returning it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algo/algo_arrays.h"
#include "buffer/experience_store.h"
#include "buffer/ledger.h"
#include "core/event_queue.h"
#include "core/function_ref.h"
#include "options/options.h"
#include "pipeline/loop/events.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

class TraceRecorder;

// Numbers are part of the ABI.
enum class PipelineState : int32_t {
  kIdle = 0,
  kFetching = 1,
  kGenerating = 2,
  kScoring = 3,
  kTraining = 4,
  kPublishing = 5,
  kEvaluating = 6,
  kCheckpointing = 7,
  kPaused = 8,
  kStopping = 9,
  kDone = 10,
  kFailed = 11
};
const char* pipeline_state_name(PipelineState state);

struct PipelineStatus {
  PipelineState state = PipelineState::kIdle;
  uint64_t step = 0;      // steps done
  uint64_t version = 0;   // of the weights
  int64_t unscored = 0;   // samples that wait for a reward
  int64_t unreplied = 0;  // samples that wait for a reply to a turn
  LedgerCounts ledger;
  int64_t feed_size = 0, feed_capacity = 0;  // rows
};

// The host's answer to a turn of the model: tokens, given as ids or text, or that the sample has no
// further turn.
struct Reply {
  uint64_t sample_id = 0;
  uint64_t turn = 0;  // that it answers; 0: the present one
  std::span<const int32_t> ids = {};
  std::optional<std::string_view> text = std::nullopt;  // in place of ids
  bool add_special = false, allow_special = false;      // of text: EncodeOptions
  bool finish = false;                                  // without tokens
};

// What the host says of a sample.
struct Score {
  uint64_t sample_id = 0;
  double reward = 0;
  std::span<const double> parts = {};
  std::span<const double> token_rewards = {};  // one per token after the prompt, or none
  std::optional<std::string_view> failure = std::nullopt;  // why it gets no reward
};

class Pipeline {
 public:
  // Checks the options against runtime, model and plan, reserves memory, opens data.path and
  // eval.path, and resumes as checkpoint.resume says. Nothing runs before start().
  // store: of the host, for a pipeline.role that needs one; null: buffer.store_path is it.
  Pipeline(std::shared_ptr<LoadedModel> model, const Settings& settings,
           std::shared_ptr<ExperienceStore> store = nullptr);
  // Stops; returns when the library thread has ended, which takes at most one training step.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;

  // The host's own algorithms, set before start(); null removes one. They are called on the
  // library thread.
  void set_custom_advantage(CustomAdvantage advantage);
  void set_custom_loss(CustomLoss loss);

  // Starts the library thread; kFailedPrecondition if it was started before, or if a custom
  // algorithm is configured but not set.
  void start();
  // The next event. kTimeout, kInterrupted, kDone (sticky: the loop ended and every event was
  // taken); once the loop failed and every event was taken, each call throws the cause.
  EventQueue::Popped next(int64_t timeout_ns);
  // Makes one next() return kInterrupted.
  void interrupt();
  // Readable when next(0) has something to return.
  int event_fd() const;
  const std::shared_ptr<EventQueue>& event_queue() const;

  // Any thread, any order. Errors, which are counted: kNotFound (no such sample), kDuplicate
  // (scored before), kLate (its group was dropped), kNonFinite.
  void score(uint64_t sample_id, double reward) { score(sample_id, reward, {}); }
  void score(uint64_t sample_id, double reward, std::span<const double> parts) {
    score(Score{.sample_id = sample_id, .reward = reward, .parts = parts});
  }
  // parts: components of the reward, as many as algo.gdpo_weights has entries if it has any, else
  // kInvalidArgument; for an evaluation they may be omitted. token_rewards are kInvalidArgument if
  // their number is wrong or algo.advantage does not read them. failure: see fail.
  void score(const Score& score);
  // All scores are tried, and report(i, code) gets the result of each. Then the error of the one
  // that was refused is thrown, or of several an error that has theirs as parts; keys are
  // "scores[i]".
  void score_many(std::span<const Score> scores, FunctionRef<void(size_t, Code)> report);
  // The samples of turn events, in any order. Errors: kNotFound (no such sample waits),
  // kDuplicate (answered before), kLate (its group was dropped), kOutOfRange (ids; no room within
  // engine.max_model_len), kInvalidArgument, and kFailedPrecondition without pipeline.turns or,
  // for text, without a tokenizer. All are tried, as by score_many; keys are "replies[i]".
  void reply_many(std::span<const Reply> replies, FunctionRef<void(size_t, Code)> report);
  // The sample has no reward: its group is dropped with the reason and the step continues.
  void fail(uint64_t sample_id, std::string_view reason);

  // Prompts fed by the host, if data.path is empty. A row as in the data file. False if the feed
  // was full (PipelineStatus) until the timeout.
  bool feed_line(std::string_view json, int64_t timeout_ns = 0);
  bool feed_ids(std::vector<int32_t> ids, std::string tag, int64_t timeout_ns = 0);
  // No more rows: the loop ends after the last whole step.
  void end_feed();

  // The loop halts before its next forward, wait or update, and continues after unpause().
  void pause();
  void unpause();
  // Ends the loop and abandons the current step unless it is already training (its groups are
  // dropped as shutdown). True if it ended within timeout_ns. A positive timeout is also the
  // deadline of a step that is training: then it is undone if no optimizer step was applied, so
  // that a resume draws its groups again; it leaves the model half-trained (loaded_model.h) if some
  // but not all were.
  bool stop(int64_t timeout_ns);
  // A checkpoint at the next step boundary, or at once if the loop is not running; returns its
  // path. kTimeout if it was not written in time (it still will be), kFailedPrecondition without
  // checkpoint.dir or if a stop left the model half-trained.
  std::string checkpoint(int64_t timeout_ns);
  // Writes the critic as LoadedModel::save writes the policy; Error(kFailedPrecondition) if there
  // is no critic.
  void save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const;
  // Requests an evaluation at the next step boundary.
  void request_eval();
  // Sets options that may change between steps; they take effect with the next step.
  void set_options(const Settings& settings);
  // As last set.
  OptionSet options() const;

  // Writes a report of the run so far as one HTML file, which appears by one rename. trace
  // replaces the pipeline's own timeline and may be null. facts are added to the pipeline's own. A
  // report does not wait for a step: what training keeps busy is left out.
  using Facts = std::vector<std::pair<std::string, std::string>>;
  void write_report(const std::string& path, const TraceRecorder* trace, const Facts& facts) const;

  PipelineStatus status() const;
  // Why the loop failed; null unless it has.
  std::shared_ptr<const Error> failure() const;
  // The first error after the loop, in closing the metrics file or the trace; null if there was
  // none. It does not make the run a failed one.
  std::shared_ptr<const Error> close_failure() const;
  // Throws close_failure(), and kFailedPrecondition while the loop has not ended.
  void require_closed() const;
  const MemoryPlan& plan() const;
  LoadedModel& model();
  // Directory of the checkpoint this run was resumed from; empty for a fresh run.
  std::string resumed_from() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace rl
