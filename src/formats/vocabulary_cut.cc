// Tile borders are multiples of the width of all tiles, so a tile has the same tokens and the same
// product whichever rank has it.
#include "formats/vocabulary_cut.h"

#include <algorithm>

#include "core/error.h"

namespace rl {
namespace {

int64_t tile_width(int64_t vocab, int64_t parts) {
  if (parts == 1) return kVocabularyTile;
  const int64_t even = vocab / parts / kVocabularyUnit * kVocabularyUnit;
  RL_CHECK(even > 0);  // with_split() refuses smaller vocabularies
  return std::min(kVocabularyTile, even);
}

}  // namespace

VocabularyCut::VocabularyCut(int64_t vocab, const TensorSplit& split)
    : split_(split), tiles_(slices_of_width(vocab, tile_width(vocab, split.parts))) {}

TokenRange VocabularyCut::tokens_of(int64_t part, int64_t parts) const {
  const int64_t first = tiles_.first(tile_of_part(part));
  const int64_t end = tiles_.first(tile_of_part(part + parts));
  return {first, std::min(end, tiles_.n) - first};
}

std::vector<int64_t> VocabularyCut::own_bounds() const {
  std::vector<int64_t> bounds = {0};
  for (int64_t p = 0; p < split_.count; ++p)
    bounds.push_back(part(split_.first + p).end() - own().first);
  return bounds;
}

ModelConfig with_most_tokens(ModelConfig config) {
  const VocabularyCut cut(config);
  int64_t largest = 0;
  for (int64_t r = 1; r < cut.ranks(); ++r) {
    if (cut.tokens_of_rank(r).count > cut.tokens_of_rank(largest).count) largest = r;
  }
  config.split.first = largest * config.split.count;
  return config;
}

}  // namespace rl
