// The ops of the reference device between hidden states and log-probs or values. A log-prob is the
// two fp32 differences that its contract fixes, so that the sampler and the trainer agree.
#include <algorithm>
#include <cstring>

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
    a.stats[row] = stats_of(measure(z, slices.n));
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
    const int64_t first = static_cast<int64_t>(r) * a.vocab;
    const RowStats& stats = a.stats[r];
    for (int64_t v = 0; v < a.vocab; ++v) {
      const double log_p = static_cast<double>(a.z[first + v]) - stats.max - stats.log_sum;
      const double p = std::exp(log_p);
      double d = a.d_logprob[r] * ((v == a.ids[r] ? 1.0 : 0.0) - p) -
                 a.d_entropy[r] * p * (log_p + stats.entropy);
      if (a.d_tempered != nullptr) d += a.d_tempered[first + v];
      put(compute.dtype(), a.d_logits, first + v, d * a.inv_temperature[r]);
    }
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
