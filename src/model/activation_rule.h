// What a training forward keeps of its layers, and what the backward computes again. It is computed
// with the forward's ops on the same inputs, so no bit depends on the rule.
//
// Layers are computed again in groups: from the input of the first, which is kept, the backward
// computes the values of all layers of the group, then goes back through them. One group's values
// are held at a time.
#pragma once
#include <algorithm>
#include <cstdint>

namespace rl {

enum class RecomputeGranularity : uint8_t { kNone, kSelective, kFull };
enum class RecomputeMethod : uint8_t { kUniform, kBlock };

// Values of a layer by what computes them.
struct LayerParts {
  bool input = true;      // the residual at entry
  bool qkv = true;        // queries, keys and values; the projection where heads have norms
  bool attention = true;  // its output and log-sum-exp
  bool residual = true;   // after attention, and what the projection added to it
  bool mlp = true;        // gate and up, and what the MLP added
  bool all() const { return input && qkv && attention && residual && mlp; }
  bool operator==(const LayerParts&) const = default;
};

struct LayerGroup {
  int64_t first, end;
};

struct ActivationRule {
  RecomputeGranularity granularity = RecomputeGranularity::kNone;
  // Full: groups of num_layers layers, or each of the first num_layers for itself.
  RecomputeMethod method = RecomputeMethod::kUniform;
  int64_t num_layers = 1;
  // Selective: these parts of every layer.
  bool qkv = false, attention = false, residual = false, mlp = false;
  // Inputs that are kept go to host memory. On the device there are two of them at a time: one that
  // is read and one that is copied.
  bool offload = false;

  bool operator==(const ActivationRule&) const = default;

  bool is_full() const { return granularity == RecomputeGranularity::kFull; }
  LayerGroup group_of(int64_t layer, int64_t layers) const {
    if (!is_full() || method == RecomputeMethod::kBlock) return {layer, layer + 1};
    const int64_t first = layer / num_layers * num_layers;
    return {first, std::min(first + num_layers, layers)};
  }
  LayerParts kept(int64_t layer) const {
    if (granularity == RecomputeGranularity::kNone) return {};
    if (!is_full()) return {true, !qkv, !attention, !residual, !mlp};
    if (method == RecomputeMethod::kBlock && layer >= num_layers) return {};
    const bool first = method == RecomputeMethod::kBlock || layer % num_layers == 0;
    return {first, false, false, false, false};
  }
  int64_t num_inputs(int64_t layers) const {
    int64_t count = 0;
    for (int64_t l = 0; l < layers; ++l) count += kept(l).input;
    return count;
  }
};
constexpr int64_t kInputsOnDevice = 2;

}  // namespace rl
