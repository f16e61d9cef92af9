// The end of a run: closes files, settles the accounting, notifies the host. Invariant: a failure
// while closing never changes whether the run failed, and the queue closes last.
#include "core/error.h"
#include "pipeline/loop/pipeline_impl.h"

namespace rl {
namespace {

// A result code such as kTimeout would look like a normal result of the call that reports the
// failure.
std::shared_ptr<const Error> as_failure(const std::shared_ptr<const Error>& cause) {
  if (cause == nullptr || cause->code >= Code::kInvalidArgument) return cause;
  return std::make_shared<Error>(
      Error(Code::kInternal,
            str("the loop failed with ", code_name(cause->code), ": ", cause->message))
          .with_cause(*cause));
}

}  // namespace

// Errors while closing are reported separately and do not change the run's outcome.
template <typename Work>
void Pipeline::Impl::close_step(const char* what, Work work) noexcept {
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
    runtime.logger().log(LogLevel::kError, "pipeline", failed->message);
    control.note_close_failure(failed);
  } catch (const std::exception&) {
    return;  // not even memory for the report
  }
}

void Pipeline::Impl::close_trace() {
  if (recorder == nullptr) return;
  runtime.tracer().end_sink(recorder.get());
  const ScopedDiscard discard(*recorder);
  TraceDigest digest = digest_of(*recorder);
  {
    const Control::Lock lock = control.lock();
    trace = std::move(digest);
  }
  recorder->write(runtime.fs(),
                  output_path(settings, settings.profiler.timeline.dir) + "/trace.json");
}

std::shared_ptr<const Error> Pipeline::close_failure() const {
  const Control::Lock lock = impl_->control.lock();
  return impl_->control.close_failure(lock);
}

void Pipeline::require_closed() const {
  const Control& control = impl_->control;
  const Control::Lock lock = control.lock();
  if (!control.ended(lock)) {
    throw Error(Code::kFailedPrecondition,
                str("the pipeline closes its files when its loop ends; its state is ",
                    pipeline_state_name(control.state(lock))));
  }
  if (control.close_failure(lock) != nullptr) throw Error(*control.close_failure(lock));
}

void Pipeline::Impl::end_run(std::shared_ptr<const Error> cause) noexcept {
  close_step("the metrics file", [&] { records->close(); });
  close_step("the trace", [&] { close_trace(); });
  close_step("the failure", [&] {
    if (cause != nullptr) runtime.logger().log(LogLevel::kError, "pipeline", cause->message);
    cause = as_failure(cause);
  });
  if (cause != nullptr) {
    const Control::Lock lock = control.lock();
    close_books();
  }
  close_step("the last events", [&] { push_dropped(); });
  compute.reset();
  run_lease.reset();
  control.end(std::move(cause));
}

// After a failure no group stays open: later scores are late. A violated invariant of the ledger
// may be the failure itself, so a second one here is ignored.
void Pipeline::Impl::close_books() noexcept {
  try {
    board.abandon(DropReason::kAborted, {});
    eval_board.abandon(DropReason::kAborted, {});
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace rl
