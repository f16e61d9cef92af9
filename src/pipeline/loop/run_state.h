// The pipeline's own part of a checkpoint, as one JSON text: the state of the run between two
// steps. Weights, moments and counters of the optimizer are the trainer's part.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "buffer/ledger.h"

namespace rl {

struct RunState {
  uint64_t step = 0;    // steps done
  uint64_t cursor = 0;  // ordinal of the next group
  // Groups before it that are neither trained on nor dropped, in order: a run that resumes draws
  // them again. None between the steps of a run that does not generate ahead.
  std::vector<uint64_t> open_ordinals;
  uint64_t next_eval_ordinal = 0;
  uint64_t seed = 0;
  int64_t max_tokens = 0;         // rows of a training micro-batch
  std::optional<double> kl_coef;  // of the adaptive controller
  LedgerCounts ledger;            // without what is open

  bool operator==(const RunState&) const = default;
};

// How far a run has come. Its loop changes it between two steps, under Control's lock.
struct RunProgress {
  RunState boundary;     // after the last whole step
  uint64_t version = 0;  // of the weights
};

// What the schedule of a run has of it where the run resumes.
std::vector<uint64_t> resumption(const RunState& state);

std::string render_run_state(const RunState& state);
// Error(kDataLoss) naming location and key.
RunState parse_run_state(const std::string& text, const std::string& location);

}  // namespace rl
