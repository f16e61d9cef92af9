// A gap begins and ends at multiples of 16 floats, so that what follows it keeps its alignment; up
// to 15 floats at either end of another rank's matrix have memory that nobody reads.
#include "model/masters.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

constexpr int64_t kAlign = 16;

}  // namespace

MasterCut::MasterCut(std::vector<OwnedMatrix> matrices, int rank, int ranks)
    : matrices_(std::move(matrices)), rank_(rank), ranks_(ranks) {
  RL_CHECK(std::ranges::is_sorted(matrices_, {}, &OwnedMatrix::master));
  for (const OwnedMatrix& m : matrices_) RL_CHECK(m.owner >= 0 && m.owner < ranks_);
  gaps_ = gaps_of(rank_);
}

std::vector<MasterCut::Gap> MasterCut::gaps_of(int rank) const {
  std::vector<Gap> gaps;
  int64_t before = 0;
  for (const OwnedMatrix& m : matrices_) {
    if (m.owner == rank) continue;
    const int64_t begin = (m.master + kAlign - 1) / kAlign * kAlign;
    const int64_t end = (m.master + m.size) / kAlign * kAlign;
    if (begin >= end) continue;
    before += end - begin;
    gaps.push_back({begin, end, before});
  }
  return gaps;
}

int MasterCut::owner(int64_t place) const {
  const auto after = std::ranges::upper_bound(matrices_, place, {}, &OwnedMatrix::master);
  if (after == matrices_.begin()) return -1;
  const OwnedMatrix& m = *std::prev(after);
  return place < m.master + m.size ? m.owner : -1;
}

int64_t MasterCut::in_memory(int64_t place) const {
  RL_CHECK(has(place));
  const auto after = std::ranges::upper_bound(gaps_, place, {}, &Gap::end);
  return after == gaps_.begin() ? place : place - std::prev(after)->before;
}

int64_t MasterCut::floats(int64_t total) const {
  if (!divides()) return total;
  int64_t most = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::vector<Gap> gaps = gaps_of(rank);
    most = std::max(most, total - (gaps.empty() ? 0 : gaps.back().before));
  }
  return most;
}

}  // namespace rl
