// The keys of algo.* as the records that algorithms take. Pure functions; the option set is valid,
// and what its rules cannot say is checked here: errors name the key.
#pragma once
#include "algo/advantage.h"
#include "core/options.h"
#include "train/trainer_options.h"

namespace rl {

// Policy loss, aggregation, corrections, entropy bonus and KL term.
void fill_algorithm(const OptionSet& options, TrainerOptions& trainer);
AdvantageParams advantage_from(const OptionSet& options);

}  // namespace rl
