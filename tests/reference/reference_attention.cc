// Attention of the reference device: heads, keys and values, the softmax over all keys of a row at
// once, and the backwards of both.
#include <algorithm>

#include "reference_device.h"
#include "reference_elements.h"

namespace rl::testing::reference {
namespace {

using Head = std::vector<double>;

double dot(const Head& a, const Head& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
void add_scaled(const Head& from, double scale, Head& to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] += scale * from[i];
}

// (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin) at a position; direction -1 is the inverse.
void rotate(const RopeTable& table, int64_t position, double direction, Head& x) {
  const auto half = static_cast<size_t>(table.half), at = static_cast<size_t>(position) * half;
  for (size_t i = 0; i < half; ++i) {
    const double cos = table.cos[at + i], sin = direction * table.sin[at + i];
    const double low = x[i], high = x[half + i];
    x[i] = low * cos - high * sin;
    x[half + i] = high * cos + low * sin;
  }
}

NormOfRow head_norm_of(const HeadNorm& norm, const AttentionShape& s, int64_t head) {
  return {norm.weight, norm.eps, head < s.heads ? norm.q : norm.k, s.head_dim};
}

// A head of a row after bias, norm and rotation.
Head prepared_head(const RopeKvArgs& a, int64_t row, int64_t head) {
  const AttentionShape& s = a.shape;
  Head x(static_cast<size_t>(s.head_dim));
  for (int64_t d = 0; d < s.head_dim; ++d) {
    const int64_t at = head * s.head_dim + d;
    x[d] = static_cast<double>(a.qkv[row * a.stride + at]) + (a.bias ? a.bias[at] : 0.0f);
  }
  if (head >= s.heads + s.kv_heads) return x;
  if (a.norm != nullptr) {
    const NormOfRow norm = head_norm_of(*a.norm, s, head);
    const double inv = norm.inverse(x.data());
    for (int64_t d = 0; d < s.head_dim; ++d) x[d] *= inv * norm.weight(d);
  }
  rotate(*a.table, a.places[row].position, 1, x);
  return x;
}

// A key that a row attends, in a block of this table.
struct Key {
  int64_t position;
  const int32_t* blocks;
};

// A row of the batch in attention.
struct Query {
  int64_t row;
  std::vector<Key> keys;
};

Query query_of(const AttentionArgs& a, const AttentionRows& rows, int64_t r) {
  Query out{rows.first_row + r, {}};
  const int64_t position = rows.first_position + r, first = a.rule.first_key(position);
  const KeyRun all{0, position + 1, rows.blocks, 0};
  for (const KeyRun& run : rows.runs.empty() ? std::span(&all, 1) : rows.runs)
    for (int64_t p = std::max(first, run.first); p < std::min(position + 1, run.end); ++p)
      out.keys.push_back({p, run.blocks});
  return out;
}

Head read_head(Dtype t, const void* from, int64_t first, int64_t count) {
  Head out(static_cast<size_t>(count));
  for (int64_t d = 0; d < count; ++d) out[d] = get(t, from, first + d);
  return out;
}

// The output of a row and head, with the weight of those before: its own is 1 - before.
void put_output(const AttentionArgs& a, int64_t place, const Head& out, double before) {
  const int64_t D = a.shape.head_dim;
  for (int64_t d = 0; d < D; ++d) {
    if (a.partial == nullptr) {
      put(a.shape.dtype, a.out, place * D + d, out[d]);
      continue;
    }
    float& to = a.partial[place * D + d];
    to = static_cast<float>((before == 0 ? 0.0 : before * to) + (1 - before) * out[d]);
  }
}

void attend_head(const AttentionArgs& a, const Query& at, int64_t head) {
  const AttentionShape& s = a.shape;
  const KvElements kv{s, const_cast<std::byte*>(a.pool)};
  const int64_t group = head / s.group(), place = at.row * s.heads + head;
  if (at.keys.empty()) return;
  const Head q = read_head(s.dtype, a.q, place * s.padded_dim(), s.head_dim);
  Head scores;
  for (const Key& k : at.keys)
    scores.push_back(a.rule.scale * dot(q, kv.key(k.blocks, group, k.position)));
  const double max = *std::ranges::max_element(scores);
  double sum = 0;
  Head out(static_cast<size_t>(s.head_dim), 0.0);
  for (size_t i = 0; i < scores.size(); ++i) {
    const double weight = std::exp(scores[i] - max);
    sum += weight;
    add_scaled(kv.value(at.keys[i].blocks, group, at.keys[i].position), weight, out);
  }
  for (double& value : out) value /= sum;
  const double own = max + std::log(sum);
  const double before = a.merges ? 1 / (1 + std::exp(own - a.lse[place])) : 0;
  put_output(a, place, out, before);
  if (a.lse != nullptr) a.lse[place] = static_cast<float>(own - std::log1p(-before));
}

// The backward of one piece and kv head (ops/attention.h).
class PieceBackward {
 public:
  PieceBackward(const AttentionBackwardArgs& args, const AttentionBackwardPiece& piece,
                int64_t kv_head)
      : a_(args), s_(args.shape), piece_(piece), kv_head_(kv_head) {
    const KvElements kv{s_, const_cast<std::byte*>(a_.pool)};
    for (int64_t p = piece.first_key; p < piece.end_key; ++p) {
      keys_.push_back(kv.key(piece.rows.blocks, kv_head, p));
      values_.push_back(kv.value(piece.rows.blocks, kv_head, p));
    }
    dk_.assign(keys_.size(), Head(static_cast<size_t>(s_.head_dim), 0.0));
    dv_ = dk_;
  }

  void run() {
    for (int64_t r = 0; r < piece_.rows.rows; ++r)
      for (int64_t h = 0; h < s_.group(); ++h) add_query(r, kv_head_ * s_.group() + h);
    for (size_t i = 0; i < keys_.size(); ++i) {
      float* to = key_gradient(piece_.first_key + static_cast<int64_t>(i));
      store(dk_[i], to);
      store(dv_[i], to + s_.kv_heads * s_.head_dim);
    }
  }

 private:
  int64_t width() const { return (s_.heads + 2 * s_.kv_heads) * s_.head_dim; }

  void add_query(int64_t r, int64_t head) {
    const int64_t row = piece_.rows.first_row + r, position = piece_.rows.first_position + r;
    const int64_t place = row * s_.heads + head, D = s_.head_dim;
    const Head q = read_head(s_.dtype, a_.q, place * s_.padded_dim(), D);
    const Head out = read_head(s_.dtype, a_.out, place * D, D);
    const Head d_out = read_head(Dtype::kF32, a_.d_out, place * D, D);
    const double delta = dot(d_out, out);
    Head dq(static_cast<size_t>(D), 0.0);
    const int64_t first = std::max(piece_.first_key, a_.rule.first_key(position)),
                  end = std::min(piece_.end_key, position + 1);
    for (int64_t p = first; p < end; ++p) {
      const auto i = static_cast<size_t>(p - piece_.first_key);
      const double weight = std::exp(a_.rule.scale * dot(q, keys_[i]) - a_.lse[place]);
      const double slope = weight * (dot(d_out, values_[i]) - delta);
      add_scaled(d_out, weight, dv_[i]);
      add_scaled(q, a_.rule.scale * slope, dk_[i]);
      add_scaled(keys_[i], a_.rule.scale * slope, dq);
    }
    store(dq, a_.dqkv + row * width() + head * D);
  }

  // Where the gradient of a key lies; that of its value follows all keys.
  float* key_gradient(int64_t position) const {
    const int64_t at = kv_head_ * s_.head_dim;
    const int64_t stride =
        piece_.prefix_stride != 0 ? piece_.prefix_stride : 2 * s_.kv_heads * s_.head_dim;
    if (position < piece_.prefix)
      return piece_.d_prefix + (position - piece_.first_sum) * stride + at;
    const int64_t row = piece_.rows.first_row + position - piece_.rows.first_position;
    return a_.dqkv + row * width() + s_.heads * s_.head_dim + at;
  }

  void store(const Head& from, float* to) const {
    for (size_t d = 0; d < from.size(); ++d)
      to[d] = static_cast<float>((piece_.overwrite ? 0.0 : to[d]) + from[d]);
  }

  const AttentionBackwardArgs& a_;
  const AttentionShape& s_;
  const AttentionBackwardPiece& piece_;
  const int64_t kv_head_;
  std::vector<Head> keys_, values_, dk_, dv_;
};

}  // namespace

void write_heads(const RopeKvArgs& a) {
  const AttentionShape& s = a.shape;
  const KvElements kv{s, a.pool};
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t token = a.places[r].position % s.block_size;
    for (int64_t h = 0; h < s.heads + 2 * s.kv_heads; ++h) {
      Head x = prepared_head(a, r, h);
      x.resize(static_cast<size_t>(s.padded_dim()), 0.0);
      for (int64_t d = 0; d < s.padded_dim(); ++d) {
        if (h < s.heads) {
          put(s.dtype, a.q, (r * s.heads + h) * s.padded_dim() + d, x[d]);
          continue;
        }
        const bool is_key = h < s.heads + s.kv_heads;
        const int64_t group = (h - s.heads) % s.kv_heads;
        put(s.kv_dtype, kv.head(a.places[r].block, group),
            is_key ? kv.key_at(token, d) : kv.value_at(token, d), x[d]);
      }
    }
  }
}

void copy_partial_blocks(Compute&, const CopyPartialBlocksArgs& a) {
  const KvElements kv{a.shape, a.pool};
  const Dtype t = a.shape.kv_dtype;
  for (const SequenceRows& s : a.sequences) {
    const int64_t tokens = s.prefix_sequence < 0 ? 0 : s.first_position % a.shape.block_size;
    if (tokens == 0) continue;
    const int64_t at = s.first_position / a.shape.block_size;
    for (int64_t g = 0; g < a.shape.kv_heads; ++g) {
      const std::byte* from = kv.head(a.sequences[s.prefix_sequence].blocks[at], g);
      std::byte* to = kv.head(s.blocks[at], g);
      for (int64_t token = 0; token < tokens; ++token) {
        for (int64_t d = 0; d < a.shape.padded_dim(); ++d) {
          for (const int64_t i : {kv.key_at(token, d), kv.value_at(token, d)})
            put(t, to, i, get(t, from, i));
        }
      }
    }
  }
}

// No row of a decode batch reads what another row writes, so all heads may be written first.
void attend(Compute&, const AttendArgs& a) {
  if (a.heads != nullptr) write_heads(*a.heads);
  for (const AttentionRows& rows : a.work.by_sequence()) {
    for (int64_t r = 0; r < rows.rows; ++r)
      for (int64_t h = 0; h < a.attention.shape.heads; ++h)
        attend_head(a.attention, query_of(a.attention, rows, r), h);
  }
}

void attend_backward(Compute&, const AttendBackwardArgs& a) {
  std::fill_n(a.work.sums(), a.work.num_sums(), 0.0f);
  for (int64_t step = 0; step < a.work.steps(); ++step) {
    for (const AttentionBackwardPiece& piece : a.work.pieces(step, a.attention.rule))
      for (int64_t g = 0; g < a.attention.shape.kv_heads; ++g)
        PieceBackward(a.attention, piece, g).run();
  }
}

void rope_rows_backward(Compute&, const RopeRowsBackwardArgs& a) {
  const AttentionShape& s = a.rope.shape;
  const int64_t D = s.head_dim, q = s.heads * D, width = q + 2 * s.kv_heads * D;
  Head q_grad(static_cast<size_t>(D), 0.0), k_grad = q_grad;
  a.work.add_sums(0, a.rope.rows, [&](int64_t row) { return a.rope.dqkv + row * width + q; });
  for (int64_t r = 0; r < a.rope.rows; ++r) {
    for (int64_t h = 0; h < s.heads + s.kv_heads; ++h) {
      const int64_t at = r * width + h * D;
      Head x = read_head(Dtype::kF32, a.rope.dqkv, at, D);
      rotate(*a.rope.table, a.rope.places[r].position, -1, x);
      if (a.rope.norm != nullptr) {
        const Head dy = x;
        Head& grad = h < s.heads ? q_grad : k_grad;
        head_norm_of(*a.rope.norm, s, h)
            .backward(
                a.rope.qkv + at, dy.data(), [&](int64_t d, double v) { x[d] = v; },
                [&](int64_t d, double v) { grad[d] += v; });
      }
      for (int64_t d = 0; d < D; ++d) a.rope.dqkv[at + d] = static_cast<float>(x[d]);
    }
  }
  for (int64_t i = 0; i < a.rope.rows * width; ++i)
    put(s.dtype, a.rope.dqkv_rounded, i, a.rope.dqkv[i]);
  for (int64_t d = 0; d < D; ++d) {
    if (a.q_norm_grad != nullptr) a.q_norm_grad[d] += static_cast<float>(q_grad[d]);
    if (a.k_norm_grad != nullptr) a.k_norm_grad[d] += static_cast<float>(k_grad[d]);
  }
}

}  // namespace rl::testing::reference
