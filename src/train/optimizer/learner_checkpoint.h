// The trained models of a run as one checkpoint (train/checkpoint/checkpoint.h): the policy, and
// its critic where it has one.
#pragma once
#include <span>
#include <string>

#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/learner.h"

namespace rl {

// learners: the policy, then the critic. Error(kFailedPrecondition) while one of them has updates
// that are not published, or moments that were lost.
std::string save_learners(FileSystem& fs, const std::string& dir, const CheckpointMeta& meta,
                          const CheckpointRules& rules, std::span<Learner* const> learners);

// Also publishes the masters as the checkpoint's versions. When reading fails the weights are as
// they were; after moments began to change, all learners have lost theirs then. When packing what
// was read fails, Model::masters_moved() is true of the models that are not published.
CheckpointMeta load_learners(FileSystem& fs, const std::string& path,
                             const std::string& config_digest, std::span<Learner* const> learners);

}  // namespace rl
