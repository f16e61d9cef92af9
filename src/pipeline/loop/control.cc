// A loop that finishes an update or a file does so before it stops.
#include "pipeline/loop/control.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "core/deadline.h"
#include "options/options_json.h"
#include "pipeline/config/schedule_options.h"

namespace rl {
namespace {

constexpr int64_t kSliceNs = 1'000'000'000;  // longest sleep before the state is checked again

// A stop in these states would lose a finished update or half a file.
bool must_finish(PipelineState s) {
  return s == PipelineState::kPublishing || s == PipelineState::kCheckpointing;
}

}  // namespace

const char* pipeline_state_name(PipelineState state) {
  switch (state) {
    case PipelineState::kIdle:
      return "idle";
    case PipelineState::kFetching:
      return "fetching";
    case PipelineState::kGenerating:
      return "generating";
    case PipelineState::kScoring:
      return "scoring";
    case PipelineState::kTraining:
      return "training";
    case PipelineState::kPublishing:
      return "publishing";
    case PipelineState::kEvaluating:
      return "evaluating";
    case PipelineState::kCheckpointing:
      return "checkpointing";
    case PipelineState::kPaused:
      return "paused";
    case PipelineState::kStopping:
      return "stopping";
    case PipelineState::kDone:
      return "done";
    case PipelineState::kFailed:
      return "failed";
  }
  return "unknown";
}

Control::Control(const Clock& clock, const Settings& settings)
    : clock_(clock), settings_(settings) {}

void Control::notify() {
  const Lock held = lock();
  notify(held);
}

void Control::notify(const Lock&) {
  ++num_changes_;
  changed_.notify_all();
}

void Control::stage(const Settings& settings, const Lock&) { staged_ = settings; }

void Control::share(const SharedInputs& inputs, std::function<void(const ScheduledEvent&)> apply) {
  if (inputs.alone()) return;
  shared_.loop.emplace(inputs, std::move(apply));
  if (inputs.leads()) schedule_.keep_inputs();
}

void Control::share_updates(const SharedInputs& partners) {
  if (!partners.alone()) shared_.updates.emplace(partners);
}

SharedInputs::Round Control::own_round(const Lock&) {
  return {stop_requested_, std::exchange(evals_.requested, false), schedule_.take_kept()};
}

void Control::take_round(const SharedInputs::Round& round, const Lock&) {
  shared_.loop->stop = shared_.loop->stop || round.stop;
  evals_.due = evals_.due || round.evaluate;
}

// Nobody waits for other ranks with the lock. The first rank reads before the others do, who have
// to know all that it has seen.
void Control::see(FunctionRef<void(const Lock&)> read) {
  Lock held = lock();
  if (!follows()) read(held);
  if (!shared_.loop) return;
  const SharedInputs::Round own = own_round(held);
  held.unlock();
  const SharedInputs::Round round = shared_.loop->inputs.exchange(own);
  held.lock();
  if (follows()) {
    for (const ScheduledEvent& input : round.inputs) shared_.loop->apply(input);
    read(held);
  }
  take_round(round, held);
}

void Control::refuse_second_start(const Lock&) const {
  if (!started_ && !ended_) return;
  throw Error(Code::kFailedPrecondition,
              str("the pipeline was already started; its state is ", pipeline_state_name(state_)));
}

void Control::pause() {
  const Lock held = lock();
  paused_ = true;
  notify(held);
}

void Control::unpause() {
  const Lock held = lock();
  paused_ = false;
  notify(held);
}

bool Control::stop(int64_t timeout_ns) {
  Lock held = lock();
  stop_requested_ = true;
  schedule_.detach();
  if (const int64_t now = clock_.now_ns(); timeout_ns > 0 && timeout_ns < INT64_MAX - now) {
    stop_deadline_ns_ = std::min(stop_deadline_ns_, now + timeout_ns);
  }
  if (!started_ && !ended_) {
    ended_ = true;
    state_ = PipelineState::kDone;
    queue_->close();
  }
  notify(held);
  return wait_until_ready(changed_, held, timeout_ns, [&] { return ended_; });
}

void Control::request_eval() {
  const Lock held = lock();
  if (ended_) throw Error(Code::kFailedPrecondition, "the pipeline has ended");
  (schedule_.active() || shared_.loop ? evals_.requested : evals_.due) = !schedule_.replaying();
  notify(held);
}

bool Control::await_checkpoint(Lock& held, int64_t timeout_ns) {
  const uint64_t mine = ++checkpoints_.requested;
  notify(held);
  const auto over = [&] { return checkpoints_.done >= mine || ended_; };
  if (!wait_until_ready(changed_, held, timeout_ns, over)) {
    throw Error(Code::kTimeout, "the checkpoint has not been written yet");
  }
  if (checkpoints_.done >= mine && checkpoint_failure_ != nullptr) throw *checkpoint_failure_;
  return checkpoints_.done >= mine;
}

bool Control::wait_until(Lock& held, int64_t timeout_ns, FunctionRef<bool()> ready) {
  return wait_until_ready(changed_, held, timeout_ns, ready);
}

bool Control::enter(PipelineState next) {
  Lock held = lock();
  while (paused_ && !stop_requested_) {
    state_ = PipelineState::kPaused;
    wait(held, std::nullopt);
  }
  const bool stops = !must_finish(next) && schedule_.stops(this->stops());
  state_ = stops ? PipelineState::kStopping : next;
  return !stops;
}

bool Control::out_of_time() {
  Lock held = lock();
  bool late = !shared_.finishes_updates && stop_requested_ && clock_.now_ns() >= stop_deadline_ns_;
  if (shared_.updates) {
    held.unlock();
    late = shared_.updates->any(late);
    held.lock();
  }
  if (late && schedule_.recording()) schedule_.note(ScheduledKind::kOutOfTime);
  if (!late && !schedule_.take(ScheduledKind::kOutOfTime)) return false;
  state_ = PipelineState::kStopping;
  return true;
}

void Control::wait(Lock& held, std::optional<int64_t> deadline_ns) {
  int64_t sleep = kSliceNs;
  // Other ranks wait for this one meanwhile, no longer than comm.timeout_ns.
  if (shared_.loop) sleep = std::min(sleep, std::max<int64_t>(1, settings_.comm.timeout_ns / 4));
  if (deadline_ns) sleep = std::clamp<int64_t>(*deadline_ns - clock_.now_ns() + 1, 0, sleep);
  changed_.wait_for(held, std::chrono::nanoseconds(sleep));
}

void Control::wait_after(uint64_t num_changes, Lock& held, std::optional<int64_t> deadline_ns) {
  if (num_changes_ == num_changes) wait(held, deadline_ns);
}

bool Control::apply_staged() {
  const Lock held = lock();
  if (const auto recorded = schedule_.take(ScheduledKind::kOptions)) {
    if (const auto changed = with_recorded(settings_.set, recorded->text)) staged_ = *changed;
  }
  if (!staged_) return false;
  if (schedule_.recording()) {
    schedule_.note(ScheduledKind::kOptions, {}, options_to_json(staged_->set, true, {}));
  }
  settings_ = *staged_;
  staged_.reset();
  return true;
}

Control::Due Control::due() const {
  const Lock held = lock();
  if (evals_.due) return Due::kEvaluation;
  if (checkpoints_.due || checkpoints_.requested > checkpoints_.begun) return Due::kCheckpoint;
  return Due::kNothing;
}

void Control::add_due(bool evaluation, bool checkpoint, const Lock&) {
  evals_.due = evals_.due || evaluation;
  checkpoints_.due = checkpoint;
}

void Control::take_eval_request() {
  const Lock held = lock();
  if (schedule_.take(ScheduledKind::kRequest)) evals_.due = true;
  if (shared_.loop || !std::exchange(evals_.requested, false)) return;
  evals_.due = true;
  schedule_.note(ScheduledKind::kRequest);
}

void Control::begin_eval() {
  const Lock held = lock();
  evals_.due = false;
}

uint64_t Control::begin_checkpoint() {
  const Lock held = lock();
  checkpoints_.due = false;
  return checkpoints_.begun = checkpoints_.requested;
}

void Control::end_checkpoint(uint64_t requested, std::shared_ptr<const Error> failure) {
  {
    const Lock held = lock();
    checkpoint_failure_ = std::move(failure);
    checkpoints_.done = requested;
  }
  notify();
}

void Control::run_closing(Logger& logger, const char* what, FunctionRef<void()> work) noexcept {
  std::shared_ptr<const Error> failed;
  try {
    try {
      work();
      return;
    } catch (const Error& e) {
      failed = std::make_shared<Error>(
          Error(Code::kIo, str(what, " could not be closed: ", e.message)).with_cause(e));
    } catch (const std::bad_alloc&) {
      failed = std::make_shared<Error>(Code::kOutOfMemory,
                                       str(what, " could not be closed: out of memory"));
    } catch (const std::exception& e) {
      failed =
          std::make_shared<Error>(Code::kInternal, str(what, " could not be closed: ", e.what()));
    }
    logger.log_error(LogLevel::kError, "pipeline", *failed);
    const Lock held = lock();
    if (close_failure_ == nullptr) close_failure_ = failed;
  } catch (const std::exception&) {
    return;  // not even memory for the report
  }
}

bool Control::stopping() const {
  const Lock held = lock();
  return state_ == PipelineState::kStopping;
}

void Control::end(std::shared_ptr<const Error> cause) {
  {
    const Lock held = lock();
    state_ = cause != nullptr ? PipelineState::kFailed : PipelineState::kDone;
    failure_ = std::move(cause);
    ended_ = true;
    queue_->close();
  }
  notify();
}

}  // namespace rl
