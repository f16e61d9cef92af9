// How ranks that divide rows turn them into heads for attention, and back (Ulysses): before, a rank
// has all heads of its own rows; then some heads, the same number on every rank, of all rows.
// Attention is then that of one rank, prompts included, for these heads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/values.h"
#include "model/ranks/context_ranks.h"

namespace rl {

class Compute;

// An array of units: rows of the batch, or KV blocks. The bytes of all heads of a unit are runs of
// one kind of value each, which the ranks divide evenly.
struct HeadRuns {
  int64_t count = 1;
  int64_t bytes[3] = {};  // of a rank's heads

  int64_t own_bytes() const { return bytes[0] + bytes[1] + bytes[2]; }
  int64_t all_bytes(int64_t ranks) const { return ranks * own_bytes(); }
};

struct HeadArrays {
  std::byte* rows;   // (own units, all heads)
  std::byte* heads;  // (all units, own heads), in the order of their places
  HeadRuns runs;
};

class HeadExchange {
 public:
  // All outlive it. units: of each rank.
  HeadExchange(Compute& compute, const ContextRanks& ranks, const Pieces& units,
               const ExchangeRoom& room)
      : compute_(compute), ranks_(ranks), units_(units), room_(room) {}

  // Calls that all ranks make together.
  void to_heads(const HeadArrays& a) const;
  void to_rows(const HeadArrays& a) const;

 private:
  uint64_t piece_bytes(const HeadRuns& runs) const {
    return units_.longest() * static_cast<uint64_t>(runs.own_bytes());
  }
  // Copies between the runs of each own unit that are a rank's, and a piece of it.
  void copy_runs(const HeadArrays& a, int rank, std::byte* piece, bool to_piece) const;
  void copy_heads(const HeadArrays& a, int rank, std::byte* piece, bool to_piece) const;

  Compute& compute_;
  const ContextRanks& ranks_;
  const Pieces& units_;
  const ExchangeRoom& room_;
};

}  // namespace rl
