// Checks and bookkeeping around save_checkpoint and load_checkpoint.
#include "train/optimizer/learner_checkpoint.h"

#include <vector>

#include "core/error.h"
#include "train/checkpoint/rank_pieces.h"

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
    const Model& model = learner->model();
    add_pieces_of_ranks(model.tensor_ranks(), draft.models.back());
    if (model.tensor_ranks().rank() != 0) continue;
    add_tensors_of_stages(model.stage_ranks(), learner->layout(), draft.models.back());
  }
  return draft;
}

namespace {

std::shared_ptr<StateParts> parts_of(const DataRanks& ranks, const CheckpointDraft& draft) {
  std::vector<StateTensor> tensors;
  for (const ModelDraft& model : draft.models) {
    for (const StateArray& array : model.arrays) {
      for (const StateTensor& tensor : array.tensors) {
        if (tensor.first) tensors.push_back(tensor);
      }
    }
  }
  return std::make_shared<StateParts>(ranks, std::move(tensors));
}

}  // namespace

// Of ranks that divide a model all groups hear of a checkpoint, and the first ones have its
// tensors.
void share_draft(const DataRanks& ranks, bool gathers, CheckpointDraft& draft) {
  RL_CHECK(ranks.rank() == 0);
  if (gathers) draft.parts = parts_of(ranks.dividing(), draft);
  announce_checkpoint(ranks, true);
}

void give_draft(const DataRanks& ranks, bool gathers, const CheckpointDraft& draft,
                FunctionRef<void()> before) {
  if (!announce_checkpoint(ranks, false)) return;
  before();
  if (gathers) parts_of(ranks.dividing(), draft)->give();
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
    const char* const lost = target.masters_lost   ? "the weights and the optimizer states"
                             : target.moments_lost ? "the optimizer states"
                                                   : nullptr;
    for (Learner* learner : learners) {
      if (target.masters_lost) learner->masters_read();
      learner->load_failed(lost, path);
    }
    throw;
  }
  // Mark all of them first: packing one may fail.
  for (Learner* learner : learners) learner->masters_read();
  for (size_t i = 0; i < learners.size(); ++i) learners[i]->loaded(loaded.counters[i]);
  return std::move(loaded.meta);
}

void back_up_learners(WeightsBackup& backup, std::span<Learner* const> learners) {
  std::vector<WeightsBackup::Trained> models;
  for (Learner* learner : learners) {
    RL_CHECK(!learner->unpublished());
    const CheckpointArrays arrays = learner->arrays();
    TensorList all = master_tensors(*arrays.layout, arrays.masters);
    for (const StateArray& state : arrays.states)
      all.insert(all.end(), state.tensors.begin(), state.tensors.end());
    models.push_back({learner->counters(), std::move(all)});
  }
  backup.take(std::move(models));
}

// Marked first: copying or packing may fail.
void restore_learners(const WeightsBackup& backup, std::span<Learner* const> learners) {
  for (Learner* learner : learners) learner->masters_read();
  const std::vector<TrainerCounters> counters = backup.restore();
  for (size_t i = 0; i < learners.size(); ++i) learners[i]->loaded(counters[i]);
}

}  // namespace rl
