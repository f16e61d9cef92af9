#include "comm/values.h"

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

}  // namespace rl
