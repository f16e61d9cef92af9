// The trained models of a run as one checkpoint (train/checkpoint/checkpoint.h): the policy, and
// its critic if there is one.
#pragma once
#include <span>
#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/weights_backup.h"
#include "train/optimizer/learner.h"

namespace rl {

// learners: the policy, then the critic. Error(kFailedPrecondition) while one of them has
// unpublished updates or lost moments. The tensors are those of the learners, not copied.
CheckpointDraft draft_learners(const CheckpointMeta& meta, std::span<Learner* const> learners);

// Where states are in parts the ranks make a checkpoint together: rank 0 has a draft and says so,
// or that none comes (announce_checkpoint), and the others give their parts of the same draft.
// gathers: these ranks are the first ones of all that divide the model, whose drafts are whole.
void share_draft(const DataRanks& ranks, bool gathers, CheckpointDraft& draft);
// before: what else they give, if a draft comes.
void give_draft(const DataRanks& ranks, bool gathers, const CheckpointDraft& draft,
                FunctionRef<void()> before);

// Also publishes the masters as the checkpoint's versions. If reading fails, the weights are
// unchanged; if the moments had begun to change, all learners have lost theirs. If packing fails,
// Model::masters_changed() is true for the models that are not published.
CheckpointMeta load_learners(FileSystem& fs, const std::string& path,
                             const std::string& config_digest, std::span<Learner* const> learners);

// Before an update; the models are published.
void back_up_learners(WeightsBackup& backup, std::span<Learner* const> learners);
// Of the same learners: also publishes the masters as the versions that they had.
void restore_learners(const WeightsBackup& backup, std::span<Learner* const> learners);

}  // namespace rl
