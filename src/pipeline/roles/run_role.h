// What a pipeline has for its role (pipeline.role): the groups that it takes from a store and
// trains on, or those that it puts there and the weights that it follows. One of role both has
// nothing of this. Every rank has it, and the first one has the store.
#pragma once
#include <memory>

#include "buffer/experience_store.h"
#include "pipeline/config/settings.gen.h"
#include "pipeline/roles/followed_weights.h"
#include "pipeline/roles/shared_claims.h"
#include "pipeline/roles/shared_deliveries.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

struct RunRole {
  FirstRank first;                               // of train and rollout
  std::unique_ptr<SharedClaims> claims;          // train
  std::unique_ptr<SharedDeliveries> deliveries;  // rollout
  std::unique_ptr<FollowedWeights> weights;      // rollout with pipeline.weights_dir
};

// The ranks that run one loop with this one: of role train all, which have all groups, otherwise
// those that divide its model, unless each of them generates for itself.
SharedInputs loop_ranks(Runtime& runtime, const Settings& settings);

// given: the store of the host; null: the directory buffer.store_path. kConflict naming keys if
// there are both, none for a role that needs one, one for role both, or one on another rank than
// the first.
RunRole make_run_role(LoadedModel& model, const Settings& settings,
                      std::shared_ptr<ExperienceStore> given);

}  // namespace rl
