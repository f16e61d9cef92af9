// Converts the keys of algo.* to the records that algorithms take. Pure functions; the option set
// is valid, and what its rules cannot express is checked here: errors name the key.
#pragma once
#include "formats/open/open_weight_source.h"
#include "options/options.h"
#include "pipeline/config/advantage_options.h"
#include "train/options/trainer_options.h"

namespace rl {

Objective objective_of(const OptionSet& options);
// The head of the trained model.
ModelHead trained_head(const OptionSet& options);
// Whether log-probs of a frozen reference are needed.
bool uses_reference(const OptionSet& options);
// Whether the policy learns from a teacher's whole rows, in the trainer's head.
bool distills_rows(const OptionSet& options);
// Objective, policy loss, aggregation, corrections, entropy bonus and KL term.
void fill_algorithm(const OptionSet& options, TrainerOptions& trainer);
// Clamp and importance correction of the KL.
KlBounds kl_bounds_from(const OptionSet& options);
// Estimator, shaping, KL in the reward and the filters of single samples.
AdvantageOptions advantage_options_from(const OptionSet& options);
KlControllerParams kl_controller_from(const OptionSet& options);

}  // namespace rl
