// RoPE angles: frequencies with their long-context scaling, tabulated as cos and sin.
//
// Contract
// - Unscaled, component i rotates by theta^(-2i/D) per position. Scaling changes frequencies only,
//   and yarn the length of the rotated vector too; everything is computed in double and rounded to
//   fp32 once, in the table.
// - linear: every frequency / factor.
// - llama3, with original length N: a frequency with fewer than low_freq_factor turns in N
//   positions is divided by factor, one with more than high_freq_factor turns is unchanged; in
//   between the two are interpolated linearly in the number of turns.
// - yarn: a frequency is interpolated between itself and itself / factor by a ramp over i. The ramp
//   runs between the components that make beta_fast and beta_slow turns in N positions, rounded
//   outwards with `truncate`. cos and sin are multiplied by attention_factor.
#pragma once
#include <cstdint>
#include <vector>

namespace rl {

enum class RopeScaling : uint8_t { kNone = 0, kLinear = 1, kLlama3 = 2, kYarn = 3 };

// Fields that a scaling does not use keep their defaults, so that equal specs compare equal.
struct RopeSpec {
  double theta = 0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  int64_t original_positions = 0;  // N of llama3 and yarn
  double low_freq_factor = 0, high_freq_factor = 0;
  double beta_fast = 0, beta_slow = 0;
  bool truncate = false;
  double attention_factor = 1;

  bool operator==(const RopeSpec&) const = default;
};

// The D/2 frequencies in radians per position.
std::vector<double> rope_frequencies(int64_t head_dim, const RopeSpec& spec);

// The attention factor yarn uses if a model gives none.
double yarn_attention_factor(double factor);

// cos and sin of every position: (positions, D/2) each.
struct RopeTable {
  int64_t half = 0;
  std::vector<float> cos, sin;
};
RopeTable make_rope_table(int64_t head_dim, int64_t positions, const RopeSpec& spec);

}  // namespace rl
