// A trainer's own part of a checkpoint, as one JSON text: its counters, and a text of the host.
// Weights, moments and counters of the optimizer are the other part.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/update/trainer_identity.h"

namespace rl {

struct TrainerState {
  uint64_t steps = 0;             // training steps done
  std::optional<double> kl_coef;  // of the adaptive controller
  std::string host;               // UTF-8, returned unread
  TrainerIdentity identity = {};  // of the trainer that saved
};

std::string render_trainer_state(const TrainerState& state);
// Error(kDataLoss) naming location and key; kIncompatible for another format.
TrainerState parse_trainer_state(const std::string& text, const std::string& location);

}  // namespace rl
