// Parameters one after the other, unless the layout's runs do.
#include "train/options/update_runs.h"

#include "core/error.h"

namespace rl {
namespace {

constexpr const char* kKey = "optimizer.no_decay";

// The pattern that a word stands for, or the entry itself.
std::string_view pattern_of(std::string_view entry) {
  if (entry == "norms") return "*norm.weight";
  if (entry == "biases") return "*.bias";
  return entry;
}

bool matches_any(const WeightLayout& layout, std::string_view pattern) {
  for (const Parameter& p : layout.parameters()) {
    if (matches_pattern(pattern, p.tensor())) return true;
  }
  return false;
}

void require_matches(const WeightLayout& layout, const std::vector<std::string>& entries) {
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string_view pattern = pattern_of(entries[i]);
    if (pattern != entries[i] || matches_any(layout, pattern)) continue;
    throw Error(Code::kInvalidArgument, str(kKey, "[", i, "] is \"", entries[i],
                                            "\", which matches no parameter of the model"))
        .with_key(kKey)
        .with_expected("norms, biases, or parameter names, with * for any text")
        .with_location(str(kKey, "[", i, "]"));
  }
}

bool is_decayed(std::string_view name, const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    if (matches_pattern(pattern_of(entry), name)) return false;
  }
  return true;
}

// All of them are updated alike, in arrays of one layout.
bool updates_alike(const OptimizerOptions& o) {
  return o.no_decay.empty() && o.kind == OptimizerKind::kAdamw &&
         o.state_dtype != StateDtype::kInt8 && !o.offload.on;
}

}  // namespace

bool is_muon_matrix(const Parameter& p, const OptimizerOptions& options) {
  return options.kind == OptimizerKind::kMuon && p.shape.size() == 2 &&
         p.name.starts_with("model.layers.");
}

UpdateRuns update_runs(const WeightLayout& layout, const OptimizerOptions& options) {
  if (updates_alike(options)) return {layout.trained_runs(), {}, {}};
  const bool is_whole = !layout.stage().divides();  // a pattern may be for another stage
  if (!options.no_decay_may_miss && is_whole) require_matches(layout, options.no_decay);
  UpdateRuns runs;
  for (const Parameter& p : layout.parameters()) {
    if (!p.trainable()) continue;
    const TrainedRun run{p.offset, p.gradient, p.size};
    const bool decayed = is_decayed(p.tensor(), options.no_decay);
    if (is_muon_matrix(p, options)) {
      runs.matrices.push_back({run, p.shape[0], p.shape[1], decayed});
    } else {
      (decayed ? runs.decayed : runs.undecayed).push_back(run);
    }
  }
  return runs;
}

}  // namespace rl
