// One sequence with its keys and values in a shuffled block table, and a reference attention in
// double: what the tests of attention and of its backward compare with.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/attention.h"
#include "ops/rope_kv.h"
#include "support/random_values.h"

namespace rl::testing {

// Types of q and out, of keys and values, and how they are multiplied.
struct AttentionTypes {
  Dtype q, kv;
  AttentionProducts products = AttentionProducts::kBest;
};
// Every kernel, on every machine.
inline const std::vector<AttentionTypes> kAttentionTypes = {
    {Dtype::kF32, Dtype::kF32},
    {Dtype::kBf16, Dtype::kBf16, AttentionProducts::kFp32},
    {Dtype::kBf16, Dtype::kBf16, AttentionProducts::kBf16Dot},
    {Dtype::kF32, Dtype::kBf16},
    {Dtype::kBf16, Dtype::kF32},
};

class AttentionCase {
 public:
  AttentionCase(const AttentionShape& shape, int64_t length, int64_t window,
                AttentionProducts products)
      : shape_(shape),
        rule_{0.9f / std::sqrt(static_cast<float>(shape.head_dim)), window},
        products_(products),
        length_(length),
        width_((shape.heads + 2 * shape.kv_heads) * shape.head_dim),
        qkv_(random_values(length_ * width_, 1)),
        table_(make_rope_table(shape_.head_dim, length_, {.theta = 1e4})) {
    const int64_t num_blocks = (length_ + shape_.block_size - 1) / shape_.block_size;
    blocks_.resize(num_blocks);
    std::iota(blocks_.rbegin(), blocks_.rend(), 1);  // reversed, block 0 unused
    // Unwritten slots hold NaN: nothing may read them.
    pool_ = as_dtype(
        std::vector<float>((num_blocks + 1) * shape_.block_bytes() / dtype_bytes(shape_.kv_dtype),
                           std::nanf("")),
        shape_.kv_dtype);
    for (int64_t p = 0; p < length_; ++p)
      places_.push_back({static_cast<int32_t>(p), blocks_[p / shape_.block_size]});
    q_.resize(length_ * shape_.heads * shape_.padded_dim() * dtype_bytes(shape_.dtype),
              std::byte{0xff});
    out_.resize(length_ * shape_.heads * shape_.head_dim * dtype_bytes(shape_.dtype));
    lse_.resize(length_ * shape_.heads);
    rope_and_write_kv({shape_, qkv_.data(), nullptr, nullptr, places_.data(), &table_, q_.data(),
                       pool_.data(), length_});
  }

  // Component i of the key or value at position p, as the pool stores it.
  double key(int64_t g, int64_t p, int64_t i) const {
    return pool_at(g, p, i * shape_.block_size + p % shape_.block_size);
  }
  double value(int64_t g, int64_t p, int64_t i) const {
    return pool_at(g, p, shape_.padded_dim() * (shape_.block_size + p % shape_.block_size) + i);
  }
  double pool_at(int64_t g, int64_t p, int64_t offset) const {
    const int64_t block = blocks_[p / shape_.block_size];
    return element(pool_.data() + (block * shape_.kv_heads + g) * shape_.kv_head_bytes(),
                   shape_.kv_dtype, offset);
  }
  double query(int64_t p, int64_t h, int64_t i) const {
    return element(q_.data(), shape_.dtype, (p * shape_.heads + h) * shape_.padded_dim() + i);
  }
  std::vector<double> weights(int64_t p, int64_t h, double* lse = nullptr) const {
    const int64_t g = h / shape_.group();
    std::vector<double> s(p + 1, -INFINITY);
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= p; ++j) {
      if (rule_.window != 0 && p - j >= rule_.window) continue;  // a weight of zero
      double dot = 0;
      for (int64_t i = 0; i < shape_.head_dim; ++i) dot += query(p, h, i) * key(g, j, i);
      s[j] = dot * rule_.scale;
      max = std::max(max, s[j]);
    }
    for (double& v : s) sum += v = std::exp(v - max);
    for (double& v : s) v /= sum;
    if (lse) *lse = max + std::log(sum);
    return s;
  }
  bool rounds_weights() const { return products_ == AttentionProducts::kBf16Dot; }
  void attend(int64_t chunk) {
    std::vector<float> scratch(attention_scratch_floats(shape_), std::nanf(""));
    for (int64_t p = 0; p < length_; p += chunk)
      for (int64_t g = 0; g < shape_.kv_heads; ++g)
        attention(args(), {p, std::min(chunk, length_ - p), p, blocks_.data()}, {g, g + 1},
                  scratch.data());
  }
  AttentionArgs args() {
    return {shape_, rule_, q_.data(), pool_.data(), out_.data(), lse_.data(), nullptr, products_};
  }

  AttentionShape shape_;
  AttentionRule rule_;
  AttentionProducts products_;
  int64_t length_, width_;
  std::vector<float> qkv_;
  RopeTable table_;
  std::vector<int32_t> blocks_;
  std::vector<std::byte> pool_, q_, out_;
  std::vector<RowPlace> places_;
  std::vector<float> lse_;
};

}  // namespace rl::testing
