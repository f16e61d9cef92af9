// What the checkpoints of a run take: a copy that a thread writes while the run goes on, and what
// ranks that divide a model have of each other's parts meanwhile.
#include "core/checked.h"
#include "model/whole_tensors.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/plan/planner.h"

namespace rl {
namespace {

// The model of all stages, but for what changes no size. Layers of other stages are taken to be as
// large as the largest of this one.
ModelConfig all_stages_of(ModelConfig config) {
  if (!config.stage.divides()) return config;
  config.layers = config.stage.all_layers;
  config.stage = {};
  config.window = 0;
  config.windowed.clear();
  if (config.own_layers.empty()) return config;
  const auto size = [](const LayerShape& s) { return (s.heads + s.kv_heads) * s.head_dim + s.ffn; };
  LayerShape largest = config.own_layers.front();
  for (const LayerShape& s : config.own_layers) {
    if (size(s) > size(largest)) largest = s;
  }
  config.own_layers.resize(static_cast<size_t>(config.layers), largest);
  return config;
}

}  // namespace

// Of what checkpoint.contents needs of policy and critic.
void Planner::add_checkpoint_copy(const TrainerSizes& policy) {
  const CheckpointContents contents = checkpoint_contents_from(settings_);
  const auto copied = [&](const TrainerSizes& sizes, bool masters) {
    return (masters ? sizes.trained_masters : 0) + (contents.optimizer ? sizes.whole_states : 0);
  };
  uint64_t bytes = copied(policy, contents.model || contents.hf_model);
  if (has_critic()) bytes += copied(critic_sizes(min_tokens()), contents.model);
  if (bytes != 0) always_.push_back({kCheckpointCopy, "always", bytes});
}

// The first stage has the tensors of all, and each rank of a tensor axis the pieces of its group.
// Of divided states these are a part, of which a copy is whole.
uint64_t Planner::gathered_bytes() const {
  const ParallelSettings& parallel = settings_.parallel;
  const bool writes = use_ == PlanUse::kPipeline && !settings_.checkpoint.dir.empty();
  const bool has_stages = parallel.pipeline > 1 && config_.stage.first();
  if (!writes || (parallel.tensor == 1 && !has_stages)) return 0;
  const CheckpointContents contents = checkpoint_contents_from(settings_);
  const auto ranks = static_cast<uint64_t>(zero_group_of(settings_));
  const auto gathered = [&](const StoredBytes& stored, bool masters) {
    CheckedU64 bytes(masters ? stored.masters : 0);
    if (!contents.optimizer) return bytes;
    if (parallel.zero_stage == 0) return bytes + CheckedU64(stored.states);
    bytes = bytes + CheckedU64(stored.states / ranks);
    return settings_.checkpoint.async ? bytes + CheckedU64(stored.states) : bytes;
  };
  const auto whole = [&](const ModelConfig& config) {
    const ModelConfig parts = with_parts(config, 0, config.split.parts);
    return has_stages ? all_stages_of(parts) : parts;
  };
  const int64_t tokens = min_tokens();
  const StoredBytes policy = Trainer::stored_bytes(
      whole(config_), trainer_options_from(settings_, tokens, max_model_len_, step_samples()));
  const CheckedU64 bytes = gathered(policy, contents.model || contents.hf_model);
  if (!has_critic()) return bytes.get();
  const StoredBytes critic =
      Trainer::stored_bytes(whole(with_scalar_head(config_)),
                            critic_options_from(settings_, tokens, max_model_len_, step_samples()));
  return (bytes + gathered(critic, contents.model)).get();
}

}  // namespace rl
