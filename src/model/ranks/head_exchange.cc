// One all-to-all, of pieces of one size: that of the rank with most units.
#include "model/ranks/head_exchange.h"

#include "ops/compute.h"

namespace rl {

void HeadExchange::to_heads(const HeadArrays& a) const {
  const uint64_t piece = piece_bytes(a.runs);
  for (int r = 0; r < ranks_.size(); ++r)
    copy_runs(a, r, room_.out + static_cast<uint64_t>(r) * piece, true);
  ranks_.exchange(room_, piece);
  for (int r = 0; r < ranks_.size(); ++r)
    copy_heads(a, r, room_.in + static_cast<uint64_t>(r) * piece, false);
}

void HeadExchange::to_rows(const HeadArrays& a) const {
  const uint64_t piece = piece_bytes(a.runs);
  for (int r = 0; r < ranks_.size(); ++r)
    copy_heads(a, r, room_.out + static_cast<uint64_t>(r) * piece, true);
  ranks_.exchange(room_, piece);
  for (int r = 0; r < ranks_.size(); ++r)
    copy_runs(a, r, room_.in + static_cast<uint64_t>(r) * piece, false);
}

void HeadExchange::copy_runs(const HeadArrays& a, int rank, std::byte* piece, bool to_piece) const {
  const auto units = static_cast<int64_t>(units_[ranks_.rank()].count());
  const auto all_bytes = static_cast<uint64_t>(a.runs.all_bytes(ranks_.size()));
  const auto own_bytes = static_cast<uint64_t>(a.runs.own_bytes());
  std::byte *unit = a.rows, *at = piece;
  for (int64_t run = 0; run < a.runs.count; ++run) {
    const int64_t bytes = a.runs.bytes[run];
    std::byte* const heads = unit + rank * bytes;
    const auto size = static_cast<uint64_t>(bytes);
    if (to_piece)
      copy_columns(compute_, {heads, all_bytes, at, own_bytes, units, size});
    else
      copy_columns(compute_, {at, own_bytes, heads, all_bytes, units, size});
    unit += ranks_.size() * bytes;
    at += bytes;
  }
}

void HeadExchange::copy_heads(const HeadArrays& a, int rank, std::byte* piece,
                              bool to_piece) const {
  const Piece units = units_[rank];
  const auto bytes = static_cast<uint64_t>(a.runs.own_bytes());
  std::byte* const heads = a.heads + units.begin * bytes;
  const uint64_t all = units.count() * bytes;
  if (all == 0) return;
  copy_bytes(compute_, {to_piece ? heads : piece, to_piece ? piece : heads, all});
}

}  // namespace rl
