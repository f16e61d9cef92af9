// The trained parameters by what an optimizer step does to them: AdamW or Muon, with weight decay
// or without. Muon takes the matrices of layers; embedding, head and vectors remain AdamW's.
//
// optimizer.no_decay lists what has no weight decay: patterns over names, in which * stands for any
// text, and two words: "norms" stands for the weights of all norms, "biases" for all biases. A word
// may match nothing, a pattern must match a parameter.
#pragma once
#include <vector>

#include "model/weights.h"
#include "train/options/optimizer_options.h"

namespace rl {

struct MuonMatrix {
  TrainedRun run;
  int64_t rows, columns;
  bool decayed;
};

struct UpdateRuns {
  std::vector<TrainedRun> decayed, undecayed;  // of AdamW
  std::vector<MuonMatrix> matrices;
};

// Together all trained parameters. A run is one parameter, unless all moments are flat fp32 arrays
// and every parameter has decay: then runs are the layout's. Error(kInvalidArgument) names a
// pattern that matches nothing.
UpdateRuns update_runs(const WeightLayout& layout, const OptimizerOptions& options);

// Whether Muon updates the parameter.
bool is_muon_matrix(const Parameter& p, const OptimizerOptions& options);

}  // namespace rl
