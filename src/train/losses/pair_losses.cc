// Two passes over the tokens of a pair: sums, then gradients.
#include "train/losses/pair_losses.h"

#include <cmath>

#include "core/error.h"

namespace rl {
namespace {

struct ResponseSums {
  double current = 0, reference = 0, tokens = 0;
};

ResponseSums sum_response(const PairTokens& t, size_t first, size_t end) {
  ResponseSums s;
  for (size_t i = first; i < end; ++i) {
    if (t.mask[i] == 0) continue;
    s.current += t.current[i];
    s.reference += t.reference[i];
    s.tokens += 1;
  }
  return s;
}

struct Pair {
  size_t first, middle, end;  // tokens of the chosen response, then of the rejected one
  ResponseSums chosen, rejected;
  PairLoss loss;
};

// Calls f(number, pair) for each pair.
template <typename F>
void for_each_pair(const DpoParams& params, const PairTokens& t, const F& f) {
  RL_CHECK(t.lengths.size() % 2 == 0);
  size_t at = 0;
  for (size_t i = 0; i < t.lengths.size(); i += 2) {
    Pair p{};
    p.first = at;
    p.middle = p.first + static_cast<size_t>(t.lengths[i]);
    p.end = at = p.middle + static_cast<size_t>(t.lengths[i + 1]);
    p.chosen = sum_response(t, p.first, p.middle);
    p.rejected = sum_response(t, p.middle, p.end);
    p.loss = dpo_loss(params, {p.chosen.current, p.rejected.current, p.chosen.reference,
                               p.rejected.reference, p.chosen.tokens});
    f(i / 2, p);
  }
}

void spread(const PairTokens& t, size_t first, size_t end, double slope, std::span<double> out) {
  for (size_t i = first; i < end; ++i) {
    if (t.mask[i] != 0) out[i] += slope;
  }
}

}  // namespace

void PreferenceSums::add(const PreferenceSums& o) {
  pairs += o.pairs;
  right += o.right;
  loss += o.loss;
  reward_chosen += o.reward_chosen;
  reward_rejected += o.reward_rejected;
  logprob_chosen += o.logprob_chosen;
  logprob_rejected += o.logprob_rejected;
  nll += o.nll;
}

PreferenceSums pair_losses(const DpoParams& params, const PairTokens& tokens,
                           std::span<double> gradient) {
  PreferenceSums sums;
  const auto pairs = static_cast<double>(tokens.lengths.size() / 2);
  for_each_pair(params, tokens, [&](size_t, const Pair& p) {
    ++sums.pairs;
    sums.right += p.loss.reward_chosen > p.loss.reward_rejected;
    sums.loss += p.loss.value;
    sums.reward_chosen += p.loss.reward_chosen;
    sums.reward_rejected += p.loss.reward_rejected;
    sums.logprob_chosen += p.chosen.current;
    sums.logprob_rejected += p.rejected.current;
    sums.nll -= p.chosen.current / p.chosen.tokens;
    spread(tokens, p.first, p.middle, p.loss.d_chosen / pairs, gradient);
    spread(tokens, p.middle, p.end, p.loss.d_rejected / pairs, gradient);
  });
  return sums;
}

void find_non_finite_pairs(const DpoParams& params, const PairTokens& tokens, int32_t first_item,
                           std::vector<int32_t>& items) {
  for_each_pair(params, tokens, [&](size_t number, const Pair& p) {
    if (std::isfinite(p.loss.value) && std::isfinite(p.loss.d_chosen)) return;
    const int32_t chosen = first_item + 2 * static_cast<int32_t>(number);
    items.push_back(chosen);
    items.push_back(chosen + 1);
  });
}

}  // namespace rl
