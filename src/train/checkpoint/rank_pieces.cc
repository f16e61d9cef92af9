// The name of a piece has its part behind ".part". Pieces of ranks differ in size, so each rank
// says what it has before the bytes go.
#include "train/checkpoint/rank_pieces.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <sstream>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

constexpr std::string_view kMark = ".part";
constexpr int64_t kWhole = -1;  // in the place of a part's first byte

bool is_name_of_piece(const std::string& name) { return name.rfind(kMark) != std::string::npos; }
bool is_piece(const StateTensor& t) { return is_name_of_piece(t.name); }

// Where a tensor comes in the layout of one rank with all parts: whole ones, then the pieces of the
// embedding, those of the head and those of the layers, each part after part.
std::pair<int, int64_t> place_of(const std::string& name) {
  const size_t mark = name.rfind(kMark);
  if (mark == std::string::npos) return {0, 0};
  int64_t part = 0;
  const auto read =
      std::from_chars(name.data() + mark + kMark.size(), name.data() + name.size(), part);
  RL_CHECK(read.ec == std::errc());
  if (name.starts_with("model.layers.")) return {3, part};
  return {name.starts_with("lm_head.") ? 2 : 1, part};
}

void sort_by_place(TensorList& tensors) {
  std::ranges::stable_sort(tensors, {}, [](const StateTensor& t) { return place_of(t.name); });
}

// A line with name, type, place and bytes of a tensor, or of a part of it, and its shape. From it
// another rank knows what follows.
std::string description_of(const StateTensor& t) {
  const int64_t first = t.first ? static_cast<int64_t>(*t.first) : kWhole;
  std::string text = str(t.name, " ", t.dtype, " ", first, " ", t.bytes.size());
  for (const int64_t n : t.shape) text += str(" ", n);
  return text + "\n";
}

std::string descriptions_of(const TensorList& tensors) {
  std::string text;
  for (const StateTensor& t : tensors) text += description_of(t);
  return text;
}

struct Described {
  StateTensor tensor;
  uint64_t bytes = 0;
};

const char* dtype_named(const std::string& name) {
  for (const char* dtype : {"F32", "BF16", "I8", "U8"}) {
    if (name == dtype) return dtype;
  }
  throw Error(Code::kInternal, str("a rank has a tensor of ", name));
}

Described described(const std::string& line) {
  std::istringstream in(line);
  std::string name, dtype;
  int64_t first = kWhole;
  uint64_t bytes = 0;
  in >> name >> dtype >> first >> bytes;
  Described out{{name, dtype_named(dtype), {}, {}, {}, true}, bytes};
  if (first != kWhole) out.tensor.first = static_cast<uint64_t>(first);
  for (int64_t n = 0; in >> n;) out.tensor.shape.push_back(n);
  return out;
}

std::vector<Described> described_all(const std::string& text) {
  std::vector<Described> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all.push_back(described(line));
  return all;
}

uint64_t bytes_of_all(const std::vector<Described>& tensors) {
  uint64_t bytes = 0;
  for (const Described& t : tensors) bytes += t.bytes;
  return bytes;
}

// Their bytes follow one another.
void add_tensors(std::vector<Described> tensors, std::span<std::byte> bytes, TensorList& to) {
  for (Described& t : tensors) {
    t.tensor.bytes = DeviceBytes(bytes.first(t.bytes));
    to.push_back(std::move(t.tensor));
    bytes = bytes.subspan(t.bytes);
  }
}

// Those of divided states are the same part of each piece. Returns the memory of the pieces.
std::shared_ptr<std::vector<std::byte>> add_pieces(const TensorRanks& ranks, TensorList& tensors) {
  const auto middle =
      std::ranges::stable_partition(tensors, [](const StateTensor& t) { return !is_piece(t); });
  const TensorList own(middle.begin(), tensors.end());
  tensors.erase(middle.begin(), tensors.end());
  std::vector<Described> pieces;
  Pieces bytes{{0}};
  for (const std::string& of_rank : ranks.gather_texts(descriptions_of(own))) {
    std::vector<Described> more = described_all(of_rank);
    bytes.bounds.push_back(bytes.count() + bytes_of_all(more));
    std::ranges::move(more, std::back_inserter(pieces));
  }
  const auto all = std::make_shared<std::vector<std::byte>>(bytes.count());
  std::span<std::byte> next = std::span(*all).subspan(bytes[ranks.rank()].begin);
  for (const StateTensor& t : own) {
    t.bytes.read(next.first(t.bytes.size()));
    next = next.subspan(t.bytes.size());
  }
  ranks.gather_bytes(*all, bytes);
  add_tensors(std::move(pieces), *all, tensors);
  sort_by_place(tensors);
  return all;
}

// Whole parameters come first, as in the layout of one rank with all parts.
void add_frozen_pieces(const TensorRanks& ranks, FrozenMark& mark) {
  const auto middle = std::ranges::find_if(mark.names, is_name_of_piece);
  const auto whole = static_cast<size_t>(middle - mark.names.begin());
  std::ostringstream own;
  for (size_t i = whole; i < mark.names.size(); ++i)
    own << mark.names[i] << " " << mark.digests[i] << "\n";
  std::vector<std::pair<std::string, uint64_t>> pieces;
  for (const std::string& of_rank : ranks.gather_texts(own.str())) {
    std::istringstream in(of_rank);
    std::string name;
    for (uint64_t digest = 0; in >> name >> digest;) pieces.emplace_back(name, digest);
  }
  std::ranges::stable_sort(pieces, {}, [](const auto& p) { return place_of(p.first); });
  mark.names.resize(whole);
  mark.digests.resize(whole);
  for (const auto& [name, digest] : pieces) {
    mark.names.push_back(name);
    mark.digests.push_back(digest);
  }
  mark.digest = digest_of_parts(mark.digests);
}

template <typename T>
std::span<const std::byte> bytes_of(const T& values) {
  return std::as_bytes(std::span(values));
}

void give_tensors(const StageRanks& stages, const TensorList& tensors) {
  const std::string text = descriptions_of(tensors);
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
  std::vector<Described> taken = described_all(text);
  const auto all = std::make_shared<std::vector<std::byte>>(bytes_of_all(taken));
  std::span<std::byte> next = *all;
  for (const Described& t : taken) {
    stages.take(next.first(static_cast<size_t>(t.bytes)), from);
    next = next.subspan(static_cast<size_t>(t.bytes));
  }
  add_tensors(std::move(taken), *all, tensors);
  return all;
}

}  // namespace

void add_pieces_of_ranks(const TensorRanks& ranks, ModelDraft& draft) {
  if (ranks.size() == 1) return;
  add_frozen_pieces(ranks, draft.frozen);
  for (StateArray& array : draft.arrays) draft.gathered.push_back(add_pieces(ranks, array.tensors));
}

void add_tensors_of_stages(const StageRanks& stages, const WeightLayout& layout,
                           ModelDraft& draft) {
  if (stages.alone()) return;
  const auto is_copy = [&](const StateTensor& t) { return layout.is_copy(t.name); };
  for (StateArray& array : draft.arrays) {
    std::erase_if(array.tensors, is_copy);
    if (stages.rank() > 0) give_tensors(stages, array.tensors);
    for (int s = 1; stages.rank() == 0 && s < stages.size(); ++s)
      draft.gathered.push_back(take_tensors(stages, s, array.tensors));
    sort_by_place(array.tensors);
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
