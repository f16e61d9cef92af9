// Where the host's threads and the loop meet: the lock of what they share, the options and state of
// the run, the host's requests, and the events. Invariants:
// 1. Every wait of the loop ends with a change, a deadline, or after a second.
// 2. A failure is set before the queue closes: whoever takes its last event finds it.
// A function with a Lock among its parameters is called under lock(); the others lock themselves.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/event_queue.h"
#include "core/function_ref.h"
#include "core/log.h"
#include "pipeline/config/settings.gen.h"
#include "pipeline/loop/pipeline.h"
#include "pipeline/ranks/shared_inputs.h"
#include "pipeline/schedule/run_schedule.h"

namespace rl {

class Control {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Control(const Clock& clock, const Settings& settings);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  [[nodiscard]] Lock lock() const { return Lock(mutex_); }
  // Called after a change: wakes whoever waits for one.
  void notify();
  void notify(const Lock&);
  // Counts them.
  uint64_t num_changes(const Lock&) const { return num_changes_; }
  const std::shared_ptr<EventQueue>& queue() const { return queue_; }
  void push(std::shared_ptr<Event> event) { queue_->push(std::move(event)); }

  // Of the run, while it is recorded or replayed. Whether it is does not change.
  RunSchedule& schedule(const Lock&) { return schedule_; }
  bool replays() const { return schedule_.replaying(); }

  // Before the run: ranks that run one loop with this one share what they see. apply: does what an
  // input of the first of them says, under the lock.
  void share(const SharedInputs& inputs, std::function<void(const ScheduledEvent&)> apply);
  bool shares_loop() const { return shared_.loop.has_value(); }
  // Those that divide a model with this one, whose updates are one.
  void share_updates(const SharedInputs& partners);
  // The ranks of the loop train on different micro-batches, between which they do not meet: no
  // deadline ends their update.
  void finish_updates() { shared_.finishes_updates = true; }
  // Whether another rank has the host's scores and replies.
  bool follows() const { return shared_.loop && !shared_.loop->inputs.leads(); }
  // Whether scores, replies and deadlines come from outside, at times of their own.
  bool has_host() const { return !replays() && !follows(); }
  // For the loop: reads, under the lock, what the host's threads and deadlines change. Ranks that
  // run one loop do so together, and what the loop does next follows from what it has read.
  void see(FunctionRef<void(const Lock&)> read);
  // Where it reads nothing: the ranks hear of each other's stops and requests.
  void meet() {
    if (shared_.loop) see([](const Lock&) {});
  }

  // Options of the step in progress. The loop's thread may read them at any time, other threads
  // under the lock.
  const Settings& settings() const { return settings_; }
  // Those that were set last, for the next step.
  const Settings& latest(const Lock&) const { return staged_ ? *staged_ : settings_; }
  // Options of the next step.
  void stage(const Settings& settings, const Lock& lock);

  // For the host.
  PipelineState state(const Lock&) const { return state_; }
  bool ended(const Lock&) const { return ended_; }
  bool running(const Lock&) const { return started_ && !ended_; }
  const std::shared_ptr<const Error>& failure(const Lock&) const { return failure_; }
  const std::shared_ptr<const Error>& close_failure(const Lock&) const { return close_failure_; }
  // kFailedPrecondition if the run was started or has ended.
  void refuse_second_start(const Lock& lock) const;
  void set_started(const Lock&) { started_ = true; }
  void pause();
  void unpause();
  // Ends the loop; true if it ended within timeout_ns, which is also the deadline of an update in
  // progress if it is positive. The earliest deadline of all calls holds.
  bool stop(int64_t timeout_ns);
  // kFailedPrecondition if the run has ended. A replay evaluates where its record does.
  void request_eval();
  // Asks the running loop for a checkpoint: true once it is written, false if the loop ended
  // without it, kTimeout after timeout_ns. An error of a run that goes on is thrown.
  bool await_checkpoint(Lock& lock, int64_t timeout_ns);
  // Waits for a change after which ready(), called under the lock, is true; false after timeout_ns.
  bool wait_until(Lock& lock, int64_t timeout_ns, FunctionRef<bool()> ready);

  // For the loop. Waits while paused, then takes the next state: false if that is kStopping, for
  // the host ends the loop.
  bool enter(PipelineState next);
  // Whether enter() has returned false.
  bool stopping() const;
  // True, with the state kStopping, once the deadline of a stop has passed: for all ranks that
  // divide a model, which ask together, within an update.
  bool out_of_time();
  // Whether a wait would keep the host's pause or stop waiting.
  bool must_act(const Lock&) const { return paused_ || stop_requested_; }
  // Sleeps until a change, the deadline, or for a second.
  void wait(Lock& lock, std::optional<int64_t> deadline_ns);
  // The same, but returns at once if their number is not this one any more.
  void wait_after(uint64_t num_changes, Lock& lock, std::optional<int64_t> deadline_ns);
  // True if the options changed.
  bool apply_staged();
  enum class Due : uint8_t { kNothing, kEvaluation, kCheckpoint };
  // What comes between two steps; an evaluation comes first.
  Due due() const;
  // After a whole step: what the options schedule.
  void add_due(bool evaluation, bool checkpoint, const Lock&);
  // Takes the host's request for an evaluation, of a run that has a schedule. Others have it due at
  // once, or when their ranks see it.
  void take_eval_request();
  // A request from now on asks for one more evaluation.
  void begin_eval();
  // Takes the requests so far; the number is for end_checkpoint. What is due from now on is another
  // checkpoint.
  uint64_t begin_checkpoint();
  // From any thread. failure: null if it was written.
  void end_checkpoint(uint64_t requested, std::shared_ptr<const Error> failure);
  // Runs work whose failure does not change the outcome of the run: it is logged, and the first one
  // is kept for the host. what: as in "the trace could not be closed".
  void run_closing(Logger& logger, const char* what, FunctionRef<void()> work) noexcept;
  // The run is over. cause: null unless it failed.
  void end(std::shared_ptr<const Error> cause);

 private:
  bool stops() const { return shared_.loop ? shared_.loop->stop : stop_requested_; }
  SharedInputs::Round own_round(const Lock&);
  void take_round(const SharedInputs::Round& round, const Lock&);

  const Clock& clock_;
  const std::shared_ptr<EventQueue> queue_ = std::make_shared<EventQueue>();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t num_changes_ = 0;
  Settings settings_;               // the loop's thread writes it, under the lock
  std::optional<Settings> staged_;  // of the next step
  PipelineState state_ = PipelineState::kIdle;
  bool started_ = false, ended_ = false, paused_ = false, stop_requested_ = false;
  RunSchedule schedule_;
  struct Shared {
    SharedInputs inputs;
    std::function<void(const ScheduledEvent&)> apply;
    bool stop = false;  // a rank's host has requested it
  };
  struct {
    std::optional<Shared> loop;           // none: no rank runs this loop with this one
    std::optional<SharedInputs> updates;  // none: no rank divides the model with this one
    bool finishes_updates = false;
  } shared_;
  int64_t stop_deadline_ns_ = INT64_MAX;
  struct {
    bool due = false, requested = false;
  } evals_;
  struct {
    bool due = false;
    uint64_t requested = 0, begun = 0, done = 0;
  } checkpoints_;
  std::shared_ptr<const Error> failure_, close_failure_, checkpoint_failure_;
};

}  // namespace rl
