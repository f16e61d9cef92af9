// A block for each request. Filters pass over the row eight times each; what is drawn in id order
// is drawn by warps that have consecutive ids: first the warp, then the id.
#include "device/cuda/lang/arithmetic.h"
#include "device/cuda/lang/launch.h"
#include "ops/cuda/kernels/head/lane_values.h"
#include "ops/cuda/kernels/head/sampling_draw.h"
#include "ops/cuda/kernels/head/sampling_filtered.h"
#include "ops/cuda/kernels/rows/row_team.h"

namespace rl::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kLanes;
constexpr int kDigitBits = 4, kDigits = 1 << kDigitBits;
// Shared memory: the sums of the warps, a result for all threads, the sums for each candidate of a
// digit, and those of each thread.
constexpr size_t kResultAt = kWarps * sizeof(int64_t);
constexpr size_t kTotalsAt = kResultAt + sizeof(int64_t);
constexpr size_t kPartsAt = kTotalsAt + (kDigits - 1) * sizeof(int64_t);
constexpr size_t kSharedBytes = kPartsAt + (kDigits - 1) * kThreads * sizeof(int64_t);

// Ascends with x; -0 is below +0, so x must not be -0.
RL_DEVICE uint32_t key_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

RL_DEVICE float penalised(float logit, float penalty) {
  return logit > 0 ? logit / penalty : logit * penalty;
}

RL_DEVICE float edited(const FilteredRequest& request, const LogitEdit& edit, float z) {
  if (request.only_allowed != 0 && (edit.kinds & LogitEdit::kAllowed) == 0) z = -HUGE_VALF;
  if ((edit.kinds & LogitEdit::kForbidden) != 0) z = -HUGE_VALF;
  if ((edit.kinds & LogitEdit::kBiased) != 0) z += edit.bias;
  if ((edit.kinds & LogitEdit::kOccurred) == 0) return z;
  z = penalised(z, request.repetition);
  if (edit.generated == 0) return z;
  z -= request.frequency * static_cast<float>(edit.generated) * request.scale;
  return z - request.presence * request.scale;
}

RL_DEVICE float max_block(float value) {
  float* const of_warps = shared_at<float>(0);
  value = max_lanes(value);
  if (lane_index() == 0) of_warps[warp_index()] = value;
  sync_block();
  for (int warp = 0; warp < kWarps; ++warp) value = max_of(value, of_warps[warp]);
  sync_block();
  return value;
}

RL_DEVICE int64_t add_block_units(int64_t value) { return add_block(value, shared_at<int64_t>(0)); }

template <typename Weight>
RL_DEVICE int64_t total_weight(int64_t n, const Weight& weight) {
  int64_t sum = 0;
  for (int64_t id = thread_index(); id < n; id += kThreads) sum += weight(id);
  return add_block_units(sum);
}

// The sums over the block of one value per candidate, in shared memory.
using DigitSums = int64_t[kDigits - 1];
RL_DEVICE const int64_t* add_digit_sums(const DigitSums& mine) {
  int64_t* const parts = shared_at<int64_t>(kPartsAt);
  int64_t* const totals = shared_at<int64_t>(kTotalsAt);
  for (int i = 0; i < kDigits - 1; ++i) parts[i * kThreads + thread_index()] = mine[i];
  sync_block();
  for (int i = warp_index(); i < kDigits - 1; i += kWarps) {
    int64_t sum = 0;
    for (int j = lane_index(); j < kThreads; j += kLanes) sum += parts[i * kThreads + j];
    sum = add_lanes(sum);
    if (lane_index() == 0) totals[i] = sum;
  }
  sync_block();
  return totals;
}

// The largest key t for which the weights of the ids with keys below t sum to at most the limit.
struct Floor {
  uint32_t key;
  int64_t below;  // that sum
};
template <typename Weight>
RL_DEVICE Floor find_floor(const float* x, int64_t n, int64_t limit, const Weight& weight) {
  Floor floor{0, 0};
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    DigitSums sums = {};  // of the ids below each candidate for the digit
    for (int64_t id = thread_index(); id < n; id += kThreads) {
      const uint32_t key = key_of(x[id]);
      const int64_t w = weight(id);
      for (uint32_t digit = 1; digit < kDigits; ++digit)
        sums[digit - 1] += key < (floor.key | digit << shift) ? w : 0;
    }
    const int64_t* const below = add_digit_sums(sums);
    uint32_t best = 0;
    for (uint32_t digit = 1; digit < kDigits; ++digit)
      if (below[digit - 1] <= limit) best = digit;
    if (best != 0) floor = {floor.key | best << shift, below[best - 1]};
  }
  return floor;
}

// The smallest id, in id order, whose cumulative weight is above the target, which is below the
// total.
template <typename Weight>
RL_DEVICE int64_t find_in_order(int64_t n, int64_t target, const Weight& weight) {
  int64_t* const of_warps = shared_at<int64_t>(0);
  int64_t* const result = shared_at<int64_t>(kResultAt);
  const int64_t each = (n + kThreads - 1) / kThreads * kLanes;  // ids of a warp
  const int64_t first = warp_index() * each, end = first + each < n ? first + each : n;
  int64_t sum = 0;
  for (int64_t id = first + lane_index(); id < end; id += kLanes) sum += weight(id);
  sum = add_lanes(sum);
  if (lane_index() == 0) of_warps[warp_index()] = sum;
  sync_block();
  int64_t before = 0;
  for (int warp = 0; warp < warp_index(); ++warp) before += of_warps[warp];
  const bool has_it = before <= target && target < before + sum;
  for (int64_t from = first; has_it && from < end; from += kLanes) {
    const int64_t id = from + lane_index();
    const int64_t up_to = before + scan_lanes(id < end ? weight(id) : 0);
    const int lane = first_lane(up_to > target);
    if (lane < kLanes) {
      if (lane_index() == 0) *result = from + lane;
      break;
    }
    before = shuffle(up_to, kLanes - 1);
  }
  sync_block();
  return *result;
}

// A row and what is kept of it.
struct Filtered {
  float* x;  // (V)
  int64_t n;
  double units;
  uint32_t floor = 0;                   // keys below it are dropped
  int64_t last_tie = int64_t{1} << 62;  // and ids above this with the key `tie`
  uint32_t tie = 0;
  double least = -HUGE_VAL;  // and x below it

  RL_DEVICE bool keeps(int64_t id) const {
    const uint32_t key = key_of(x[id]);
    return key >= floor && (key != tie || id <= last_tie) && x[id] >= least;
  }
  RL_DEVICE int64_t mass(int64_t id) const {
    return keeps(id) ? to_units(exp_of(x[id]), units) : 0;
  }
  RL_DEVICE int64_t total() const {
    return total_weight(n, [&](int64_t id) { return mass(id); });
  }
};

// Fills x with the edited logits less the largest. False if that is not finite, or one is NaN.
RL_DEVICE bool prepare(const SampleFilteredParams& p, const FilteredRequest& request,
                       const Filtered& row) {
  const float* const z = p.z + request.row * p.vocab;
  for (int64_t id = thread_index(); id < row.n; id += kThreads)
    row.x[id] = request.only_allowed != 0 ? -HUGE_VALF : z[id];
  sync_block();
  const LogitEdit* const edits = p.edits + request.first_edit;
  for (int64_t i = thread_index(); i < request.num_edits; i += kThreads)
    row.x[edits[i].id] = edited(request, edits[i], z[edits[i].id]);
  sync_block();
  float max = -HUGE_VALF;
  int64_t nans = 0;
  for (int64_t id = thread_index(); id < row.n; id += kThreads) {
    max = max_of(max, row.x[id]);
    nans += row.x[id] != row.x[id] ? 1 : 0;
  }
  max = max_block(max);
  if (add_block_units(nans) != 0 || !is_finite(max)) return false;
  for (int64_t id = thread_index(); id < row.n; id += kThreads) row.x[id] = row.x[id] - max;
  sync_block();
  return true;
}

RL_DEVICE void keep_top_k(Filtered& row, int64_t top_k) {
  if (top_k == 0 || top_k >= row.n) return;
  const auto one = [](int64_t) { return int64_t{1}; };
  row.floor = find_floor(row.x, row.n, row.n - top_k, one).key;
}

RL_DEVICE void keep_nucleus(Filtered& row, double dropped) {
  if (dropped <= 0) return;
  const auto mass = [&](int64_t id) { return row.mass(id); };
  const int64_t total = row.total(), most = total - to_units(1, row.units);
  const auto share = static_cast<int64_t>(dropped * static_cast<double>(total));
  const int64_t limit = share < most ? share : most;
  const Floor floor = find_floor(row.x, row.n, limit, mass);
  const auto ties = [&](int64_t id) {
    return int64_t{key_of(row.x[id]) == floor.key && row.keeps(id) ? 1 : 0};
  };
  const int64_t num_ties = total_weight(row.n, ties);
  const int64_t first_tie = find_in_order(row.n, 0, ties);
  const int64_t kept = num_ties - (limit - floor.below) / row.mass(first_tie);
  const int64_t last_tie = find_in_order(row.n, kept - 1, ties);
  row.floor = floor.key;
  row.tie = floor.key;
  row.last_tie = last_tie;
}

struct Choice {
  int64_t id;
  float logprob;  // of the distribution
};
RL_DEVICE Choice choose(const FilteredRequest& request, Filtered& row) {
  if (request.greedy != 0) {
    const auto is_top = [&](int64_t id) { return int64_t{row.x[id] == 0 ? 1 : 0}; };
    return {find_in_order(row.n, 0, is_top), 0};
  }
  keep_top_k(row, request.top_k);
  keep_nucleus(row, request.dropped);
  row.least = request.least;
  const int64_t total = row.total();
  const int64_t id =
      find_in_order(row.n, draw_target(request.u, total), [&](int64_t i) { return row.mass(i); });
  const double log_total = log_of(static_cast<double>(total) / row.units);
  return {id, static_cast<float>(row.x[id] - log_total)};
}

RL_KERNEL void RL_BOUNDS(kThreads, 1) sample_filtered_kernel(SampleFilteredParams p) {
  const FilteredRequest request = p.requests[block_x()];
  const RowStats stats = p.stats[request.row];
  Filtered row{.x = p.x + block_x() * p.vocab, .n = p.vocab, .units = p.units};
  SampledToken token{-1, 0, 0, 0};
  if (is_finite(stats.max) && is_finite(stats.log_sum) && prepare(p, request, row)) {
    const Choice choice = choose(request, row);
    const float z = p.z[request.row * p.vocab + choice.id];
    token = {static_cast<int32_t>(choice.id), log_prob(z, stats), choice.logprob, 1};
  }
  if (thread_index() == 0) p.tokens[request.token] = token;
}

}  // namespace

void sample_filtered(cudaStream_t stream, const SampleFilteredParams& p) {
  launch("sample_filtered", sample_filtered_kernel, {p.count, kThreads, kSharedBytes}, stream, p);
}

}  // namespace rl::cuda
