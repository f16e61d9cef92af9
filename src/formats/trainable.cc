// Patterns are matched greedily: after a mismatch the last * takes one more character.
#include "formats/trainable.h"

#include "core/error.h"

namespace rl {
namespace {

constexpr const char *kFreeze = "model.freeze", *kTrainOnly = "model.train_only";

// Whether each of the tensors matches one of the patterns.
std::vector<bool> matched_tensors(const char* key, const std::vector<std::string>& patterns,
                                  const std::vector<TensorInfo>& tensors) {
  std::vector<bool> matched(tensors.size());
  for (size_t i = 0; i < patterns.size(); ++i) {
    bool found = false;
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (!matches_pattern(patterns[i], tensors[t].name)) continue;
      found = matched[t] = true;
    }
    if (found) continue;
    throw Error(Code::kInvalidArgument, str(key, "[", i, "] is \"", patterns[i],
                                            "\", which matches no parameter of the model"))
        .with_key(key)
        .with_expected("parameter names, with * for any text, as in model.layers.0.*")
        .with_location(str(key, "[", i, "]"));
  }
  return matched;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<bool> trainable_tensors(const TrainableRule& rule,
                                    const std::vector<TensorInfo>& tensors) {
  const std::vector<bool> frozen = matched_tensors(kFreeze, rule.freeze, tensors);
  const std::vector<bool> only = matched_tensors(kTrainOnly, rule.train_only, tensors);
  std::vector<bool> trained(tensors.size());
  bool any = false;
  for (size_t t = 0; t < tensors.size(); ++t) {
    trained[t] = !frozen[t] && (rule.train_only.empty() || only[t]);
    any = any || trained[t];
  }
  if (any) return trained;
  const char* key = rule.train_only.empty() ? kFreeze : kTrainOnly;
  throw Error(Code::kInvalidArgument, str(key, " leaves no parameter to train")).with_key(key);
}

}  // namespace rl
