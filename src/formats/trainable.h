// Which parameters of a model are trained: model.freeze and model.train_only, lists of patterns
// over parameter names. A pattern must match a whole name; * stands for any text.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "formats/model_config.h"

namespace rl {

struct TrainableRule {
  std::vector<std::string> freeze;      // what matches one of them is not trained
  std::vector<std::string> train_only;  // not empty: nothing else is trained
  bool operator==(const TrainableRule&) const = default;
  bool trains_all() const { return freeze.empty() && train_only.empty(); }
};

bool matches_pattern(std::string_view pattern, std::string_view name);

// Whether each of the tensors is trained. Error(kInvalidArgument) names the option if a pattern
// matches none of them, or if nothing is left to train.
std::vector<bool> trainable_tensors(const TrainableRule& rule,
                                    const std::vector<TensorInfo>& tensors);

}  // namespace rl
