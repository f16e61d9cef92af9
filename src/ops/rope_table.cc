// Frequencies in double; the table rounds each cos and sin once.
#include "ops/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rl {
namespace {

double llama3_frequency(double f, const RopeSpec& s) {
  const double turns = static_cast<double>(s.original_positions) * f / (2 * std::numbers::pi);
  if (turns < s.low_freq_factor) return f / s.factor;
  if (turns > s.high_freq_factor) return f;
  const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * f / s.factor + smooth * f;
}

struct Ramp {
  double low, high;
  double at(double i) const { return std::clamp((i - low) / (high - low), 0.0, 1.0); }
};

// The component, as a real number, that makes `turns` turns in the original length.
double component_of(double turns, double head_dim, const RopeSpec& s) {
  const double n = static_cast<double>(s.original_positions);
  return head_dim * std::log(n / (turns * 2 * std::numbers::pi)) / (2 * std::log(s.theta));
}

Ramp yarn_ramp(int64_t head_dim, const RopeSpec& s) {
  const double dim = static_cast<double>(head_dim);
  double low = component_of(s.beta_fast, dim, s), high = component_of(s.beta_slow, dim, s);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;  // avoids a division by zero: the ramp becomes a step
  return {low, high};
}

}  // namespace

double yarn_attention_factor(double factor) {
  return factor <= 1 ? 1.0 : 0.1 * std::log(factor) + 1.0;
}

std::vector<double> rope_frequencies(int64_t head_dim, const RopeSpec& s) {
  std::vector<double> out(head_dim / 2);
  const Ramp ramp = s.scaling == RopeScaling::kYarn ? yarn_ramp(head_dim, s) : Ramp{0, 1};
  for (size_t i = 0; i < out.size(); ++i) {
    const double f =
        std::pow(s.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    switch (s.scaling) {
      case RopeScaling::kNone:
        out[i] = f;
        break;
      case RopeScaling::kLinear:
        out[i] = f / s.factor;
        break;
      case RopeScaling::kLlama3:
        out[i] = llama3_frequency(f, s);
        break;
      case RopeScaling::kYarn: {
        const double stretched = ramp.at(static_cast<double>(i));
        out[i] = f / s.factor * stretched + f * (1 - stretched);
        break;
      }
    }
  }
  return out;
}

RopeTable make_rope_table(int64_t head_dim, int64_t positions, const RopeSpec& spec) {
  RopeTable t;
  t.half = head_dim / 2;
  t.cos.resize(positions * t.half);
  t.sin.resize(positions * t.half);
  const std::vector<double> frequencies = rope_frequencies(head_dim, spec);
  for (int64_t i = 0; i < t.half; ++i) {
    for (int64_t p = 0; p < positions; ++p) {
      const double angle = frequencies[i] * static_cast<double>(p);
      t.cos[p * t.half + i] = static_cast<float>(std::cos(angle) * spec.attention_factor);
      t.sin[p * t.half + i] = static_cast<float>(std::sin(angle) * spec.attention_factor);
    }
  }
  return t;
}

}  // namespace rl
