// The other process removes checkpoints as it goes on: one that is gone is no failure.
#include "pipeline/roles/followed_weights.h"

#include <utility>

#include "core/error.h"
#include "pipeline/session/step_watch.h"

namespace rl {
namespace {

constexpr int64_t kLookNs = 20'000'000;  // between two looks into the directory

}  // namespace

bool FollowedWeights::has_newer(bool now) {
  if (newer_) return true;
  const int64_t time = model_.runtime().clock().now_ns();
  if (!now && looked_ns_ != INT64_MIN && time - looked_ns_ < kLookNs) return false;
  looked_ns_ = time;
  return look();
}

bool FollowedWeights::look() {
  FileSystem& fs = model_.runtime().fs();
  const std::optional<FoundCheckpoint> found = newest_checkpoint(fs, dir_);
  if (!found || found->step <= seen_) return false;
  try {
    const uint64_t version = checkpoint_version(fs, found->path);
    if (version > model_.version()) {
      newer_ = found;
    } else {
      seen_ = step_ = found->step;
    }
    return newer_.has_value();
  } catch (const Error&) {
    if (fs.exists(found->path)) throw;
    return false;
  }
}

void FollowedWeights::take_up() {
  Runtime& runtime = model_.runtime();
  Model& m = model_.model();
  const FoundCheckpoint taken = *std::exchange(newer_, std::nullopt);
  bool begun = false, torn = false;
  try {
    const uint64_t version = checkpoint_version(runtime.fs(), taken.path);
    const LoadedModel::WriteLease lease(model_, runtime.busy_timeout_ns());
    StepWatch watch(model_, nullptr);
    read_weights(runtime.fs(), taken.path, m.layout(), m.masters(), [&] {
      begun = true;
      m.mark_masters_changed();
    });
    m.publish_as(version);
    watch.done();
  } catch (const Error&) {
    if (runtime.fs().exists(taken.path)) throw;
    if (!begun) return;
    torn = look();
    if (!torn) throw;
  }
  if (torn) return take_up();  // the model has a part of one that is gone
  seen_ = step_ = taken.step;
  runtime.logger().log(LogLevel::kInfo, "pipeline", {{"path", taken.path}, {"step", taken.step}},
                       "generates with the weights of ", taken.path);
}

}  // namespace rl
