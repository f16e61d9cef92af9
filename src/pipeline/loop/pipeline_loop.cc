// The loop of a run on the library's thread: steps (pipeline_step.cc), and what is due between two
// of them. A failure ends the run.
#include <new>

#include "core/error.h"
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
  } catch (...) {
    cause = caught_error();
  }
  end_run(std::move(cause));
}

void Pipeline::Impl::run_steps() {
  checkpoints.begin_branch(progress.boundary.step);
  files.begin(progress.boundary.step);
  while (run_step()) {
  }
  if (control.stopping()) scoring.shut_down();
}

// Applies changed options and does what is due. False if no step follows.
bool Pipeline::Impl::between_steps() {
  while (control.enter(PipelineState::kFetching)) {
    checkpoints.finish_if_ended();
    if (control.apply_staged()) phases.update().set_options(settings);
    switch (control.due()) {
      case Control::Due::kEvaluation:
        if (!evaluation.run()) return false;
        break;
      case Control::Due::kCheckpoint:
        control.enter(PipelineState::kCheckpointing);
        checkpoints.write_due(phases.update(), progress.boundary);
        break;
      case Control::Due::kNothing:
        const auto total = static_cast<uint64_t>(settings.pipeline.total_steps);
        return total == 0 || progress.boundary.step < total;
    }
  }
  return false;
}

}  // namespace rl
