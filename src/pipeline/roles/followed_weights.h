// The weights of a pipeline that generates for another one (pipeline.weights_dir): those of the
// newest checkpoint that the other has written. A checkpoint appears complete, so a version never
// has two contents. The loop's thread alone uses it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/session/loaded_model.h"
#include "train/checkpoint/checkpoint_weights.h"

namespace rl {

class FollowedWeights {
 public:
  FollowedWeights(LoadedModel& model, std::string dir) : model_(model), dir_(std::move(dir)) {}

  // Whether there are newer weights than the model has. Looks into the directory now and then; now:
  // at once.
  bool has_newer(bool now);
  // Takes them up, between two forwards: the model has their version from then on. After an error
  // in reading them the model may be half-trained.
  void take_up();
  // Training steps of the checkpoint taken up last.
  int64_t step() const { return step_; }

 private:
  bool look();

  LoadedModel& model_;
  const std::string dir_;
  std::optional<FoundCheckpoint> newer_;
  int64_t looked_ns_ = INT64_MIN;
  int64_t seen_ = -1;  // step of a checkpoint whose weights are not newer
  int64_t step_ = 0;
};

}  // namespace rl
