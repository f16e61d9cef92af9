// Byte-pair encoding of one word. Invariant: encode always applies the merge of lowest rank, the
// leftmost among equals, until none applies. A word of n bytes takes O(n log n). Immutable and
// thread-safe; each caller passes its own BpeScratch.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace rl {

// Working memory, reused from word to word.
struct BpeScratch {
  struct Symbol {
    int32_t id;
    uint32_t previous;  // neighbours; BpeScratch::kNone at the ends
    uint32_t next;
    bool merged;  // absorbed by its left neighbour
  };
  struct Candidate {
    uint32_t rank;
    uint32_t at;
    int32_t left;
    int32_t right;
    int32_t result;
    // Order of a max-heap: the top is the lowest rank, then the leftmost.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  static constexpr uint32_t kNone = 0xffffffff;

  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<int32_t> ids;
  std::vector<uint32_t> ranks;
};

class Bpe {
 public:
  // vocabulary must outlive this. Throws if a merge is repeated, or names or produces a token that
  // does not exist.
  Bpe(const Vocabulary& vocabulary, const TokenizerSpec& spec);

  // Appends the ids of word to out. Returns how many bytes have no token; they are left out, or
  // replaced by the unknown token if there is one. word is shorter than 4 GiB.
  uint64_t encode(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& out) const;

 private:
  struct Merge {
    int32_t left;
    int32_t right;
    uint32_t rank;
    int32_t result;
  };
  const Merge* find(int32_t left, int32_t right) const;
  Merge resolve(const Vocabulary& vocabulary, const TokenizerSpec& spec, size_t rank) const;
  void merge_few(BpeScratch& scratch) const;
  void merge_many(BpeScratch& scratch) const;
  void push_candidate(BpeScratch& scratch, uint32_t at) const;

  std::array<int32_t, 256> id_of_byte_;
  int32_t unknown_id_ = -1;
  std::vector<Merge> merges_;            // sorted by (left, right)
  std::vector<uint32_t> first_of_left_;  // range of merges_ by left id
  bool ignore_merges_;
  std::unordered_map<std::string_view, int32_t> whole_words_;  // filled only for ignore_merges
};

}  // namespace rl
