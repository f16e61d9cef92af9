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
  training.end();
  files.close();
  control.run_closing(runtime.logger(), "the schedule", [&] {
    const Control::Lock lock = control.lock();
    control.schedule(lock).abandon();
  });
  // After another failure: one of a checkpoint has ended the run itself.
  control.run_closing(runtime.logger(), "the checkpoint", [&] { checkpoints.finish(); });
  control.run_closing(runtime.logger(), "the failure", [&] {
    if (cause != nullptr) runtime.logger().log_error(LogLevel::kError, "pipeline", *cause);
    cause = as_failure(cause);
  });
  if (cause != nullptr) {
    const Control::Lock lock = control.lock();
    scoring.close(lock);
  }
  control.run_closing(runtime.logger(), "the last events", [&] { scoring.push_dropped(); });
  leases.reset();
  control.end(std::move(cause));
}

}  // namespace rl
