// The ops of an optimizer step. Random words come from Philox itself, one by one.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "core/rng.h"
#include "reference_device.h"
#include "reference_elements.h"

namespace rl::testing::reference {

void squared_norm(Compute&, const SquaredNormArgs& a) {
  a.sum = 0;
  for (size_t chunk = 0; chunk < a.chunk_sums.size(); ++chunk) {
    const int64_t first = static_cast<int64_t>(chunk) * kOptimizerChunk,
                  end = std::min(a.count, first + kOptimizerChunk);
    a.chunk_sums[chunk] = 0;
    for (int64_t i = first; i < end; ++i)
      a.chunk_sums[chunk] += static_cast<double>(a.values[i]) * a.values[i];
    a.sum += a.chunk_sums[chunk];
  }
}

void square_chunk(Compute&, const SquareChunkArgs& a) {
  a.sum = 0;
  for (const float value : a.values) a.sum += static_cast<double>(value) * value;
}

// Moments are rounded once when they are stored; the parameter is updated from the unrounded ones.
void adamw(Compute&, const AdamwArgs& a) {
  const AdamwStep& s = a.step;
  for (int64_t i = 0; i < a.count; ++i) {
    const double g = static_cast<double>(s.grad_scale) * a.grad[i];
    const double m = a.m[i] + (g - a.m[i]) * s.one_minus_beta1;
    const double v = static_cast<double>(a.v[i]) * s.beta2 + s.one_minus_beta2 * g * g;
    const double p = static_cast<double>(a.param[i]) * s.decay_factor;
    a.m[i] = static_cast<float>(m);
    a.v[i] = static_cast<float>(v);
    a.param[i] = static_cast<float>(p + s.minus_step_size * m /
                                            (std::sqrt(v) / s.sqrt_bias_correction2 + s.eps));
  }
}

namespace {

// The word of an element of a block, from Philox itself.
uint32_t word_of(const RoundingKey& key, uint64_t block, int64_t element) {
  constexpr uint64_t kOutputs = kRoundingBlock / 4;
  const auto j = static_cast<uint64_t>(element);
  const uint64_t counter = block * kOutputs + j % kOutputs;
  return philox4x32_10(
      {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), key.step, key.stream},
      key.key)[j / kOutputs];
}

struct Moments {
  double m, v;
};

// New moments, of which the parameter is updated before they are rounded.
Moments advance(const AdamwStep& s, Moments now, float grad, float& param) {
  const double g = static_cast<double>(s.grad_scale) * grad;
  const Moments next = {now.m + (g - now.m) * s.one_minus_beta1,
                        now.v * s.beta2 + s.one_minus_beta2 * g * g};
  const double p = static_cast<double>(param) * s.decay_factor;
  param = static_cast<float>(p + s.minus_step_size * next.m /
                                     (std::sqrt(next.v) / s.sqrt_bias_correction2 + s.eps));
  return next;
}

// The code next below or above a share in [0, 1] of a map that grows as a power of the code.
int64_t code_of(double share, double codes, int power, double random) {
  const auto value = [&](double code) { return std::pow(code / codes, power); };
  const double low = std::min(std::floor(codes * std::pow(share, 1.0 / power)), codes - 1);
  const double up = (share - value(low)) / (value(low + 1) - value(low));
  return static_cast<int64_t>(random < up ? low + 1 : low);
}

double random_of(uint32_t bits16) { return (bits16 + 0.5) / 65536; }

}  // namespace

void adamw_bf16(Compute&, const AdamwBf16Args& a) {
  for (int64_t i = 0; i < a.all.count; ++i) {
    const uint64_t place = a.all.index + static_cast<uint64_t>(i);
    const uint32_t word =
        word_of(a.rounding, place / kRoundingBlock, static_cast<int64_t>(place % kRoundingBlock));
    const Moments next = advance(a.step, {bf16_value(a.all.m[i]), bf16_value(a.all.v[i])},
                                 a.all.grad[i], a.all.param[i]);
    a.all.m[i] = round_bf16(static_cast<float>(next.m), word & 0xffffu);
    a.all.v[i] = round_bf16(static_cast<float>(next.v), word >> 16);
  }
}

void adamw_int8(Compute&, const AdamwInt8Args& a) {
  const AdamwInt8Arrays& all = a.all;
  for (int64_t block = 0; block < num_int8_blocks(all.count); ++block) {
    const int64_t first = block * kInt8Block, end = std::min(all.count, first + kInt8Block);
    std::vector<Moments> next;
    Moments most = {0, 0};
    for (int64_t i = first; i < end; ++i) {
      const double c = all.m[i] / 127.0, u = all.v[i] / 255.0;
      const Moments now = {all.m_scales[block] * std::copysign(std::pow(c, 4), c),
                           all.v_scales[block] * std::pow(u, 8)};
      next.push_back(advance(a.step, now, all.grad[i], all.param[i]));
      most = {std::max(most.m, std::abs(next.back().m)), std::max(most.v, next.back().v)};
    }
    most = {most.m < FLT_MIN ? 0 : most.m, most.v < FLT_MIN ? 0 : most.v};
    all.m_scales[block] = static_cast<float>(most.m);
    all.v_scales[block] = static_cast<float>(most.v);
    for (int64_t i = first; i < end; ++i) {
      const Moments& n = next[static_cast<size_t>(i - first)];
      const uint32_t word =
          word_of(a.rounding, all.first_block + static_cast<uint64_t>(block), i - first);
      const double m_share = most.m > 0 ? std::abs(n.m) / most.m : 0,
                   v_share = most.v > 0 ? n.v / most.v : 0;
      const int64_t m = code_of(m_share, 127, 4, random_of(word & 0xffffu));
      const int64_t v = code_of(v_share, 255, 8, random_of(word >> 16));
      all.m[i] = static_cast<int8_t>(n.m < 0 ? -m : m);
      all.v[i] = static_cast<uint8_t>(n.v > 0 ? std::max<int64_t>(v, 2) : v);
    }
  }
}

void scale_add(Compute&, const ScaleAddArgs& a) {
  const ScaleAdd& s = a.all;
  for (int64_t i = 0; i < a.count; ++i) {
    const double y = s.y_scale == 0 ? 0 : static_cast<double>(s.y_scale) * s.y[i];
    s.y[i] = static_cast<float>(y + (s.x == nullptr ? 0 : static_cast<double>(s.x_scale) * s.x[i]));
  }
}

void transpose_rows(Compute& compute, const TransposeRowsArgs& a) {
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t column = 0; column < a.columns; ++column)
      put(compute.dtype(), a.to, column * a.rows + row, a.from[row * a.columns + column]);
}

void average_floats(Compute&, const AverageFloatsArgs& a) {
  const double weight = static_cast<float>(1 - a.decay);
  for (int64_t i = 0; i < a.count; ++i) {
    const double average = a.averages[i];
    a.averages[i] = static_cast<float>(average + weight * (a.weights[i] - average));
  }
}

void add_rounded(Compute&, const AddRoundedArgs& a) {
  const RoundedSum& all = a.all;
  const int64_t rows = static_cast<int64_t>(a.rows.size());
  const int64_t count = a.rows.empty() ? all.count : rows * a.width;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t to =
        a.rows.empty() ? i : a.rows[static_cast<size_t>(i / a.width)] * a.width + i % a.width;
    const uint64_t place = all.index + static_cast<uint64_t>(to);
    const uint32_t word =
        word_of(a.rounding, place / kRoundingBlock, static_cast<int64_t>(place % kRoundingBlock));
    const float sum = bf16_value(all.to[to]) + all.from[i];
    all.to[to] = std::isnan(sum) ? 0x7fc0 : round_bf16(sum, word & 0xffffu);
    all.from[i] = 0;
  }
}

void widen_bf16(Compute&, const WidenBf16Args& a) {
  for (int64_t i = 0; i < a.count; ++i) a.to[i] = bf16_value(a.from[i]);
}

void exchange_floats(Compute&, const ExchangeFloatsArgs& a) {
  for (int64_t i = 0; i < a.count; ++i) std::swap(a.a[i], a.b[i]);
}

}  // namespace rl::testing::reference
