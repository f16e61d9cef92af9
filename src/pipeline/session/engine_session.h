// The engine as the host drives it: submit, step, take, on its own arena. Calls from several
// threads are served in order; run() lets others in after every step, and a call that waits to
// compute lets all in that do not. With one compute copy the model's weights cannot change while
// requests are in flight; requests held back by a drain are not in flight. With two a step pins the
// published version, and takes its turn with other engine steps and with the micro-batches of a
// training step (compute_lease.h). With engine.thread the engine steps on a thread of its own
// (engine_thread.h): run() and drain() wait for it. engine_steps.cc has the steps,
// engine_session.cc the requests and their samples.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/arena.h"
#include "core/function_ref.h"
#include "pipeline/config/run_options.h"
#include "pipeline/session/engine_events.h"
#include "pipeline/session/engine_thread.h"
#include "pipeline/session/fifo_mutex.h"
#include "pipeline/session/loaded_model.h"
#include "rollout/engine_set.h"

namespace rl {

// Outcome of a call that computes.
enum class EngineStep {
  kComputed,
  kIdle,     // there is nothing to compute
  kPaused,   // computing is paused
  kTimedOut  // the drain's timeout has passed
};

class EngineSession {
 public:
  EngineSession(std::shared_ptr<LoadedModel> model, const Settings& settings);
  ~EngineSession();
  EngineSession(const EngineSession&) = delete;

  // What a host calls a sample itself; the rest is chosen here.
  struct Naming {
    std::optional<uint64_t> ordinal, sample_id;
  };
  // Queues a request and returns the id of its first sample; slot i gets that id + i. Random
  // numbers are keyed by (runtime.seed, ordinal, slot, position). Without an ordinal it is the
  // number of the request. A request that resumes a sample keeps the sample's id and ordinal.
  // kFailedPrecondition while a sample of such an id is unfinished here.
  uint64_t submit(Request request, const Naming& naming = {});
  // Events of finished samples and of tokens go there from now on (engine_events.h), with this
  // number; null: nowhere. A closed queue drops them.
  void set_queue(std::shared_ptr<EventQueue> queue, uint64_t source);
  // At most one forward. kFailedPrecondition with engine.thread.
  EngineStep step();
  // Steps until nothing can run or it is paused. Other calls may run between two steps.
  EngineStep run();
  // No new sample begins from now on; steps until those that have begun are finished, it is
  // paused, or timeout_ns has passed. 0 only makes the request; a negative timeout never expires.
  EngineStep drain(int64_t timeout_ns);
  // Steps compute nothing until resume().
  void pause();
  // Ends a pause and a drain. kBusy, without effect, while the weights that waiting requests would
  // need are being trained.
  void unpause();
  // Samples finished since the last call, in order of completion.
  std::vector<SamplePtr> take_finished();
  // Ends all requests; their samples are returned by take_finished with FinishReason::kAborted.
  void abort_all();
  // The same for the request of one sample; kNotFound if no unfinished sample has this id.
  void abort_request(uint64_t sample_id);
  // The same for all requests that pipeline.partial_rollout_max_aborts does not protect; returns
  // the number of samples that continue.
  int64_t abort_unspared();
  // Releases memory to the system until wake(): at level 1 KV pool and workspace, at level 2 also
  // the packed weights of the model. Unfinished samples wait and are recomputed; requests are
  // queued; whatever would compute is kFailedPrecondition. A level not above the current one has
  // no effect. On error nothing has changed: kOutOfRange for an invalid level, and at level 2 the
  // errors of LoadedModel::drop_packed.
  void sleep(int level);
  // Restores the packed weights, then KV pool and workspace. MemoryError if a device has not the
  // memory: the engine stays asleep, and another call tries again.
  void wake();
  bool idle() const;
  // Like abort_all(), and every later request is kFailedPrecondition. The engine's thread ends.
  void close();

  // For conversations. A turn is a request that resumes a sample; take_finished() does not return
  // it. Ids and ordinals come from the same counters as those of requests. submit_turn is
  // kFailedPrecondition while another turn has the id.
  struct Identity {
    uint64_t ordinal, sample_id;
  };
  Identity new_identity(const Naming& naming);
  uint64_t new_sample_id();
  void submit_turn(Request turn);
  // The sample once its turn has ended, else null.
  SamplePtr take_turn(uint64_t sample_id);
  // Ends a turn that nobody waits for any longer.
  void drop_turn(uint64_t sample_id);
  int64_t vocab() const { return model_->config().vocab; }
  int64_t max_model_len() const { return max_model_len_; }

  EngineStats stats() const;
  int64_t num_engines() const { return engine_->num_engines(); }
  // For one engine.
  EngineStats stats(int64_t engine) const;
  // For its last whole interval; nothing before the first one ends. kFailedPrecondition without
  // engine.stats_interval_ns.
  std::optional<EngineStats> last_interval(int64_t engine) const;
  LoadedModel& model() { return *model_; }

 private:
  // A step; its outcome without computing if there is one, as by outcome_now(). Waits for the
  // compute threads no longer than longest_wait_ns: kTimedOut. A pause ends the wait, and so does
  // close(). Under computing_.
  EngineStep step_in_turn(int64_t longest_wait_ns = ComputeWait::kNoLimit);
  // What a step comes to that need not compute; nothing if it has to.
  std::optional<EngineStep> outcome_now() const;
  // A lease that submit() or unpause() may need. They wait for it without the lock, so that other
  // calls go on while weights are trained. Null if there is no need now.
  using Use = std::unique_ptr<LoadedModel::UseLease>;
  Use use_for_submit();
  Use use_for_unpause();
  bool needs_no_use() const { return use_ != nullptr || draining_ || closed_; }
  // Takes the lease if the engine has none. Under the lock, with a lease or needs_no_use().
  uint64_t submit_locked(Request request, const Naming& naming, Use use);
  void submit_turn_locked(Request turn, Use use);
  void identify(Request& request, const Naming& naming);
  void require_free_ids(const Request& request, const char* key) const;
  void require_no_turn(const Request& request, const Naming& naming) const;
  void require_awake() const;
  int sleep_level() const;
  void end_waits();
  void collect();
  void tell();
  void note_use();
  // Ends requests under the lock, then tells of their samples.
  void end_requests(FunctionRef<void()> end);
  EngineThread::Next serve() noexcept;
  void fail_thread(const char* why) noexcept;
  EngineStep await_thread(int64_t timeout_ns);
  bool begin_drain();
  std::shared_ptr<LoadedModel> model_;
  const bool keeps_intervals_;  // engine.stats_interval_ns is set
  std::atomic<bool> waits_end_ = false;
  FifoMutex computing_;      // of a call that computes, from before its wait; locked first
  mutable FifoMutex mutex_;  // of everything below
  Arena arena_;
  int sleeps_ = 0;  // level; 0: awake
  std::unique_ptr<EngineSet> engine_;
  bool paused_ = false, draining_ = false, closed_ = false;
  int64_t max_model_len_ = 0;
  std::vector<SamplePtr> collected_;  // taken from the engine, on the way to finished_ and turns_
  std::vector<SamplePtr> finished_;
  std::map<uint64_t, SamplePtr> turns_;  // by sample id; null while the turn is generated
  uint64_t next_request_ = 0;
  Use use_;  // while there is something to compute
  EngineEvents events_;
  std::unique_ptr<EngineThread> thread_;  // null without engine.thread; ends before the rest
};

}  // namespace rl
