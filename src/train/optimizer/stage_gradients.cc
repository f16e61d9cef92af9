// A chunk that lies within a stage is that stage's. The parts of another one, of which there is at
// most one for each border, come to every stage, and each computes the chunk.
#include "train/optimizer/stage_gradients.h"

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "ops/optimizer_ops.h"

namespace rl {
namespace {

class StageSquares {
 public:
  StageSquares(const StageRanks& stages, Compute& compute, const StageSection& section)
      : stages_(stages), compute_(compute), section_(section) {
    begins_ = {0};
    for (const int64_t count : stages.gather(section.count))
      begins_.push_back(begins_.back() + count);
    sums_.resize(static_cast<size_t>(num_optimizer_chunks(begins_.back())));
  }

  double sum() {
    square_own_chunks();
    for (size_t s = 1; s + 1 < begins_.size(); ++s) square_chunk_across(begins_[s]);
    double sum = 0;
    for (const double chunk : sums_) sum += chunk;
    return sum;
  }

 private:
  int64_t begin() const { return begins_[static_cast<size_t>(stages_.rank())]; }
  int64_t end() const { return begins_[static_cast<size_t>(stages_.rank()) + 1]; }
  int64_t total() const { return begins_.back(); }
  Piece own(int64_t from, int64_t to) const {
    return {static_cast<uint64_t>(from - begin()), static_cast<uint64_t>(to - begin())};
  }

  void square_own_chunks() {
    const int64_t first = num_optimizer_chunks(begin());
    const int64_t last = stages_.is_last() ? num_optimizer_chunks(end()) : end() / kOptimizerChunk;
    if (first < last) {
      const int64_t from = first * kOptimizerChunk;
      const int64_t to = std::min(last * kOptimizerChunk, end());
      std::ranges::copy(section_.squares(own(from, to)), sums_.begin() + first);
    }
    stages_.fill(std::span(sums_));
  }

  // The chunk that has elements on both sides of a border, if there is one.
  void square_chunk_across(int64_t border) {
    const int64_t chunk = border / kOptimizerChunk, from = chunk * kOptimizerChunk;
    if (from == border || chunk == last_across_) return;
    last_across_ = chunk;
    const int64_t to = std::min(from + kOptimizerChunk, total());
    values_.assign(static_cast<size_t>(to - from), 0.0f);
    const int64_t own_from = std::max(from, begin()), own_to = std::min(to, end());
    if (own_from < own_to) {
      section_.read(own(own_from, own_to),
                    std::span(values_).subspan(static_cast<size_t>(own_from - from),
                                               static_cast<size_t>(own_to - own_from)));
    }
    stages_.fill(std::span(values_));
    square_chunk(compute_, {values_, sums_[static_cast<size_t>(chunk)]});
  }

  const StageRanks& stages_;
  Compute& compute_;
  const StageSection& section_;
  std::vector<int64_t> begins_;  // of each stage, and where the last one ends
  std::vector<double> sums_;     // of chunks
  std::vector<float> values_;
  int64_t last_across_ = -1;
};

}  // namespace

void share_embedding_gradient(const StageRanks& stages, const WeightLayout& layout,
                              float* gradients) {
  if (stages.alone() || !layout.has_copies()) return;
  std::span<float> values;
  if (stages.rank() == 0 || stages.is_last()) {
    const auto is_embedding = [](const Parameter& p) {
      return p.tensor() == "model.embed_tokens.weight";
    };
    const auto first = std::ranges::find_if(layout.parameters(), is_embedding);
    RL_CHECK(first != layout.parameters().end());
    size_t size = 0;  // of all its pieces, which follow one another
    for (auto p = first; p != layout.parameters().end() && is_embedding(*p); ++p)
      size += static_cast<size_t>(p->size);
    values = {gradients + first->gradient, size};
  }
  stages.copy_to_first(values);
}

double squares_over_stages(const StageRanks& stages, Compute& compute,
                           const StageSection& section) {
  return StageSquares(stages, compute, section).sum();
}

}  // namespace rl
