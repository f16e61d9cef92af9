// The trainer's forward-only pass with another head and another wanted row.
#include "train/roles/reward_model.h"

#include <vector>

#include "core/error.h"
#include "model/value_head.h"
#include "train/passes/pass_rules.h"

namespace rl {
uint64_t RewardModel::workspace_bytes(const TrainShape& shape, const StepOptions& options) {
  validate(options);
  return ScoringBuffers::bytes(shape, options);
}

RewardModel::RewardModel(const Model& model, const StepOptions& options, std::byte* workspace)
    : model_(model), options_(options), buffers_(shape_of(model), options, workspace) {
  validate(options);
  RL_CHECK(model.config().scalar_head);
}

void RewardModel::score(std::span<const Sample* const> samples, std::span<float> out) {
  RL_CHECK(out.size() == samples.size());
  const SampleLimits limits = with_last_row(forward_limits(options_, model_, ForwardOf::kOwn));
  std::vector<PackItem> items;
  for (const Sample* s : samples) {
    check_sequence(*s, limits);
    const auto index = static_cast<int32_t>(items.size());
    items.push_back(make_pack_item(*s, index, WantedTokens::kLast));
  }
  const PackRules rules = forward_rules(options_, model_, ForwardOf::kOwn);
  std::vector<int32_t> rows;
  std::vector<float> values;
  for (const auto& some : plan_micro_batches(items, rules)) {
    micro_.fill(some, rules, WantedTokens::kLast);
    RL_CHECK(micro_.blocks() <= buffers_.kv.num_blocks);
    forward(model_, micro_.batch(), buffers_.kv, buffers_.forward, nullptr);
    rows.clear();
    for (const WantedRow& w : micro_.wanted()) rows.push_back(w.row);
    values.resize(rows.size());
    value_forward(model_, buffers_.forward.hidden, rows, values);
    for (size_t i = 0; i < values.size(); ++i)
      out[static_cast<size_t>(micro_.wanted()[i].item)] = values[i];
  }
}

}  // namespace rl
