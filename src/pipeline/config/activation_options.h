// What trainer.recompute_* says of a role's activations, as the model takes it. Error naming
// trainer.recompute_modules for an entry that cannot act.
#pragma once
#include "model/activation_rule.h"
#include "pipeline/config/settings.gen.h"

namespace rl {

ActivationRule activation_rule_from(const Settings& settings);
// The critic's own, or the policy's.
ActivationRule critic_activation_rule_from(const Settings& settings);

}  // namespace rl
