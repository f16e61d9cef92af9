// Short words use a linear scan for the best pair, long ones a heap over a linked list; both apply
// the same merges in the same order. Merges are found by binary search among the left token's
// sorted merges, so no input can provoke hash collisions.
#include "text/bpe.h"

#include <algorithm>

#include "core/encoding/unicode.h"
#include "core/error.h"
#include "text/byte_level.h"

namespace rl {
namespace {

constexpr size_t kFewSymbols = 32;
constexpr uint32_t kNoRank = 0xffffffff;

int32_t require_token(const Vocabulary& vocabulary, const std::string& text, const char* role,
                      const std::string& where) {
  const auto id = vocabulary.find(text);
  if (!id) {
    throw Error(Code::kDataLoss,
                str(where, ": ", role, " ", quote_text(text), " is not in the vocabulary"))
        .with_location(where);
  }
  return *id;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, const TokenizerSpec& spec)
    : ignore_merges_(spec.ignore_merges) {
  if (spec.merges.size() > kMaxMerges) {
    throw Error(Code::kResourceExhausted, str(spec.source, ": ", spec.merges.size(),
                                              " merges exceed the limit of ", kMaxMerges));
  }
  for (size_t byte = 0; byte < id_of_byte_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    id_of_byte_[byte] = vocabulary.find(spell_bytes({&c, 1})).value_or(-1);
  }
  unknown_id_ = spec.unknown_id.value_or(-1);
  merges_.reserve(spec.merges.size());
  for (size_t i = 0; i < spec.merges.size(); ++i) merges_.push_back(resolve(vocabulary, spec, i));
  std::sort(merges_.begin(), merges_.end(), [](const Merge& a, const Merge& b) {
    return a.left != b.left ? a.left < b.left : a.right < b.right;
  });
  for (size_t i = 1; i < merges_.size(); ++i) {
    const Merge& a = merges_[i - 1];
    const Merge& b = merges_[i];
    if (a.left == b.left && a.right == b.right) {
      throw Error(Code::kDataLoss, str(spec.source, ": merges ", std::min(a.rank, b.rank), " and ",
                                       std::max(a.rank, b.rank), " are the same"));
    }
  }
  first_of_left_.assign(static_cast<size_t>(vocabulary.size()) + 1, 0);
  for (const Merge& m : merges_) ++first_of_left_[static_cast<size_t>(m.left) + 1];
  for (size_t i = 1; i < first_of_left_.size(); ++i) first_of_left_[i] += first_of_left_[i - 1];
  if (!ignore_merges_) return;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.is_spelled(id)) whole_words_.emplace(vocabulary.bytes(id), id);
  }
}

Bpe::Merge Bpe::resolve(const Vocabulary& vocabulary, const TokenizerSpec& spec,
                        size_t rank) const {
  const auto& [left, right] = spec.merges[rank];
  const auto left_id = vocabulary.find(left);
  const auto right_id = vocabulary.find(right);
  const auto result = vocabulary.find(left + right);
  if (!left_id || !right_id || !result) {
    const std::string where = str(spec.source, ": merge ", rank);
    require_token(vocabulary, left, "left part", where);
    require_token(vocabulary, right, "right part", where);
    require_token(vocabulary, left + right, "result", where);
  }
  return {*left_id, *right_id, static_cast<uint32_t>(rank), *result};
}

const Bpe::Merge* Bpe::find(int32_t left, int32_t right) const {
  const size_t row = static_cast<size_t>(left);
  const Merge* first = merges_.data() + first_of_left_[row];
  const Merge* last = merges_.data() + first_of_left_[row + 1];
  const Merge* at = std::lower_bound(
      first, last, right, [](const Merge& m, int32_t wanted) { return m.right < wanted; });
  return at != last && at->right == right ? at : nullptr;
}

uint64_t Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& out) const {
  if (ignore_merges_) {
    if (const auto at = whole_words_.find(word); at != whole_words_.end()) {
      out.push_back(at->second);
      return 0;
    }
  }
  uint64_t unmapped = 0;
  scratch.ids.clear();
  for (const char c : word) {
    int32_t id = id_of_byte_[static_cast<unsigned char>(c)];
    if (id < 0) {
      ++unmapped;
      id = unknown_id_;
    }
    if (id >= 0) scratch.ids.push_back(id);
  }
  if (scratch.ids.size() <= kFewSymbols)
    merge_few(scratch);
  else
    merge_many(scratch);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  return unmapped;
}

void Bpe::merge_few(BpeScratch& scratch) const {
  auto& ids = scratch.ids;
  auto& ranks = scratch.ranks;
  const auto rank_at = [&](size_t i) {
    const Merge* m = find(ids[i], ids[i + 1]);
    return m != nullptr ? m->rank : kNoRank;
  };
  ranks.clear();
  for (size_t i = 0; i + 1 < ids.size(); ++i) ranks.push_back(rank_at(i));
  while (!ranks.empty()) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNoRank) return;
    const auto at = best - ranks.begin();
    const auto i = static_cast<size_t>(at);
    ids[i] = find(ids[i], ids[i + 1])->result;
    ids.erase(ids.begin() + at + 1);
    ranks.erase(best);
    if (i < ranks.size()) ranks[i] = rank_at(i);
    if (i > 0) ranks[i - 1] = rank_at(i - 1);
  }
}

void Bpe::push_candidate(BpeScratch& scratch, uint32_t at) const {
  const auto& symbol = scratch.symbols[at];
  if (symbol.next == BpeScratch::kNone) return;
  const Merge* m = find(symbol.id, scratch.symbols[symbol.next].id);
  if (m == nullptr) return;
  scratch.heap.push_back({m->rank, at, m->left, m->right, m->result});
  std::push_heap(scratch.heap.begin(), scratch.heap.end());
}

void Bpe::merge_many(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  const auto count = static_cast<uint32_t>(scratch.ids.size());
  symbols.clear();
  scratch.heap.clear();
  for (uint32_t i = 0; i < count; ++i) {
    symbols.push_back({scratch.ids[i], i == 0 ? BpeScratch::kNone : i - 1,
                       i + 1 == count ? BpeScratch::kNone : i + 1, false});
  }
  for (uint32_t i = 0; i < count; ++i) push_candidate(scratch, i);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end());
    const BpeScratch::Candidate best = scratch.heap.back();
    scratch.heap.pop_back();
    auto& left = symbols[best.at];
    if (left.merged || left.id != best.left || left.next == BpeScratch::kNone) continue;
    auto& right = symbols[left.next];
    if (right.id != best.right) continue;
    left.id = best.result;
    right.merged = true;
    left.next = right.next;
    if (left.next != BpeScratch::kNone) symbols[left.next].previous = best.at;
    if (left.previous != BpeScratch::kNone) push_candidate(scratch, left.previous);
    push_candidate(scratch, best.at);
  }
  scratch.ids.clear();
  for (const auto& symbol : symbols) {
    if (!symbol.merged) scratch.ids.push_back(symbol.id);
  }
}

}  // namespace rl
