// The name of a piece has its part behind ".part"; what follows, such as ".scales", stays.
#include "train/checkpoint/rank_pieces.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace rl {
namespace {

constexpr std::string_view kMark = ".part";

bool is_piece(const StateTensor& t) { return t.name.rfind(kMark) != std::string::npos; }

// The name of the same piece so many parts later.
std::string name_of_part(const std::string& name, int64_t later) {
  const size_t at = name.rfind(kMark) + kMark.size();
  int64_t part = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + at, end, part);
  RL_CHECK(read.ec == std::errc());
  return str(name.substr(0, at), part + later, std::string_view(read.ptr, end));
}

// Returns the memory of the pieces.
std::shared_ptr<std::vector<std::byte>> add_pieces(const TensorRanks& ranks,
                                                   const TensorSplit& split, TensorList& tensors) {
  const auto middle =
      std::ranges::stable_partition(tensors, [](const StateTensor& t) { return !is_piece(t); });
  const TensorList own(middle.begin(), tensors.end());
  tensors.erase(middle.begin(), tensors.end());
  uint64_t bytes = 0;
  for (const StateTensor& t : own) bytes += t.bytes.size();
  const auto all = std::make_shared<std::vector<std::byte>>(bytes * ranks.size());
  std::span<std::byte> next = std::span(*all).subspan(bytes * static_cast<uint64_t>(ranks.rank()));
  for (const StateTensor& t : own) {
    t.bytes.read(next.first(t.bytes.size()));
    next = next.subspan(t.bytes.size());
  }
  ranks.gather_bytes(*all);
  next = *all;
  for (int r = 0; r < ranks.size(); ++r) {
    for (const StateTensor& t : own) {
      const std::string name = name_of_part(t.name, (r - ranks.rank()) * split.count);
      tensors.push_back({name, t.dtype, t.shape, DeviceBytes(next.first(t.bytes.size()))});
      next = next.subspan(t.bytes.size());
    }
  }
  return all;
}

}  // namespace

void add_pieces_of_ranks(const TensorRanks& ranks, const TensorSplit& split, ModelDraft& draft) {
  if (ranks.size() == 1) return;
  for (StateArray& array : draft.arrays)
    draft.gathered.push_back(add_pieces(ranks, split, array.tensors));
}

size_t num_stored(const TensorList& own, int64_t ranks) {
  const auto pieces = static_cast<size_t>(std::ranges::count_if(own, is_piece));
  return own.size() + pieces * static_cast<size_t>(ranks - 1);
}

}  // namespace rl
