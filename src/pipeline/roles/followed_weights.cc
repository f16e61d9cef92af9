// The other process removes checkpoints as it goes on: one that is gone is no failure.
#include "pipeline/roles/followed_weights.h"

#include <utility>

#include "core/error.h"
#include "pipeline/session/step_watch.h"
#include "train/checkpoint/checkpoint.h"

namespace rl {
namespace {

constexpr int64_t kLookNs = 20'000'000;  // between two looks into the directory

}  // namespace

bool FollowedWeights::has_newer(bool now) {
  return newer_ || note(first_.tell<Look>([&] { return look_if_due(now); }));
}

FollowedWeights::Look FollowedWeights::look_if_due(bool now) {
  const int64_t time = model_.runtime().clock().now_ns();
  if (!now && looked_ns_ != INT64_MIN && time - looked_ns_ < kLookNs) return {};
  looked_ns_ = time;
  return look();
}

FollowedWeights::Look FollowedWeights::look() const {
  FileSystem& fs = model_.runtime().fs();
  const std::optional<FoundCheckpoint> found = newest_checkpoint(fs, dir_);
  if (!found || found->step <= seen_) return {};
  try {
    return {found->step, checkpoint_version(fs, found->path) > model_.version()};
  } catch (const Error&) {
    if (fs.exists(found->path)) throw;
    return {};
  }
}

bool FollowedWeights::note(const Look& seen) {
  if (seen.step < 0) return false;
  if (seen.newer) {
    newer_ = {checkpoint_path(dir_, seen.step), seen.step};
  } else {
    seen_ = step_ = seen.step;
  }
  return seen.newer;
}

// Of this rank. Frozen parameters stay as they are.
FollowedWeights::Read FollowedWeights::read(const FoundCheckpoint& from, uint64_t& version) {
  FileSystem& fs = model_.runtime().fs();
  Model& m = model_.model();
  bool begun = false;
  try {
    version = checkpoint_version(fs, from.path);
    read_weights(fs, from.path, m.layout(), m.masters(), [&] {
      begun = true;
      m.mark_masters_changed();
    });
    return Read::kWhole;
  } catch (const Error&) {
    if (fs.exists(from.path)) throw;
    return begun ? Read::kPart : Read::kNothing;
  }
}

// What one rank has not read no rank publishes, and those that have begun need another one.
FollowedWeights::Read FollowedWeights::read_by_all(const FoundCheckpoint& from) {
  const LoadedModel::WriteLease lease(model_, model_.runtime().busy_timeout_ns());
  StepWatch watch(model_, nullptr);
  uint64_t version = 0;
  const Read own = read(from, version);
  if (first_.any(own != Read::kWhole)) {
    return first_.any(own != Read::kNothing) ? Read::kPart : Read::kNothing;
  }
  model_.model().publish_as(version);
  watch.done();
  return Read::kWhole;
}

void FollowedWeights::take_up() {
  const FoundCheckpoint taken = *std::exchange(newer_, std::nullopt);
  const Read all = read_by_all(taken);
  if (all == Read::kNothing) return;
  if (all == Read::kPart) {  // the model has a part of one that is gone
    const bool newer = note(first_.tell<Look>([&] { return look(); }));
    if (newer && newer_->step > taken.step) return take_up();
    throw Error(Code::kNotFound, str(taken.path,
                                     " was removed while it was read, or not every rank "
                                     "can read it, and ",
                                     dir_, " has no newer checkpoint"))
        .with_key("pipeline.weights_dir")
        .with_location(taken.path);
  }
  seen_ = step_ = taken.step;
  model_.runtime().logger().log(LogLevel::kInfo, "pipeline",
                                {{"path", taken.path}, {"step", taken.step}},
                                "generates with the weights of ", taken.path);
}

}  // namespace rl
