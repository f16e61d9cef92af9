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
  std::byte *unit = a.rows, *at = piece;
  for (int64_t i = 0; i < units; ++i) {
    for (int64_t run = 0; run < a.runs.count; ++run) {
      const int64_t bytes = a.runs.bytes[run];
      copy(unit + rank * bytes, at, static_cast<uint64_t>(bytes), to_piece);
      unit += ranks_.size() * bytes;
      at += bytes;
    }
  }
}

void HeadExchange::copy_heads(const HeadArrays& a, int rank, std::byte* piece,
                              bool to_piece) const {
  const Piece units = units_[rank];
  const auto bytes = static_cast<uint64_t>(a.runs.own_bytes());
  copy(a.heads + units.begin * bytes, piece, units.count() * bytes, to_piece);
}

void HeadExchange::copy(std::byte* a, std::byte* b, uint64_t bytes, bool to_b) const {
  if (bytes != 0) copy_bytes(compute_, {to_b ? a : b, to_b ? b : a, bytes});
}

}  // namespace rl
