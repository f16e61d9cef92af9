// The name of a piece has its part behind ".part"; what follows, such as ".scales", stays.
#include "train/checkpoint/rank_pieces.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "core/error.h"

namespace rl {
namespace {

constexpr std::string_view kMark = ".part";
constexpr int64_t kWhole = -1;  // in the place of a part's first byte

bool is_name_of_piece(const std::string& name) { return name.rfind(kMark) != std::string::npos; }
bool is_piece(const StateTensor& t) { return is_name_of_piece(t.name); }

// The name of a piece, which stays valid.
struct PieceName {
  explicit PieceName(const std::string& name) : digits(name.rfind(kMark) + kMark.size()) {
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + digits, end, part);
    RL_CHECK(read.ec == std::errc());
    rest = {read.ptr, end};
  }
  size_t digits;
  int64_t part = 0;
  std::string_view rest;
};

// The name of the same piece so many parts later.
std::string name_of_part(const std::string& name, int64_t later) {
  const PieceName piece(name);
  return str(name.substr(0, piece.digits), piece.part + later, piece.rest);
}

// -1 for a whole tensor.
int64_t part_number(const StateTensor& t) { return is_piece(t) ? PieceName(t.name).part : -1; }

// Those of divided states are the same part of each piece. Returns the memory of the pieces.
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
      tensors.push_back(
          {name, t.dtype, t.shape, DeviceBytes(next.first(t.bytes.size())), t.first, true});
      next = next.subspan(t.bytes.size());
    }
  }
  return all;
}

// Whole parameters come first, as in the layout of one rank with all parts.
void add_frozen_pieces(const TensorRanks& ranks, const TensorSplit& split, FrozenMark& mark) {
  const auto middle = std::ranges::find_if(mark.names, is_name_of_piece);
  const std::vector<std::string> names(middle, mark.names.end());
  const size_t whole = mark.names.size() - names.size();
  std::vector<uint64_t> digests(names.size() * static_cast<size_t>(ranks.size()));
  std::ranges::copy(std::span(mark.digests).subspan(whole),
                    digests.begin() + static_cast<ptrdiff_t>(names.size()) * ranks.rank());
  ranks.gather_bytes(std::as_writable_bytes(std::span(digests)));
  mark.names.resize(whole);
  mark.digests.resize(whole);
  mark.digests.insert(mark.digests.end(), digests.begin(), digests.end());
  for (int r = 0; r < ranks.size(); ++r) {
    for (const std::string& name : names) {
      mark.names.push_back(name_of_part(name, (r - ranks.rank()) * split.count));
    }
  }
  mark.digest = digest_of_parts(mark.digests);
}

// A line with name, type, place and bytes of a tensor, or of a part of it, and its shape. From it
// the first stage knows what follows.
std::string description_of(const StateTensor& t) {
  const int64_t first = t.first ? static_cast<int64_t>(*t.first) : kWhole;
  std::string text = str(t.name, " ", t.dtype, " ", first, " ", t.bytes.size());
  for (const int64_t n : t.shape) text += str(" ", n);
  return text + "\n";
}

struct Described {
  StateTensor tensor;
  uint64_t bytes = 0;
};

Described described(const std::string& line) {
  std::istringstream in(line);
  Described out{{"", "F32", {}, {}, {}, true}};
  StateTensor& t = out.tensor;
  std::string dtype;
  int64_t first = kWhole;
  in >> t.name >> dtype >> first >> out.bytes;
  RL_CHECK(dtype == t.dtype);  // states of stages are in fp32
  if (first != kWhole) t.first = static_cast<uint64_t>(first);
  for (int64_t n = 0; in >> n;) t.shape.push_back(n);
  return out;
}

template <typename T>
std::span<const std::byte> bytes_of(const T& values) {
  return std::as_bytes(std::span(values));
}

void give_tensors(const StageRanks& stages, const TensorList& tensors) {
  std::string text;
  for (const StateTensor& t : tensors) text += description_of(t);
  const std::array<uint64_t, 1> size = {text.size()};
  stages.give(bytes_of(size));
  stages.give(bytes_of(text));
  for (const StateTensor& t : tensors) {
    std::vector<std::byte> bytes(t.bytes.size());
    t.bytes.read(bytes);
    stages.give(bytes);
  }
}

// Returns the memory of the tensors.
std::shared_ptr<std::vector<std::byte>> take_tensors(const StageRanks& stages, int from,
                                                     TensorList& tensors) {
  std::array<uint64_t, 1> size = {};
  stages.take(std::as_writable_bytes(std::span(size)), from);
  std::string text(static_cast<size_t>(size[0]), ' ');
  stages.take(std::as_writable_bytes(std::span(text)), from);
  std::vector<Described> taken;
  uint64_t bytes = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    taken.push_back(described(line));
    bytes += taken.back().bytes;
  }
  const auto all = std::make_shared<std::vector<std::byte>>(bytes);
  std::span<std::byte> next = *all;
  for (Described& t : taken) {
    const std::span<std::byte> own = next.first(static_cast<size_t>(t.bytes));
    stages.take(own, from);
    t.tensor.bytes = DeviceBytes(own);
    tensors.push_back(std::move(t.tensor));
    next = next.subspan(own.size());
  }
  return all;
}

}  // namespace

void add_pieces_of_ranks(const TensorRanks& ranks, const TensorSplit& split, ModelDraft& draft) {
  if (ranks.size() == 1) return;
  add_frozen_pieces(ranks, split, draft.frozen);
  for (StateArray& array : draft.arrays)
    draft.gathered.push_back(add_pieces(ranks, split, array.tensors));
}

// The layout of one rank has whole tensors of all layers first, then the pieces of each part.
void add_tensors_of_stages(const StageRanks& stages, const WeightLayout& layout,
                           ModelDraft& draft) {
  if (stages.alone()) return;
  const auto is_copy = [&](const StateTensor& t) {
    return std::ranges::any_of(layout.parameters(), [&](const Parameter& p) {
      return p.name == t.name && layout.is_copy(p);
    });
  };
  for (StateArray& array : draft.arrays) {
    std::erase_if(array.tensors, is_copy);
    if (stages.rank() > 0) give_tensors(stages, array.tensors);
    for (int s = 1; stages.rank() == 0 && s < stages.size(); ++s)
      draft.gathered.push_back(take_tensors(stages, s, array.tensors));
    std::ranges::stable_sort(array.tensors, {}, part_number);
  }
}

size_t num_stored(const TensorList& own, const WeightLayout& layout) {
  if (layout.stage().divides()) return static_cast<size_t>(layout.num_tensors_of_all());
  const int64_t ranks = layout.split().ranks();
  const auto pieces = static_cast<size_t>(std::ranges::count_if(own, is_piece));
  return own.size() + pieces * static_cast<size_t>(ranks - 1);
}

size_t num_stored(std::span<const std::string> own, int64_t ranks) {
  const auto pieces = static_cast<size_t>(std::ranges::count_if(own, is_name_of_piece));
  return own.size() + pieces * static_cast<size_t>(ranks - 1);
}

}  // namespace rl
