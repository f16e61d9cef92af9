// It has arenas of its own and shares the matrix products.
#include "pipeline/reference_model.h"

namespace rl {

std::unique_ptr<Model> load_reference(const LoadedModel& policy, const OptionSet& options) {
  if (options.get_string("algo.kl.where") == "none") return nullptr;
  const std::string& given = options.get_string("model.reference_path");
  Runtime& runtime = policy.runtime();
  const auto source = open_weight_source(runtime.fs(), given.empty() ? policy.path() : given);
  ModelOptions model;
  model.max_positions = policy.model().max_positions();
  model.block_size = policy.model().block_size();
  return std::make_unique<Model>(*source, runtime.matmul(), model);
}

}  // namespace rl
