// Samples a token from one row of logits, by rules that depend only on the row, the parameters,
// the previous ids and a uniform number u in [0, 1). The sampled id is the smallest, in id order,
// whose cumulative probability exceeds u. Of a sample's two log-probs the caller computes the one
// under the full softmax at temperature (it has the log-sum-exp); the one under the filtered
// distribution is computed here.
//
// Rules that change logits come first, in the order of vLLM (vllm/v1/sample/sampler.py, version 1
// engine), then the temperature, then the filters in the order of transformers (top-k, top-p,
// min-p; vLLM has min-p before them, which differs if top-p is also on):
//
//   allowed     ids that are not in the list get -inf; an empty list allows all
//   forbidden   ids in the row's list get -inf
//   bias        adds the bias of an id
//   repetition  divides a logit > 0 of an id that occurred before, multiplies one <= 0; once per id
//   frequency   subtracts frequency_penalty * (times the id was generated)
//   presence    subtracts presence_penalty from an id that was generated
//   top_k       keeps the k largest, and all ties of the k-th
//   top_p       keeps the smallest set of largest probabilities whose complement has a mass of at
//               most 1 - top_p, at least one; of equal logits the lower id is kept first
//   min_p       keeps p >= min_p * max p
//
// A row without a finite largest logit, or with a NaN, is Error(kNonFinite); -inf is a forbidden
// token.
#pragma once
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

namespace rl {

// Most ids per token whose log-probs are kept in addition to the token's.
inline constexpr int32_t kMaxTopLogprobs = 20;

struct LogitBias {
  int32_t id;
  float bias;  // -100..100
};

struct SamplingParams {
  float temperature = 1.0f;                  // 0 (greedy) or >= 1e-6
  float top_p = 1.0f;                        // (0, 1]; 1 = off
  float min_p = 0.0f;                        // [0, 1]; 0 = off
  float repetition_penalty = 1.0f;           // > 0; 1 = off
  int32_t top_k = 0;                         // >= 0; 0 = off
  float presence_penalty = 0.0f;             // -2..2; 0 = off
  float frequency_penalty = 0.0f;            // -2..2; 0 = off
  int32_t top_logprobs = 0;                  // 0..kMaxTopLogprobs; does not affect sampling
  std::vector<LogitBias> logit_bias{};       // each id once
  std::vector<int32_t> allowed_token_ids{};  // in any order
};

// Throws Error(kOutOfRange or kInvalidArgument) naming the option, the range and the value; NaN
// and infinities are refused. The size of the vocabulary is unknown here: ids are only checked to
// be >= 0.
void validate(const SamplingParams& params);

// True if nothing but the temperature shapes the distribution.
bool is_plain(const SamplingParams& params);
// True if a rule may change logits, whatever the temperature.
bool has_logit_rules(const SamplingParams& params);

// The lowest id with the largest logit.
int32_t greedy_token(std::span<const float> logits);

// One row to sample from, and the ids before it.
struct SamplingRow {
  std::span<const float> logits;
  bool tempered = false;                    // the logits are already divided by the temperature
  std::span<const int32_t> previous_ids{};  // prompt, then generated
  size_t num_generated = 0;                 // how many of previous_ids, at the end
  std::span<const int32_t> forbidden_ids{};
};

struct SampledToken {
  int32_t id;
  float log_prob;  // under the filtered distribution
};

// The filtered distribution of one row. Keeps its scratch between rows: nothing is allocated after
// construction. The scratch may be used for something else between the last access to a row and
// the next assign(). Not thread-safe; use one per thread.
class TokenDistribution {
 public:
  // Takes scratch_bytes(max_vocab) from `scratch`, which outlives it.
  explicit TokenDistribution(size_t max_vocab,
                             std::pmr::memory_resource* scratch = std::pmr::new_delete_resource());
  static uint64_t scratch_bytes(size_t max_vocab);
  // params has passed validate, row.logits.size() is 1..max_vocab; an id outside the row is
  // Error(kOutOfRange).
  void assign(const SamplingParams& params, const SamplingRow& row);
  SampledToken sample(double u) const;

  struct Entry {
    int32_t id;
    float x;     // tempered logit minus the row's maximum
    float mass;  // exp(x); probability = mass / total_mass
  };
  std::span<const Entry> kept() const { return kept_; }  // in id order
  double probability(const Entry& e) const { return e.mass / total_mass_; }
  double log_prob(const Entry& e) const { return e.x - log_total_mass_; }
  double total_mass() const { return total_mass_; }

 private:
  // Not initialised: a vocabulary of them would have to be written for every row.
  struct Count {
    Count() {}
    int32_t n;
  };
  void apply_rules(const SamplingParams& params, const SamplingRow& row);
  void penalise(const SamplingParams& params, const SamplingRow& row);
  void temper(float scale);
  float top_k_floor(int32_t top_k);
  void keep_at_least(float floor);
  void keep_nucleus(float top_p);
  void sum_masses();

  std::pmr::vector<float> x_;
  std::pmr::vector<float> mass_;
  std::pmr::vector<float> order_;
  std::pmr::vector<Entry> kept_;
  std::pmr::vector<Count> counts_;  // by id
  double total_mass_ = 0;
  double log_total_mass_ = 0;
};

}  // namespace rl
