#include "formats/layer_stage.h"

#include <utility>

#include "core/error.h"

namespace rl {
namespace {

// Layers of each stage that is not given its own number; 0: there is none.
struct OtherStages {
  int64_t stages, layers;
};
OtherStages others(const StageCut& cut, int64_t layers) {
  return {cut.stages - (cut.first_layers > 0 ? 1 : 0) - (cut.last_layers > 0 ? 1 : 0),
          layers - cut.first_layers - cut.last_layers};
}

[[noreturn]] void refuse(const StageCut& cut, int64_t layers) {
  const int64_t last = layers - layers / cut.stages * (cut.stages - 1);
  const std::string numbers =
      str("parallel.pipeline_first_layers = 0 and parallel.pipeline_last_layers = ", last);
  throw Error(Code::kIncompatible,
              str("the model has ", layers, " layers, which parallel.pipeline = ", cut.stages,
                  " stages cannot have with parallel.pipeline_first_layers = ", cut.first_layers,
                  " and parallel.pipeline_last_layers = ", cut.last_layers,
                  ": those of the other stages would not be equal numbers of at least 1"))
      .with_key("parallel.pipeline")
      .with_expected(layers < cut.stages ? str("1..", layers) : numbers);
}

void check(const StageCut& cut, int64_t layers) {
  const OtherStages rest = others(cut, layers);
  const bool fits = rest.stages == 0 ? rest.layers == 0
                                     : rest.stages > 0 && rest.layers >= rest.stages &&
                                           rest.layers % rest.stages == 0;
  if (!fits) refuse(cut, layers);
}

int64_t layers_of(const StageCut& cut, int64_t layers, int64_t index) {
  if (index == 0 && cut.first_layers > 0) return cut.first_layers;
  if (index + 1 == cut.stages && cut.last_layers > 0) return cut.last_layers;
  const OtherStages rest = others(cut, layers);
  return rest.layers / rest.stages;
}

}  // namespace

ModelConfig with_stage(ModelConfig config, const StageCut& cut, int64_t index) {
  RL_CHECK(!config.stage.divides() && index >= 0 && index < cut.stages);
  if (!cut.divides()) return config;
  check(cut, config.layers);
  int64_t first = 0;
  for (int64_t s = 0; s < index; ++s) first += layers_of(cut, config.layers, s);
  const int64_t count = layers_of(cut, config.layers, index);
  const auto take = [&](auto& of_layers) {
    if (of_layers.empty()) return;
    of_layers = {of_layers.begin() + first, of_layers.begin() + first + count};
  };
  take(config.windowed);
  take(config.own_layers);
  config.stage = {cut.stages, index, first, config.layers};
  config.layers = count;
  return config;
}

}  // namespace rl
