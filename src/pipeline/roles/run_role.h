// What a pipeline has for its role (pipeline.role): the groups that it takes from a store and
// trains on, or those that it puts there and the weights that it follows. One of role both has
// nothing of this.
#pragma once
#include <memory>

#include "buffer/experience_store.h"
#include "pipeline/config/settings.gen.h"
#include "pipeline/roles/followed_weights.h"
#include "pipeline/roles/group_deliveries.h"
#include "pipeline/roles/store_claims.h"
#include "pipeline/session/loaded_model.h"

namespace rl {

struct RunRole {
  std::unique_ptr<StoreClaims> claims;          // train
  std::unique_ptr<GroupDeliveries> deliveries;  // rollout
  std::unique_ptr<FollowedWeights> weights;     // rollout with pipeline.weights_dir
};

// given: the store of the host; null: the directory buffer.store_path. kConflict naming keys if
// there are both, none for a role that needs one, or one for role both.
RunRole make_run_role(LoadedModel& model, const Settings& settings,
                      std::shared_ptr<ExperienceStore> given);

}  // namespace rl
