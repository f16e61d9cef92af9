// The weights of a pipeline that generates for another one (pipeline.weights_dir): those of the
// newest checkpoint that the other has written. A checkpoint appears complete, so a version never
// has two contents. Of ranks that divide the model the first one looks; all read the same
// checkpoint, each its part, and take it up once every one of them has it. They make the calls
// together. The loop's thread alone uses it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/ranks/first_rank.h"
#include "pipeline/session/loaded_model.h"
#include "train/checkpoint/checkpoint_weights.h"

namespace rl {

class FollowedWeights {
 public:
  FollowedWeights(LoadedModel& model, std::string dir, const FirstRank& first = {})
      : model_(model), dir_(std::move(dir)), first_(first) {}

  // Whether there are newer weights than the model has. Looks into the directory now and then; now:
  // at once.
  bool has_newer(bool now);
  // Takes them up, between two forwards: the model has their version from then on. After an error
  // in reading them the model may be half-trained.
  void take_up();
  // Training steps of the checkpoint taken up last.
  int64_t step() const { return step_; }

 private:
  // A step of a checkpoint that was not seen before, or -1; whether its weights are newer.
  struct Look {
    int64_t step = -1;
    bool newer = false;
  };
  Look look() const;
  Look look_if_due(bool now);
  bool note(const Look& seen);
  // What the ranks have read of a checkpoint that may be removed meanwhile.
  enum class Read : uint8_t { kWhole, kNothing, kPart };
  Read read(const FoundCheckpoint& from, uint64_t& version);
  Read read_by_all(const FoundCheckpoint& from);

  LoadedModel& model_;
  const std::string dir_;
  const FirstRank first_;
  std::optional<FoundCheckpoint> newer_;
  int64_t looked_ns_ = INT64_MIN;
  int64_t seen_ = -1;  // step of a checkpoint whose weights are not newer
  int64_t step_ = 0;
};

}  // namespace rl
