// Every rank knows how many bytes each of the others has, so all run as many rounds.
#include "model/ranks/bucket_exchange.h"

#include <algorithm>

#include "core/error.h"
#include "ops/compute.h"

namespace rl {
namespace {

constexpr uint64_t kLine = 64;  // bytes

// Calls visit(bytes, place) for the bytes from `begin` on that `count` covers, each with its place
// among these.
template <typename Visit>
void visit_range(const BytePieces& pieces, uint64_t begin, uint64_t count, const Visit& visit) {
  uint64_t at = 0;
  for (const std::span<std::byte> piece : pieces) {
    const uint64_t from = std::max(at, begin), to = std::min(at + piece.size(), begin + count);
    if (from < to) {
      visit(piece.subspan(static_cast<size_t>(from - at), static_cast<size_t>(to - from)),
            static_cast<size_t>(from - begin));
    }
    at += piece.size();
  }
}

class Round {
 public:
  // Of the bytes from `begin` on.
  Round(const BucketExchange& exchange, uint64_t begin, uint64_t room)
      : e_(exchange), begin_(begin), pieces_{{0}} {
    for (const BytePieces& rank : e_.of_ranks) {
      const uint64_t all = bytes_of(rank);
      const uint64_t left = all - std::min(all, begin);
      pieces_.bounds.push_back(pieces_.count() + std::min(left, room));
    }
  }

  void run(GatherPieces gather) const {
    copy(e_.rank, true);
    gather(e_.buffer.first(static_cast<size_t>(pieces_.count())), pieces_);
    for (int r = 0; r < pieces_.parts(); ++r) {
      if (r != e_.rank) copy(r, false);
    }
  }

 private:
  void copy(int rank, bool to_buffer) const {
    const Piece piece = pieces_[rank];
    std::byte* const buffer = e_.buffer.data() + piece.begin;
    visit_range(e_.of_ranks[static_cast<size_t>(rank)], begin_, piece.count(),
                [&](std::span<std::byte> bytes, size_t place) {
                  std::byte* const there = buffer + place;
                  copy_bytes(e_.compute, {to_buffer ? bytes.data() : there,
                                          to_buffer ? there : bytes.data(), bytes.size()});
                });
  }

  const BucketExchange& e_;
  const uint64_t begin_;
  Pieces pieces_;
};

}  // namespace

uint64_t bytes_of(const BytePieces& pieces) {
  uint64_t sum = 0;
  for (const std::span<std::byte> piece : pieces) sum += piece.size();
  return sum;
}

uint64_t bucket_buffer_bytes(uint64_t bucket_bytes, int ranks, uint64_t most) {
  const auto count = static_cast<uint64_t>(ranks);
  const uint64_t room = std::max(kLine, bucket_bytes / count / kLine * kLine);
  return count * std::min(room, (most + kLine - 1) / kLine * kLine);
}

void exchange_in_buckets(const BucketExchange& exchange, GatherPieces gather) {
  const uint64_t room = exchange.buffer.size() / exchange.of_ranks.size() / kLine * kLine;
  uint64_t most = 0;
  for (const BytePieces& rank : exchange.of_ranks) most = std::max(most, bytes_of(rank));
  RL_CHECK(room > 0 || most == 0);
  for (uint64_t begin = 0; begin < most; begin += room) Round(exchange, begin, room).run(gather);
}

}  // namespace rl
