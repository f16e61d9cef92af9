// The ranks that divide the rows of a training batch (ops/divided_rows.h), and what attention needs
// of the others. Of every array a rank has its own rows. For attention it has the keys and values
// of all rows, once a layer has gathered them, or of one rank after the other, or some heads of all
// rows.
//
// Ranks call the same functions in the same order (comm/group.h); for one rank they do nothing.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "comm/group.h"
#include "core/dtype.h"
#include "ops/divided_rows.h"

namespace rl {

enum class ContextKind : uint8_t {
  kAllGather,  // every rank has the keys and values of all rows
  kUlysses,    // for attention a rank has some heads of all rows (model/ranks/head_exchange.h)
  kRing,       // keys and values go from rank to rank (model/ranks/context_ring.h)
};

// How many ranks divide the rows, and how.
struct ContextRule {
  int64_t ranks = 1;
  ContextKind kind = ContextKind::kAllGather;
  // A rank has one chunk from the first half of the rows and one from the second, so that the keys
  // before them are about as many on every rank.
  bool zigzag = false;

  bool divides() const { return ranks > 1; }
  bool by_heads() const { return divides() && kind == ContextKind::kUlysses; }
  bool in_ring() const { return divides() && kind == ContextKind::kRing; }
  // Ranks that divide the heads of attention, and those that keys and values go round.
  int64_t head_ranks() const { return by_heads() ? ranks : 1; }
  int64_t ring_ranks() const { return in_ring() ? ranks : 1; }
  int64_t chunks() const { return zigzag ? 2 * ranks : ranks; }
  int rank_of(int64_t chunk) const {
    return static_cast<int>(chunk < ranks ? chunk : 2 * ranks - 1 - chunk);
  }
  // The most rows that a rank has of a batch. Chunks begin where a KV block does.
  int64_t own_rows(int64_t rows, int64_t block_size) const {
    if (!divides()) return rows;
    const int64_t each = (rows + chunks() - 1) / chunks() + block_size;
    return std::min(rows, chunks() / ranks * each);
  }
  bool operator==(const ContextRule&) const = default;
};

// How far a log-prob of rows that ranks divide may be from that of one rank, in nats: 0, its bits,
// but in a ring (docs/parallel.md).
double logprob_bound(const ContextRule& rule, Dtype compute);

// What a rank gives the others and has from them: a piece for each.
struct ExchangeRoom {
  std::byte* out = nullptr;
  std::byte* in = nullptr;
};

class ContextRanks {
 public:
  ContextRanks() = default;  // one rank
  // group outlives it. space: of all arrays that the ranks exchange.
  explicit ContextRanks(comm::Group& group, MemorySpace space = MemorySpace::kHost)
      : group_(&group), space_(space) {}
  int rank() const { return group_ != nullptr ? group_->rank() : 0; }
  int size() const { return group_ != nullptr ? group_->size() : 1; }

  // What the ranks have is counted in units, rank after rank: pieces has those of each.
  struct Units {
    const Pieces& pieces;
    uint64_t each;  // bytes or floats
  };
  // Afterwards every rank has the bytes of all.
  void gather(std::byte* data, const Units& units) const;
  // Afterwards each rank has the sums of its own floats over all ranks, in their order.
  void sum_own(float* data, const Units& units) const;
  // Piece r of room.out goes to piece rank() of room.in at rank r.
  void exchange(const ExchangeRoom& room, uint64_t piece_bytes) const;
  // The next rank gets `out`, and this one what the one before has. Both stay untouched until the
  // call has ended.
  StartedCall start_shift(std::span<const std::byte> out, std::span<std::byte> in) const;

 private:
  comm::Group* group_ = nullptr;
  MemorySpace space_ = MemorySpace::kHost;
};

// The division of one batch.
struct ContextBatch {
  const ContextRanks& ranks;
  ContextKind kind;
  DividedRows rows;
  Pieces row_places, blocks;  // of each rank
  bool by_heads() const { return kind == ContextKind::kUlysses; }
  bool in_ring() const { return kind == ContextKind::kRing; }
  RankRows rows_of(int rank) const {
    const Piece places = row_places[rank];
    return {static_cast<int64_t>(places.begin), static_cast<int64_t>(places.end),
            rank == ranks.rank()};
  }
  // Of a layer's keys and values: each rank has written those of its rows.
  void gather_blocks(std::byte* layer, uint64_t block_bytes) const {
    ranks.gather(layer, {blocks, block_bytes});
  }
  // Of gradients of keys and values at the places of all rows.
  void sum_rows(float* sums, int64_t width) const {
    ranks.sum_own(sums, {row_places, static_cast<uint64_t>(width)});
  }
};

}  // namespace rl
