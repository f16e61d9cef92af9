// How a vocabulary is divided: into tiles of equal width, over which log-probs are summed in order
// (ops/logprob.h), and into the parts of ModelConfig::split. A part has whole tiles, and the rows
// of embedding and head that belong to their tokens; a rank has those of its parts, which follow
// one another. A pure function of the configuration.
//
// Parts have equal numbers of tiles, give or take one. A tile has kVocabularyTile tokens, or fewer
// in a vocabulary that has not as many for each part.
#pragma once
#include <cstdint>
#include <vector>

#include "formats/model_config.h"
#include "ops/matmul_slices.h"

namespace rl {

// Width of a vocabulary tile: the head is packed in these slices.
constexpr int64_t kVocabularyTile = 512;

// Tokens that follow one another.
struct TokenRange {
  int64_t first = 0, count = 0;

  int64_t end() const { return first + count; }
  bool has(int64_t id) const { return id >= first && id < end(); }
};

class VocabularyCut {
 public:
  explicit VocabularyCut(const ModelConfig& config) : VocabularyCut(config.vocab, config.split) {}
  VocabularyCut(int64_t vocab, const TensorSplit& split);

  const ColumnSlices& tiles() const { return tiles_; }  // of all tokens
  int64_t ranks() const { return split_.ranks(); }
  int64_t rank() const { return split_.first / split_.count; }
  TokenRange part(int64_t index) const { return tokens_of(index, 1); }
  TokenRange tokens_of_rank(int64_t rank) const {
    return tokens_of(rank * split_.count, split_.count);
  }
  TokenRange own() const { return tokens_of(split_.first, split_.count); }
  // Where the parts of this rank begin and the last one ends, counted from its first token.
  std::vector<int64_t> own_bounds() const;
  // Number of the first tile of a rank; for ranks(), how many there are.
  int64_t first_tile(int64_t rank) const { return tile_of_part(rank * split_.count); }
  int64_t num_own_tiles() const { return first_tile(rank() + 1) - first_tile(rank()); }

 private:
  int64_t tile_of_part(int64_t part) const { return tiles_.count() * part / split_.parts; }
  TokenRange tokens_of(int64_t part, int64_t parts) const;

  TensorSplit split_;
  ColumnSlices tiles_;
};

// The same model, of the rank that has most of its vocabulary: no other one needs more memory.
ModelConfig with_most_tokens(ModelConfig config);

}  // namespace rl
