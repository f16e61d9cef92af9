// It has arenas of its own and shares the matrix products.
#include "pipeline/reference_model.h"

#include <tuple>

#include "core/error.h"

namespace rl {
namespace {

auto sizes(const ModelConfig& c) {
  return std::tuple(c.vocab, c.hidden, c.layers, c.heads, c.kv_heads, c.head_dim, c.ffn);
}

// The plan has room for a second model of the policy's shape only.
void require_shape(const ModelConfig& policy, const ModelConfig& given, const std::string& path) {
  if (sizes(policy) == sizes(given)) return;
  const auto shape = [](const ModelConfig& c) {
    return str("vocab ", c.vocab, ", hidden ", c.hidden, ", layers ", c.layers, ", heads ", c.heads,
               ", kv_heads ", c.kv_heads, ", head_dim ", c.head_dim, ", ffn ", c.ffn);
  };
  throw Error(Code::kIncompatible, str("the reference model ", path, " has ", shape(given),
                                       ", but the policy has ", shape(policy)))
      .with_key("model.reference_path")
      .with_expected(shape(policy))
      .with_location(path);
}

}  // namespace

std::unique_ptr<Model> load_reference(const LoadedModel& policy, const OptionSet& options) {
  if (options.get_string("algo.kl.where") == "none") return nullptr;
  const std::string& given = options.get_string("model.reference_path");
  Runtime& runtime = policy.runtime();
  const std::string& path = given.empty() ? policy.path() : given;
  const auto source = open_weight_source(runtime.fs(), path);
  require_shape(policy.config(), source->config(), path);
  ModelOptions model;
  model.max_positions = policy.model().max_positions();
  model.block_size = policy.model().block_size();
  model.kv_dtype = policy.model().kv_format().dtype;
  return std::make_unique<Model>(*source, runtime.matmul(), model);
}

}  // namespace rl
