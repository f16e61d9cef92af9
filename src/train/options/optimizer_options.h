// What an optimizer is, what it keeps and where, and which parameters it treats otherwise:
// optimizer.*, apart from the numbers of AdamW (StepOptions). Fixed when a trainer is made.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "algo/optimizers/muon.h"

namespace rl {

enum class OptimizerKind : uint8_t { kAdamw, kMuon };
enum class StateDtype : uint8_t { kF32, kBf16, kInt8 };
enum class GradDtype : uint8_t { kF32, kBf16 };

// optimizer.cpu_offload: moments of a part of the parameters are in the host's memory, and their
// steps are taken there.
struct OffloadOptions {
  bool on = false;
  double fraction = 1;  // optimizer.cpu_offload_fraction of the trained elements, in (0, 1]
  bool overlap = true;  // optimizer.overlap_d2h_h2d: two parameters are on their way at once
  bool operator==(const OffloadOptions&) const = default;
};

// parallel.zero_stage: what a rank keeps of its part of the parameters alone
// (train/optimizer/shards.h).
struct ZeroOptions {
  int stage = 0;
  int ranks = 1;                // that divide it: all that sum gradients, or a group of them
  bool overlap_sums = false;    // parallel.overlap_grad_reduce
  bool overlap_gather = false;  // parallel.overlap_param_gather
  bool operator==(const ZeroOptions&) const = default;
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdamw;  // optimizer.name
  MuonParams muon = {};
  StateDtype state_dtype = StateDtype::kF32;  // of moments
  GradDtype grad_dtype = GradDtype::kF32;     // trainer.grad_dtype
  // trainer.free_grad_buffers_on_publish: between updates gradients have no memory.
  bool frees_gradients = false;
  uint64_t seed = 0;    // runtime.seed: rounding of moments and gradients
  uint32_t stream = 0;  // of that, apart from other models
  OffloadOptions offload = {};
  // optimizer.no_decay: parameters without weight decay. Patterns as in formats/trainable.h, and
  // the words of train/options/update_runs.h.
  std::vector<std::string> no_decay = {};
  bool no_decay_may_miss = false;  // a pattern may match nothing: the list is another model's
  ZeroOptions zero = {};
  double ema = 0;  // optimizer.ema, in [0, 1); 0: no averages are kept
};

// Throws Error(kOutOfRange) naming the option, or Error(kConflict) naming two.
void validate(const OptimizerOptions& options);

// Error(kNotChangeable) naming the first that differs: the memory plan depends on it.
void require_same_states(const OptimizerOptions& now, const OptimizerOptions& next);

}  // namespace rl
