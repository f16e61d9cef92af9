// The ops of the reference device between hidden states and log-probs or values. A log-prob is the
// two fp32 differences that its contract fixes, so that the sampler and the trainer agree.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "core/error.h"
#include "reference_device.h"
#include "reference_elements.h"

namespace rl::testing::reference {
namespace {

struct RowSums {
  double max, sum, weighted;
};

// Maximum, sum of exp(z - max), and that sum weighted by z - max.
RowSums measure(const float* z, int64_t n) {
  RowSums out{*std::max_element(z, z + n), 0, 0};
  for (int64_t i = 0; i < n; ++i) {
    const double below = z[i] - out.max, e = std::exp(below);
    out.sum += e;
    out.weighted += e * below;
  }
  return out;
}

RowStats stats_of(const RowSums& row) {
  const double log_sum = std::log(row.sum);
  return {static_cast<float>(row.max), static_cast<float>(log_sum), static_cast<float>(row.sum),
          static_cast<float>(log_sum - row.weighted / row.sum)};
}

// The smallest id whose cumulative probability exceeds u.
int32_t sample_plain(std::span<const float> z, const RowStats& stats, double u) {
  double sum = 0, cumulative = 0;
  for (const float v : z) sum += std::exp(static_cast<double>(v) - stats.max);
  for (size_t id = 0; id < z.size(); ++id) {
    cumulative += std::exp(static_cast<double>(z[id]) - stats.max);
    if (cumulative > u * sum) return static_cast<int32_t>(id);
  }
  return static_cast<int32_t>(z.size()) - 1;
}

// Through the distribution of algo/sampling; false if it is not finite.
bool sample_filtered(std::span<const float> z, const SampleRow& row, TokenChoice& choice) {
  TokenDistribution distribution(z.size());
  try {
    distribution.assign(*row.params,
                        {z, true, row.previous_ids, row.num_generated, row.forbidden_ids});
  } catch (const Error& error) {
    if (error.code == Code::kNonFinite) return false;
    throw;
  }
  const SampledToken token = distribution.sample(row.u);
  choice.id = token.id;
  choice.logprob_sampled = token.log_prob;
  return true;
}

void fill_top(std::span<const float> z, const RowStats& stats, int32_t count, TokenChoice& choice) {
  std::vector<int32_t> ids(z.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto at = [&](int32_t id) { return z[static_cast<size_t>(id)]; };
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return at(a) > at(b); });
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    choice.top_ids[i] = ids[i];
    choice.top_logprobs[i] = log_prob(at(ids[i]), stats);
  }
}

TokenChoice choose(std::span<const float> z, const RowStats& stats, const SampleRow& row) {
  TokenChoice choice;
  if (!std::isfinite(stats.max) || !std::isfinite(stats.log_sum)) return choice;
  const SamplingParams& params = *row.params;
  const bool plain = is_plain(params) && row.forbidden_ids.empty();
  const bool greedy =
      params.temperature == 0 && !has_logit_rules(params) && row.forbidden_ids.empty();
  if (plain) {
    choice.id = sample_plain(z, stats, row.u);
  } else if (greedy) {
    choice.id = static_cast<int32_t>(std::ranges::max_element(z) - z.begin());
  } else if (!sample_filtered(z, row, choice)) {
    return choice;
  }
  choice.logprob = log_prob(z[static_cast<size_t>(choice.id)], stats);
  if (plain) choice.logprob_sampled = choice.logprob;
  fill_top(z, stats, row.top_logprobs, choice);
  choice.finite = true;
  return choice;
}

}  // namespace

void gather_rows(Compute&, const GatherRowsArgs& a) {
  for (size_t i = 0; i < a.rows.size(); ++i)
    std::memcpy(a.to + i * a.row_bytes, a.from + static_cast<uint64_t>(a.rows[i]) * a.row_bytes,
                a.row_bytes);
}

void scatter_add_rows(Compute&, const ScatterAddRowsArgs& a) {
  for (size_t i = 0; i < a.rows.size(); ++i)
    for (int64_t c = 0; c < a.width; ++c)
      a.to[a.rows[i] * a.width + c] += a.from[static_cast<int64_t>(i) * a.width + c];
}

void head_logits(Compute& compute, const HeadLogitsArgs& a) {
  const ColumnSlices& slices = a.w.shape().slices;
  for (size_t r = 0; r < a.inv_temperature.size(); ++r) {
    const auto row = static_cast<int64_t>(r);
    float* z = a.z + row * slices.n;
    for (int64_t v = 0; v < slices.n; ++v) {
      z[v] = static_cast<float>(product(compute.dtype(), a.w, a.x, row, v)) * a.inv_temperature[r];
    }
    for (int64_t tile = 0; tile < slices.count(); ++tile) {
      const RowSums sums = measure(z + slices.first(tile), slices.size(tile));
      a.tiles[row * slices.count() + tile] = {static_cast<float>(sums.max),
                                              static_cast<float>(sums.sum),
                                              static_cast<float>(sums.weighted)};
    }
  }
  reference::combine_tiles(
      compute, {a.tiles, a.stats, static_cast<int64_t>(a.inv_temperature.size()), slices.count()});
}

void combine_tiles(Compute&, const CombineTilesArgs& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const std::span tiles(a.tiles + row * a.count, static_cast<size_t>(a.count));
    RowSums sums{std::ranges::max_element(tiles, {}, &TileStats::max)->max, 0, 0};
    for (const TileStats& tile : tiles) {
      const double below = tile.max - sums.max, scale = std::exp(below);
      sums.sum += scale * tile.sum;
      sums.weighted += scale * (tile.weighted + below * tile.sum);
    }
    a.stats[row] = stats_of(sums);
  }
}

void head_logprobs(Compute&, const HeadLogprobsArgs& a) {
  for (size_t i = 0; i < a.ids.size(); ++i) {
    a.logprobs[i] = log_prob(a.z[static_cast<int64_t>(i) * a.vocab + a.ids[i]], a.stats[i]);
    if (!a.entropies.empty()) a.entropies[i] = a.stats[i].entropy;
  }
}

void distill_rows(Compute&, const DistillRowsArgs& a) {
  const auto vocab = static_cast<size_t>(a.vocab);
  for (size_t i = 0; i < a.weight.size(); ++i) {
    const std::span student(a.student + i * vocab, vocab);
    const std::span teacher(a.teacher + i * vocab, vocab);
    a.value[i] = 0;
    if (a.weight[i] == 0) {
      std::ranges::fill(teacher, 0.0f);
      continue;
    }
    const RowStats &mine = a.student_stats[i], &its = a.teacher_stats[i];
    a.value[i] = distill_logits(
        a.params, {student, {mine.max, mine.log_sum}, teacher, {its.max, its.log_sum}},
        a.coef * a.weight[i]);
  }
}

void head_logits_backward(Compute& compute, const HeadLogitsBackwardArgs& a) {
  for (size_t r = 0; r < a.ids.size(); ++r) {
    const int64_t row = static_cast<int64_t>(r), first = row * a.vocab;
    const RowStats& stats = a.stats[r];
    for (int64_t v = a.first; v < a.first + a.count(); ++v) {
      const double log_p = static_cast<double>(a.z[first + v]) - stats.max - stats.log_sum;
      const double p = std::exp(log_p);
      double d = a.d_logprob[r] * ((v == a.ids[r] ? 1.0 : 0.0) - p) -
                 a.d_entropy[r] * p * (log_p + stats.entropy);
      if (a.d_tempered != nullptr) d += a.d_tempered[first + v];
      put(compute.dtype(), a.d_logits, row * a.count() + v - a.first, d * a.inv_temperature[r]);
    }
  }
}

void sample_rows(Compute&, const SampleRowsArgs& a) {
  for (size_t i = 0; i < a.rows.size(); ++i) {
    const std::span z(a.z + a.rows[i].row * a.vocab, static_cast<size_t>(a.vocab));
    a.choices[i] = choose(z, a.stats[a.rows[i].row], a.rows[i]);
  }
}

void value_rows(Compute& compute, const ValueRowsArgs& a) {
  for (size_t i = 0; i < a.rows.size(); ++i) {
    double sum = 0;
    for (int64_t c = 0; c < a.width; ++c)
      sum += get(compute.dtype(), a.hidden, a.rows[i] * a.width + c) * a.w[c];
    a.values[i] = static_cast<float>(sum);
  }
}

void value_rows_backward(Compute& compute, const ValueRowsBackwardArgs& a) {
  for (int64_t c = 0; c < a.width; ++c) {
    double sum = 0;
    for (size_t i = 0; i < a.rows.size(); ++i) {
      const int64_t at = a.rows[i] * a.width + c;
      a.d_hidden[at] += a.d_value[i] * a.w[c];
      sum += a.d_value[i] * get(compute.dtype(), a.hidden, at);
    }
    if (a.grad != nullptr) a.grad[c] = static_cast<float>(a.grad[c] + sum);
  }
}

}  // namespace rl::testing::reference
