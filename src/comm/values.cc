#include "comm/values.h"

#include <algorithm>

#include "core/error.h"

namespace rl {
namespace {

// count * index / parts without overflow.
uint64_t boundary(uint64_t count, uint64_t index, uint64_t parts) {
  return count / parts * index + count % parts * index / parts;
}

}  // namespace

Piece piece_of(uint64_t count, int index, int parts) {
  const auto i = static_cast<uint64_t>(index), n = static_cast<uint64_t>(parts);
  return {boundary(count, i, n), boundary(count, i + 1, n)};
}

uint64_t Pieces::longest() const {
  uint64_t most = 0;
  for (int i = 0; i < parts(); ++i) most = std::max(most, (*this)[i].count());
  return most;
}

int Pieces::part_with(uint64_t value) const {
  RL_CHECK(value < count());
  return static_cast<int>(std::ranges::upper_bound(bounds, value) - bounds.begin()) - 1;
}

Pieces Pieces::within(Piece range) const {
  Pieces out;
  for (const uint64_t bound : bounds)
    out.bounds.push_back(std::clamp(bound, range.begin, range.end) - range.begin);
  return out;
}

Pieces even_pieces(uint64_t count, int parts) {
  Pieces out{{0}};
  for (int i = 0; i < parts; ++i) out.bounds.push_back(piece_of(count, i, parts).end);
  return out;
}

}  // namespace rl
