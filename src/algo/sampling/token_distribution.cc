// The general path of sampling: rules and filters over one row. Probabilities are exp(x) in fp32
// with x relative to the row's maximum; sums are in double in id order. Rules may be applied to a
// row that is already tempered: a repetition penalty only scales a logit and keeps its sign, and
// what the other rules add is tempered too.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "algo/choice.h"
#include "algo/sampling/sampling.h"
#include "algo/wide.h"
#include "core/checked.h"

namespace rl {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

float penalised(float logit, float penalty) {
  return logit > 0 ? logit / penalty : logit * penalty;
}

struct Range {
  float max = -HUGE_VALF;
  bool has_nan = false;
};

void require_in_row(const char* what, std::span<const int32_t> ids, size_t size) {
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < size) continue;
    throw Error(Code::kOutOfRange, str(what, " ", id, " is outside the row of ", size, " logits"))
        .with_key(what);
  }
}

// The factor that tempers a logit of the row.
float tempering(const SamplingParams& params) {
  return params.temperature == 0 ? 1.0f : 1.0f / params.temperature;
}

Range range_of(std::span<const float> x) {
  Range r;
  for (const float v : x) {
    r.has_nan |= std::isnan(v);
    r.max = std::max(r.max, v);
  }
  return r;
}

}  // namespace

TokenDistribution::TokenDistribution(size_t max_vocab, std::pmr::memory_resource* scratch)
    : x_(scratch), mass_(scratch), order_(scratch), kept_(scratch), counts_(max_vocab, scratch) {
  x_.reserve(max_vocab);
  mass_.reserve(max_vocab);
  order_.reserve(max_vocab);
  kept_.reserve(max_vocab);
}

uint64_t TokenDistribution::scratch_bytes(size_t max_vocab) {
  return (CheckedU64(max_vocab) * CheckedU64(3 * sizeof(float) + sizeof(Entry) + sizeof(int32_t)))
      .get();
}

void TokenDistribution::apply_rules(const SamplingParams& params, const SamplingRow& row) {
  const std::span<const float> logits = row.logits;
  const float scale = row.tempered ? tempering(params) : 1.0f;
  require_in_row("allowed_token_ids", params.allowed_token_ids, logits.size());
  require_in_row("forbidden_ids", row.forbidden_ids, logits.size());
  if (params.allowed_token_ids.empty()) {
    x_.assign(logits.begin(), logits.end());
  } else {
    x_.assign(logits.size(), -HUGE_VALF);
    for (const int32_t id : params.allowed_token_ids) {
      x_[static_cast<size_t>(id)] = logits[static_cast<size_t>(id)];
    }
  }
  for (const int32_t id : row.forbidden_ids) x_[static_cast<size_t>(id)] = -HUGE_VALF;
  for (const LogitBias& b : params.logit_bias) {
    require_in_row("logit_bias", {&b.id, 1}, logits.size());
    x_[static_cast<size_t>(b.id)] += b.bias * scale;
  }
  penalise(params, row);
}

// An id is penalised at its first occurrence; then its count is marked as done.
void TokenDistribution::penalise(const SamplingParams& params, const SamplingRow& row) {
  if (params.repetition_penalty == 1 && params.frequency_penalty == 0 &&
      params.presence_penalty == 0) {
    return;
  }
  constexpr int32_t kDone = -1;
  const std::span<const int32_t> ids = row.previous_ids;
  require_in_row("previous_ids", ids, x_.size());
  RL_CHECK(row.num_generated <= ids.size());
  const float scale = row.tempered ? tempering(params) : 1.0f;
  for (const int32_t id : ids) counts_[static_cast<size_t>(id)].n = 0;
  for (const int32_t id : ids.last(row.num_generated)) ++counts_[static_cast<size_t>(id)].n;
  for (const int32_t id : ids) {
    const auto i = static_cast<size_t>(id);
    const int32_t count = std::exchange(counts_[i].n, kDone);
    if (count == kDone) continue;
    x_[i] = penalised(x_[i], params.repetition_penalty);
    if (count == 0) continue;
    x_[i] -= params.frequency_penalty * static_cast<float>(count) * scale;
    x_[i] -= params.presence_penalty * scale;
  }
}

void TokenDistribution::temper(float scale) {
  const Range range = range_of(x_);
  if (range.has_nan || !std::isfinite(range.max)) {
    throw Error(Code::kNonFinite, "a logit of the row to sample from is not finite")
        .with_key("logits");
  }
  const size_t n = x_.size();
  mass_.resize(n);
  wide::run([&]() RL_WIDE_INLINE {
    float* __restrict x = x_.data();
    float* __restrict mass = mass_.data();
    const float max = range.max;
    for (size_t i = 0; i < n; ++i) {
      x[i] = (x[i] - max) * scale;
      mass[i] = wide::exp(x[i]);
    }
  });
}

// The k-th largest x, or the lowest finite value if top_k keeps everything: -inf is a forbidden
// token.
float TokenDistribution::top_k_floor(int32_t top_k) {
  if (top_k == 0 || static_cast<size_t>(top_k) >= x_.size()) return kLowest;
  order_ = x_;
  const auto kth = order_.begin() + (top_k - 1);
  std::nth_element(order_.begin(), kth, order_.end(), std::greater<>());
  return std::max(*kth, kLowest);
}

void TokenDistribution::keep_at_least(float floor) {
  kept_.clear();
  for (size_t i = 0; i < x_.size(); ++i) {
    if (x_[i] >= floor) kept_.push_back({static_cast<int32_t>(i), x_[i], mass_[i]});
  }
}

// Ids far too small for the nucleus are not sorted: even V of them together stay below the mass 1
// - top_p that is dropped anyway.
void TokenDistribution::keep_nucleus(float top_p) {
  const double dropped_mass = (1.0 - top_p) * total_mass_;
  const double small = 0.5 * dropped_mass / static_cast<double>(kept_.size());
  double cumulative = 0;
  std::erase_if(kept_, [&](const Entry& e) {
    if (e.mass >= small) return false;
    cumulative += e.mass;
    return true;
  });
  std::sort(kept_.begin(), kept_.end(),
            [](const Entry& a, const Entry& b) { return a.x != b.x ? a.x < b.x : a.id > b.id; });
  auto first_kept = kept_.begin();
  while (first_kept + 1 != kept_.end()) {
    cumulative += first_kept->mass;
    if (cumulative > dropped_mass) break;
    ++first_kept;
  }
  kept_.erase(kept_.begin(), first_kept);
  std::sort(kept_.begin(), kept_.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
}

void TokenDistribution::sum_masses() {
  total_mass_ = 0;
  for (const Entry& e : kept_) total_mass_ += e.mass;
  log_total_mass_ = std::log(total_mass_);
}

void TokenDistribution::assign(const SamplingParams& params, const SamplingRow& row) {
  RL_CHECK(!row.logits.empty() && row.logits.size() <= counts_.size());
  apply_rules(params, row);
  temper(row.tempered ? 1.0f : tempering(params));
  if (params.temperature == 0) {
    kept_.assign(1, {greedy_token(x_), 0.0f, 1.0f});
    sum_masses();
    return;
  }
  keep_at_least(top_k_floor(params.top_k));
  sum_masses();
  if (params.top_p < 1) keep_nucleus(params.top_p);
  if (params.min_p > 0) {
    const double floor = std::log(static_cast<double>(params.min_p));
    std::erase_if(kept_, [floor](const Entry& e) { return e.x < floor; });
  }
  sum_masses();
}

SampledToken TokenDistribution::sample(double u) const {
  RL_CHECK(u >= 0 && u < 1 && !kept_.empty());
  const double target = u * total_mass_;
  double cumulative = 0;
  const Entry* chosen = nullptr;
  for (const Entry& e : kept_) {
    if (e.mass == 0) continue;
    chosen = &e;
    cumulative += e.mass;
    if (cumulative > target) break;
  }
  return {chosen->id, static_cast<float>(log_prob(*chosen))};
}

}  // namespace rl
