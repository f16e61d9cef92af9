// The arrays of a fixture model that checkpoints hold, without the model.
#pragma once
#include <algorithm>
#include <vector>

#include "support/tiny_model.h"
#include "train/checkpoint/checkpoint.h"

namespace rl::testing {

inline const ModelConfig& checkpointed_config() {
  static const auto* const kModel = new TinyModel(TinyModel::fixture("llama"));
  return kModel->model->config();
}

// A model's arrays; values differ from parameter to parameter and from array to array.
struct CheckpointedArrays {
  explicit CheckpointedArrays(float base, const TrainableRule& rule = {})
      : layout(checkpointed_config(), rule) {
    masters.resize(static_cast<size_t>(layout.total()));
    first.resize(static_cast<size_t>(layout.gradient_total()));
    second = scratch = first;
    for (const Parameter& p : layout.parameters()) {
      base += 0.5f;
      for (int64_t i = 0; i < p.size; ++i) {
        const float value = base + static_cast<float>(i % 97);
        masters[static_cast<size_t>(p.offset + i)] = value;
        if (!p.trainable()) continue;
        first[static_cast<size_t>(p.gradient + i)] = value + 1000;
        second[static_cast<size_t>(p.gradient + i)] = value + 2000;
      }
    }
  }
  CheckpointArrays view() {
    return {&layout,
            masters,
            {{"first_moments", trained_tensors(layout, {first, &Parameter::gradient})},
             {"second_moments", trained_tensors(layout, {second, &Parameter::gradient})}}};
  }
  void clear() {
    for (auto* v : {&masters, &first, &second}) std::ranges::fill(*v, 0.0f);
  }

  WeightLayout layout;
  std::vector<float> masters, first, second, scratch;
};

}  // namespace rl::testing
