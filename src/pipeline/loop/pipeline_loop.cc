// The loop of a run on the library's thread: rollout and training in turn (pipeline/flow). A
// failure ends the run.
#include <new>

#include "core/error.h"
#include "pipeline/config/schedule_options.h"
#include "pipeline/flow/flow.h"
#include "pipeline/loop/pipeline_impl.h"

namespace rl {
namespace {

// Allocates nothing: the text fits the string's inline buffer, and nobody owns the error.
std::shared_ptr<const Error> out_of_memory() noexcept {
  static const Error error(Code::kOutOfMemory, "out of memory");
  return {std::shared_ptr<const Error>(), &error};
}

// The exception being handled, as an error.
std::shared_ptr<const Error> caught_error() noexcept {
  try {
    try {
      throw;
    } catch (const Error& e) {
      return std::make_shared<Error>(e);
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::exception& e) {
      return std::make_shared<Error>(Code::kInternal, str("the pipeline failed: ", e.what()));
    } catch (...) {
      return std::make_shared<Error>(Code::kInternal, "the pipeline failed for an unknown reason");
    }
  } catch (...) {
    return out_of_memory();
  }
}

}  // namespace

void Pipeline::Impl::run() noexcept {
  std::shared_ptr<const Error> cause;
  try {
    run_steps();
    checkpoints.finish();
    training.acknowledge();
    if (rollout.claims()) control.meet();  // a failure of the first rank here is that of all
  } catch (...) {
    cause = caught_error();
    rollout.batches().fail(cause->message.c_str());
  }
  end_run(std::move(cause));
}

// A trainer over a store goes on from the newest checkpoint that there is once the store is its
// own: the trainer before may have saved more since this one was made. False if the host ends the
// run meanwhile.
bool Pipeline::Impl::take_over() {
  if (!rollout.claims()) return true;
  if (!rollout.take_store()) return false;
  const std::string found = rollout.first().tell_text([&] { return checkpoints.find_again(); });
  if (!found.empty()) go_on_from(checkpoints.open(phases.update(), found), kReaderWaitNs);
  files.open(progress.boundary.step);
  return true;
}

void Pipeline::Impl::run_flow() {
  rollout.begin(progress.boundary);
  checkpoints.begin_branch(progress.boundary.step);
  files.begin(progress.boundary.step);
  for (;;) {
    Flow(rollout.rules(), {rollout, training, rollout}).run();
    RunSchedule& schedule = control.schedule(control.lock());
    if (!schedule.resumes()) break;
    begin_again();
    rollout.begin(progress.boundary);
  }
}

// What is open at the end belongs to no step: groups of a stop, or those left over when the prompts
// ended.
void Pipeline::Impl::run_steps() {
  if (take_over()) run_flow();
  {
    const Control::Lock lock = control.lock();
    control.schedule(lock).finish();
  }
  rollout.batches().leave();
  scoring.shut_down();
}

// A replay has come to where the recorded run was resumed from a checkpoint: as that run did, it
// begins with the weights, ordinals and books of the last whole step, and with its options.
void Pipeline::Impl::begin_again() {
  phases.renew_engine();
  scoring.begin_again(progress.boundary);
  const Control::Lock lock = control.lock();
  const std::string options = control.schedule(lock).resume(resumption(progress.boundary));
  if (const auto changed = with_recorded(settings.set, options)) control.stage(*changed, lock);
}

}  // namespace rl
