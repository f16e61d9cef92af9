// From one row of logits to a token, by rules that depend on nothing but the row, the parameters
// and a uniform number u in [0, 1). Order of the filters, as in transformers: repetition penalty,
// temperature, top-k, top-p, min-p. A draw is the smallest id, in id order, whose cumulative
// probability exceeds u. Both log-probs of a sample: the one under the full temperature softmax is
// the caller's (it has the log-sum-exp); the one of the filtered distribution is here.
//
//   penalty  divides a logit > 0 of an id in previous_ids, multiplies one <= 0; once per id
//   top_k    keeps the k largest, and all ties of the k-th
//   top_p    keeps the smallest set of largest probabilities whose complement has a mass of at most
//            1 - top_p, at least one; of equal logits the lower id is kept first
//   min_p    keeps p >= min_p * max p
//
// A row whose log-sum-exp is not finite, or with a NaN, is Error(kNonFinite); -inf is a forbidden
// token.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rl {

struct SamplingParams {
  float temperature = 1.0f;         // 0 (greedy) or >= 1e-6
  float top_p = 1.0f;               // (0, 1]; 1 = off
  float min_p = 0.0f;               // [0, 1]; 0 = off
  float repetition_penalty = 1.0f;  // > 0; 1 = off
  int32_t top_k = 0;                // >= 0; 0 = off
};

// Throws Error(kOutOfRange) naming the option, the range and the value; NaN and infinities are
// refused.
void validate(const SamplingParams& params);

// True when nothing but the temperature shapes the distribution, so that sample_plain applies.
bool is_plain(const SamplingParams& params);

// The lowest id with the largest logit.
int32_t greedy_token(std::span<const float> logits);

struct PlainRow {
  std::span<const float> logits;
  float inv_temperature;  // > 0
  float log_sum_exp;      // log sum exp(logits * inv_temperature)
};

// A draw from softmax(logits * inv_temperature), that is from
// p_i = exp(logits_i * inv_temperature - log_sum_exp), in fp32. Tiles of 512 ids are summed by 16
// fp32 lanes, tiles and the tile that crosses u in double, in id order; the scan stops at the
// crossing. Where rounding leaves the whole sum at or below u, the most probable id is drawn.
int32_t sample_plain(const PlainRow& row, double u);

struct TokenDraw {
  int32_t id;
  float log_prob;  // under the filtered distribution
};

// The filtered distribution of one row. Keeps its scratch between rows: nothing is allocated once
// max_vocab is reserved. Not thread-safe; use one per thread.
class TokenDistribution {
 public:
  explicit TokenDistribution(size_t max_vocab);
  // params has passed validate, logits.size() is 1..max_vocab; an id outside the row is
  // Error(kOutOfRange).
  void assign(const SamplingParams& params, std::span<const float> logits,
              std::span<const int32_t> previous_ids);
  TokenDraw sample(double u) const;

  struct Entry {
    int32_t id;
    float x;     // tempered logit less the row's maximum
    float mass;  // exp(x); probability = mass / total_mass
  };
  std::span<const Entry> kept() const { return kept_; }  // in id order
  double probability(const Entry& e) const { return e.mass / total_mass_; }
  double log_prob(const Entry& e) const { return e.x - log_total_mass_; }
  double total_mass() const { return total_mass_; }

 private:
  void temper(const SamplingParams& params, std::span<const float> logits,
              std::span<const int32_t> previous_ids);
  float top_k_floor(int32_t top_k);
  void keep_at_least(float floor);
  void keep_nucleus(float top_p);
  void sum_masses();

  std::vector<float> x_;
  std::vector<float> mass_;
  std::vector<float> order_;
  std::vector<Entry> kept_;
  double total_mass_ = 0;
  double log_total_mass_ = 0;
};

}  // namespace rl
