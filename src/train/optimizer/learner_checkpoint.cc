// Checks and bookkeeping around save_checkpoint and load_checkpoint.
#include "train/optimizer/learner_checkpoint.h"

#include <vector>

#include "core/error.h"

namespace rl {

CheckpointDraft draft_learners(const CheckpointMeta& meta, std::span<Learner* const> learners) {
  CheckpointDraft draft{meta, {}, {}};
  for (Learner* learner : learners) {
    learner->require_whole();
    if (learner->unpublished()) {
      throw Error(Code::kFailedPrecondition,
                  "a checkpoint holds published weights, but optimizer steps were taken after the "
                  "last publication");
    }
    draft.models.push_back(draft_model(learner->counters(), learner->arrays(), meta.contents,
                                       learner == learners.front()));
  }
  return draft;
}

CheckpointMeta load_learners(FileSystem& fs, const std::string& path,
                             const std::string& config_digest, std::span<Learner* const> learners) {
  CheckpointTarget target;
  for (Learner* learner : learners) {
    learner->state().hold_gradients();
    target.models.push_back({learner->arrays(), learner->state().gradients()});
  }
  CheckpointState loaded;
  try {
    loaded = load_checkpoint(fs, path, config_digest, target);
  } catch (...) {
    for (Learner* learner : learners) {
      if (target.masters_lost) learner->masters_read();
      learner->load_failed(target.moments_lost, path);
    }
    throw;
  }
  // Mark all of them first: packing one may fail.
  for (Learner* learner : learners) learner->masters_read();
  for (size_t i = 0; i < learners.size(); ++i) learners[i]->loaded(loaded.counters[i]);
  return std::move(loaded.meta);
}

}  // namespace rl
