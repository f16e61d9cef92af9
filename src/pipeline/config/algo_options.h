// Converts the settings of algo.* to the records that algorithms take. Pure functions; the options
// are valid, and what their rules cannot express is checked here: errors name the key.
#pragma once
#include "formats/open/open_weight_source.h"
#include "pipeline/config/advantage_options.h"
#include "pipeline/config/settings.gen.h"
#include "train/options/trainer_options.h"

namespace rl {

// The head of the trained model.
ModelHead trained_head(const Settings& settings);
// Whether log-probs of a frozen reference are needed.
bool uses_reference(const Settings& settings);
// Whether the policy learns from a teacher's whole rows, in the trainer's head.
bool distills_rows(const Settings& settings);
// Objective, policy loss, aggregation, corrections, entropy bonus and KL term.
void fill_algorithm(const Settings& settings, TrainerOptions& trainer);
// Clamp and importance correction of the KL.
KlBounds kl_bounds_from(const Settings& settings);
// Estimator, shaping, KL in the reward and the filters of single samples.
AdvantageOptions advantage_options_from(const Settings& settings);
KlControllerParams kl_controller_from(const Settings& settings);

}  // namespace rl
