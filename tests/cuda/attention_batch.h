// A batch of sequences for tests of attention on a GPU: block tables in shuffled order, keys and
// values of every position up to a sequence's last, NaN in slots that nothing wrote.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cuda/device_data.h"
#include "ops/attention_work.h"
#include "ops/backward_work.h"
#include "reference/reference_elements.h"

namespace rl::testing {

struct AttentionOf {
  int64_t heads, kv_heads, head_dim, block_size, window;
  Dtype dtype, kv_dtype;
  AttentionProducts products = AttentionProducts::kBest;

  AttentionShape shape() const { return {heads, kv_heads, head_dim, block_size, dtype, kv_dtype}; }
  AttentionRule rule() const { return {0.9f / std::sqrt(static_cast<float>(head_dim)), window}; }
  int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }
  bool rounds_weights() const {
    return dtype == Dtype::kBf16 && kv_dtype == Dtype::kBf16 &&
           products != AttentionProducts::kFp32;
  }
};
inline std::string name_of(const ::testing::TestParamInfo<AttentionOf>& info) {
  const AttentionOf& c = info.param;
  return str(c.heads, "_", c.kv_heads, "_", c.head_dim, "_", c.block_size, "_", c.window, "_",
             dtype_name(c.dtype), "_", dtype_name(c.kv_dtype),
             c.products == AttentionProducts::kFp32 ? "_fp32_products" : "");
}

// Rows of sequences: their positions and where their keys lie. A sequence with a prefix continues
// an earlier one, which has its last row before.
class RowsOfSequences {
 public:
  explicit RowsOfSequences(int64_t block_size) : block_size_(block_size) {}

  // Returns the sequence's index.
  int32_t add(int32_t rows, int32_t first_position, int32_t prefix = -1) {
    const int64_t count = (first_position + rows + block_size_ - 1) / block_size_;
    std::vector<int32_t> table;
    if (prefix >= 0) {
      const int32_t* shared = sequences_[static_cast<size_t>(prefix)].blocks;
      table.assign(shared, shared + first_position / block_size_);
    }
    while (static_cast<int64_t>(table.size()) < count) table.push_back(next_block());
    tables_.push_back(std::move(table));
    sequences_.push_back({rows_, rows, first_position, tables_.back().data(), prefix});
    rows_ += rows;
    return static_cast<int32_t>(sequences_.size()) - 1;
  }
  // One more row after the last position of a table that other sequences use too.
  void add_with_table(int32_t rows, int32_t first_position, const int32_t* table) {
    sequences_.push_back({rows_, rows, first_position, table});
    rows_ += rows;
  }

  std::span<const SequenceRows> all() const { return sequences_; }
  std::vector<int32_t>& table(size_t sequence) { return tables_[sequence]; }
  int64_t rows() const { return rows_; }
  int64_t blocks() const { return kBlocks; }

 private:
  static constexpr int32_t kBlocks = 128;
  // Neighbours in a sequence are far apart in the pool, and block 0 is not used.
  int32_t next_block() {
    RL_CHECK(used_ + 1 < kBlocks);
    return 1 + used_++ * 53 % (kBlocks - 1);
  }

  const int64_t block_size_;
  int32_t rows_ = 0, used_ = 0;
  std::vector<SequenceRows> sequences_;
  std::deque<std::vector<int32_t>> tables_;
};

// A prompt and what continues it, a sequence alone, another prompt; 100 rows.
inline RowsOfSequences rows_to_divide(int64_t block_size) {
  RowsOfSequences rows(block_size);
  const int32_t first = rows.add(21, 0);
  for (const int32_t more : {14, 5, 17}) rows.add(more, 21, first);
  rows.add(23, 0);
  const int32_t second = rows.add(9, 0);
  for (const int32_t more : {8, 3}) rows.add(more, 9, second);
  return rows;
}

// Ranks that divide the rows: chunk i of the batch, which ends at row ends[i], is one of rank i; of
// twice as many chunks as ranks each rank has another, as far from the last. Rows of all ranks keep
// their places in arrays of the whole batch; sums have the places of ops/divided_rows.h.
class RowShares {
 public:
  RowShares(const RowsOfSequences& rows, int ranks, const std::vector<int64_t>& ends)
      : ranks_(ranks) {
    int64_t first = 0, place = 0;
    for (const int64_t end : ends) chunks_.push_back({std::exchange(first, end), end, 0});
    RL_CHECK(first == rows.rows());
    for (int rank = 0; rank < ranks; ++rank) {
      Share& share = shares_.emplace_back();
      share.all.sequences = rows.all();
      share.all.chunks = chunks_;
      share.all.rows = first;
      share.all.own_place = place;
      for (size_t i = 0; i < ends.size(); ++i) {
        if (rank_of(i) != rank) continue;
        chunks_[i].place = place;
        place += chunks_[i].end_row - chunks_[i].first_row;
        add_rows(chunks_[i], share);
      }
      share.all.own = share.wholes;
      share.all.own_rows = place - share.all.own_place;
    }
  }
  RowShares(const RowShares&) = delete;
  RowShares& operator=(const RowShares&) = delete;

  int ranks() const { return ranks_; }
  void cut(int rank, float* sums, BackwardWork& work) const {
    const Share& share = shares_[static_cast<size_t>(rank)];
    work.cut(share.own, share.all, sums);
  }
  // With the keys of some rank's rows alone.
  void cut(int rank, const RankRows& keys, const BackwardWork::KeyGradients& to,
           BackwardWork& work) const {
    const Share& share = shares_[static_cast<size_t>(rank)];
    work.cut(share.own, share.all, keys, to);
  }
  void cut(int rank, const RankRows& keys, AttentionWork& work) const {
    const Share& share = shares_[static_cast<size_t>(rank)];
    work.cut(share.own, share.all, keys);
  }
  // Calls visit(rank, keys) for the keys of each rank that a rank meets, its own first.
  template <typename Visit>
  void for_each_in_ring(const Visit& visit) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int turn = 0; turn < ranks_; ++turn) {
        const DividedRows& of = shares_[static_cast<size_t>((rank + ranks_ - turn) % ranks_)].all;
        visit(rank, RankRows{of.own_place, of.own_place + of.own_rows, turn == 0});
      }
    }
  }
  int64_t place_of(int64_t row) const {
    const auto has = [&](const RowChunk& c) { return row < c.end_row; };
    const RowChunk& chunk = *std::ranges::find_if(chunks_, has);
    return chunk.place + row - chunk.first_row;
  }

 private:
  struct Share {
    std::vector<SequenceRows> own;
    std::vector<int32_t> wholes;  // of `own`, indices in the whole batch
    DividedRows all;
  };
  int rank_of(size_t chunk) const {
    const auto i = static_cast<int>(chunk);
    return i < ranks_ ? i : 2 * ranks_ - 1 - i;
  }
  static void add_rows(const RowChunk& chunk, Share& share) {
    int32_t index = 0;
    for (const SequenceRows& s : share.all.sequences) {
      const auto first = std::max(s.first_row, static_cast<int32_t>(chunk.first_row)),
                 end = std::min(s.first_row + s.rows, static_cast<int32_t>(chunk.end_row));
      if (first < end) {
        share.own.push_back({first, end - first, s.first_position + first - s.first_row, s.blocks});
        share.wholes.push_back(index);
      }
      ++index;
    }
  }

  const int ranks_;
  std::vector<RowChunk> chunks_;
  std::deque<Share> shares_;
};

// Queries, and the keys and values of one layer, for some rows.
class AttentionData {
 public:
  AttentionData(const AttentionOf& c, const RowsOfSequences& rows)
      : c_(c),
        rows_(rows),
        q_(padded_heads(c, rows.rows())),
        pool_(rows.blocks() * static_cast<int64_t>(c.shape().block_bytes())),
        out_(elements_to_write(c.dtype, rows.rows() * c.heads * c.head_dim)),
        lse_(rows.rows() * c.heads) {
    fill_pool();
  }

  template <typename At>
  AttentionArgs args(const At& at) {
    return {c_.shape(), c_.rule(), at(q_), at(pool_), at(out_), at(lse_), nullptr, c_.products};
  }
  template <typename At>
  void attend(Compute& compute, const At& at) {
    AttentionWork work(rows_.rows());
    work.cut(rows_.all(), c_.block_size);
    rl::attend(compute, {args(at), work, nullptr});
  }

  OnBoth<std::byte>& q() { return q_; }
  OnBoth<std::byte>& pool() { return pool_; }
  OnBoth<std::byte>& out() { return out_; }
  OnBoth<float>& lse() { return lse_; }
  const RowsOfSequences& rows() const { return rows_; }

 private:
  static OnBoth<std::byte> padded_heads(const AttentionOf& c, int64_t rows) {
    const int64_t W = c.shape().padded_dim();
    std::vector<float> q = random_values(rows * c.heads * W, 1);
    for (int64_t i = 0; i < rows * c.heads * W; ++i)
      if (i % W >= c.head_dim) q[static_cast<size_t>(i)] = 0;
    return elements_of(c.dtype, q);
  }
  // Positions of blocks that sequences share have one content. On the device what no sequence
  // wrote was never written.
  void fill_pool() {
    const AttentionShape s = c_.shape();
    std::ranges::copy(
        as_dtype(std::vector<float>(static_cast<size_t>(pool_.count()) / dtype_bytes(s.kv_dtype),
                                    std::nanf("")),
                 s.kv_dtype),
        pool_.on_host());
    const reference::KvElements kv{s, pool_.on_host()};
    for (const SequenceRows& sequence : rows_.all()) {
      for (int64_t p = 0; p < sequence.first_position + sequence.rows; ++p) {
        const int32_t block = sequence.blocks[p / s.block_size];
        if (block >= rows_.blocks()) continue;  // outside every window
        // What a prefix has in its last block, its copies have too.
        const bool copied = sequence.prefix_sequence >= 0 && p < sequence.first_position;
        const int32_t from = copied ? rows_.all()[static_cast<size_t>(sequence.prefix_sequence)]
                                          .blocks[p / s.block_size]
                                    : block;
        write_token(kv, block, p, static_cast<unsigned>(from));
      }
    }
    copy_written_runs();
  }
  // Copies to the device what is not NaN.
  void copy_written_runs() {
    copy_runs();
    RL_CUDA(cudaDeviceSynchronize());  // cudaMemcpy may leave a part to the default stream
  }
  void copy_runs() {
    const auto item = static_cast<int64_t>(dtype_bytes(c_.kv_dtype));
    const auto written = [&](int64_t i) {
      return !std::isnan(reference::get(c_.kv_dtype, pool_.on_host(), i));
    };
    for (int64_t i = 0; i < pool_.count() / item;) {
      const int64_t first = i;
      while (i < pool_.count() / item && written(i)) ++i;
      if (i > first) {
        RL_CUDA(cudaMemcpy(pool_.on_device() + first * item, pool_.on_host() + first * item,
                           static_cast<size_t>((i - first) * item), cudaMemcpyHostToDevice));
      } else {
        ++i;
      }
    }
  }
  static void write_token(const reference::KvElements& kv, int32_t block, int64_t position,
                          unsigned seed) {
    const AttentionShape& s = kv.shape;
    const int64_t token = position % s.block_size;
    const std::vector<float> values =
        random_values(2 * s.kv_heads * s.head_dim, seed * 1000 + static_cast<unsigned>(token));
    for (int64_t g = 0; g < s.kv_heads; ++g) {
      for (int64_t d = 0; d < s.padded_dim(); ++d) {
        const size_t at = static_cast<size_t>(g * s.head_dim + d);
        const bool padding = d >= s.head_dim;
        std::byte* to = kv.head(block, g);
        reference::put(s.kv_dtype, to, kv.key_at(token, d), padding ? 0 : values[at]);
        reference::put(s.kv_dtype, to, kv.value_at(token, d),
                       padding ? 0 : values[at + static_cast<size_t>(s.kv_heads * s.head_dim)]);
      }
    }
  }

  const AttentionOf c_;
  const RowsOfSequences& rows_;
  OnBoth<std::byte> q_, pool_, out_;
  OnBoth<float> lse_;
};

// Head sizes of each instantiation, its largest and smaller ones; groups from one head to more than
// a tile's rows; all types.
inline const std::vector<AttentionOf> kAttentionCases = {
    {2, 1, 16, 16, 0, Dtype::kBf16, Dtype::kBf16},
    {3, 1, 64, 32, 0, Dtype::kBf16, Dtype::kBf16},
    {4, 2, 64, 16, 21, Dtype::kBf16, Dtype::kBf16},
    {7, 1, 80, 128, 0, Dtype::kBf16, Dtype::kBf16},
    {2, 2, 128, 16, 1, Dtype::kBf16, Dtype::kBf16},
    {20, 1, 24, 16, 0, Dtype::kBf16, Dtype::kBf16},
    {4, 2, 130, 32, 64, Dtype::kBf16, Dtype::kBf16},
    {2, 1, 256, 16, 0, Dtype::kBf16, Dtype::kBf16},
    {4, 2, 32, 16, 0, Dtype::kF32, Dtype::kF32},
    {3, 3, 64, 64, 0, Dtype::kF32, Dtype::kBf16},
    {5, 1, 90, 16, 17, Dtype::kBf16, Dtype::kF32},
    {2, 1, 256, 32, 0, Dtype::kF32, Dtype::kF32},
    {4, 2, 48, 16, 0, Dtype::kBf16, Dtype::kBf16, AttentionProducts::kFp32},
};

inline std::vector<AttentionOf> with_window(std::vector<AttentionOf> cases) {
  std::erase_if(cases, [](const AttentionOf& c) { return c.window == 0; });
  return cases;
}

// Bits of the output of consecutive rows, with their lse.
struct RowBits {
  std::vector<std::byte> out;
  std::vector<float> lse;
  bool operator==(const RowBits& other) const {
    return out == other.out && lse.size() == other.lse.size() &&
           std::memcmp(lse.data(), other.lse.data(), lse.size() * sizeof(float)) == 0;
  }
};

}  // namespace rl::testing
