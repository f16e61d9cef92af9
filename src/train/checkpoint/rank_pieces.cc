// The name of a piece has its part behind ".part". Pieces of ranks differ in size, so each rank
// says what it has before the bytes go.
#include "train/checkpoint/rank_pieces.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

constexpr std::string_view kMark = ".part";

bool is_name_of_piece(const std::string& name) { return name.rfind(kMark) != std::string::npos; }
bool is_piece(const StateTensor& t) { return is_name_of_piece(t.name); }

// Where the pieces of a tensor come in the layout of one rank with all parts: those of the
// embedding, of the head, then those of the layers, each part after part.
int place_of_pieces(const std::string& name) {
  if (name.starts_with("model.layers.")) return 2;
  return name.starts_with("lm_head.") ? 1 : 0;
}

// A line with name, type and shape of a tensor, from which another rank knows how many bytes
// follow.
std::string description_of(const StateTensor& t) {
  std::string text = str(t.name, " ", t.dtype);
  for (const int64_t n : t.shape) text += str(" ", n);
  return text + "\n";
}

const char* dtype_named(const std::string& name) {
  for (const char* dtype : {"F32", "BF16", "I8", "U8"}) {
    if (name == dtype) return dtype;
  }
  throw Error(Code::kInternal, str("a rank has a tensor of ", name));
}

StateTensor described(const std::string& line) {
  std::istringstream in(line);
  std::string name, dtype;
  in >> name >> dtype;
  StateTensor t{name, dtype_named(dtype), {}, {}};
  for (int64_t n = 0; in >> n;) t.shape.push_back(n);
  return t;
}

TensorList described_all(const std::string& text) {
  TensorList all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all.push_back(described(line));
  return all;
}

// Returns the memory of the pieces.
std::shared_ptr<std::vector<std::byte>> add_pieces(const TensorRanks& ranks, TensorList& tensors) {
  const auto middle =
      std::ranges::stable_partition(tensors, [](const StateTensor& t) { return !is_piece(t); });
  const TensorList own(middle.begin(), tensors.end());
  tensors.erase(middle.begin(), tensors.end());
  std::string text;
  for (const StateTensor& t : own) text += description_of(t);
  TensorList pieces;
  Pieces bytes{{0}};
  for (const std::string& of_rank : ranks.gather_texts(text)) {
    uint64_t end = bytes.count();
    for (StateTensor& t : described_all(of_rank)) {
      end += t.whole_bytes();
      pieces.push_back(std::move(t));
    }
    bytes.bounds.push_back(end);
  }
  const auto all = std::make_shared<std::vector<std::byte>>(bytes.count());
  std::span<std::byte> next = std::span(*all).subspan(bytes[ranks.rank()].begin);
  for (const StateTensor& t : own) {
    t.bytes.read(next.first(t.bytes.size()));
    next = next.subspan(t.bytes.size());
  }
  ranks.gather_bytes(*all, bytes);
  next = *all;
  for (StateTensor& t : pieces) {
    t.bytes = DeviceBytes(next.first(t.whole_bytes()));
    t.of_draft = true;
    next = next.subspan(t.whole_bytes());
  }
  std::ranges::stable_sort(pieces, {},
                           [](const StateTensor& t) { return place_of_pieces(t.name); });
  tensors.insert(tensors.end(), pieces.begin(), pieces.end());
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
  std::ranges::stable_sort(pieces, {}, [](const auto& p) { return place_of_pieces(p.first); });
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
  TensorList taken = described_all(text);
  uint64_t bytes = 0;
  for (const StateTensor& t : taken) bytes += t.whole_bytes();
  const auto all = std::make_shared<std::vector<std::byte>>(bytes);
  std::span<std::byte> next = *all;
  for (StateTensor& t : taken) {
    const std::span<std::byte> own = next.first(static_cast<size_t>(t.whole_bytes()));
    stages.take(own, from);
    t.bytes = DeviceBytes(own);
    t.of_draft = true;
    tensors.push_back(t);
    next = next.subspan(own.size());
  }
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
