// What a trainer that loads a checkpoint must have in common with the one that saved it, so that it
// goes on with the same bits: as texts by option key, so that a difference is named.
#pragma once
#include <map>
#include <string>

#include "pipeline/config/settings.gen.h"

namespace rl {

class LoadedModel;
struct MemoryPlan;

using TrainerIdentity = std::map<std::string, std::string>;

// The options that a trainer reads and that its bits depend on; sizes that the memory plan chose,
// under the options that bound them; under model.path the configuration of the model, wherever its
// files are. Weights are in the checkpoint, except those of a reference and a teacher: these count
// by their paths, where they are used.
TrainerIdentity trainer_identity(const Settings& settings, const MemoryPlan& plan,
                                 const LoadedModel& model);

// Error(kIncompatible) with a part for each key that differs. Options that a checkpoint does not
// name have their default in it.
void require_same_identity(const TrainerIdentity& stored, const TrainerIdentity& now,
                           const std::string& location);

}  // namespace rl
