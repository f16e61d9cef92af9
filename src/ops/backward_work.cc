#include "ops/backward_work.h"

#include "core/error.h"
#include "ops/convert.h"

namespace rl {
namespace {

constexpr int64_t kChunk = kAttentionBackwardChunk;

}  // namespace

BackwardWork::BackwardWork(int64_t max_rows, int64_t sum_width)
    : max_rows_(max_rows), sum_width_(sum_width) {
  const auto most = static_cast<size_t>(max_rows);
  parts_.reserve(most);
  chunks_.reserve(most);
  pieces_.reserve(most);
  shared_prefixes_.reserve(most);
}

void BackwardWork::cut(std::span<const SequenceRows> sequences, float* sums) {
  sums_ = sums;
  parts_.clear();
  chunks_.clear();
  shared_prefixes_.clear();
  used_rows_ = steps_ = 0;
  for (size_t i = 0; i < sequences.size();) {
    const auto prefix_sequence = static_cast<int32_t>(i);
    const SequenceRows& t = sequences[i];
    RL_CHECK(t.first_position == 0 && t.prefix_sequence < 0);
    add_part(sequences.subspan(i++, 1), 0);
    const size_t first_part = parts_.size();
    while (i < sequences.size() && sequences[i].prefix_sequence == prefix_sequence) {
      const size_t first = i;
      int64_t rows = 0;
      for (;
           i < sequences.size() && sequences[i].prefix_sequence == prefix_sequence && rows < t.rows;
           ++i) {
        RL_CHECK(sequences[i].first_position == t.rows);
        rows += sequences[i].rows;
      }
      add_part(sequences.subspan(first, i - first), t.rows);
    }
    if (parts_.size() > first_part)
      shared_prefixes_.push_back({t.first_row, t.rows, first_part, parts_.size()});
  }
}

void BackwardWork::set_sum_width(int64_t width) {
  if (width == sum_width_) return;
  sum_width_ = width;
  int64_t rows = 0;
  for (Part& part : parts_) {
    if (part.prefix > 0) part.sums = sums_ + rows * width;
    rows += part.prefix;
  }
}

void BackwardWork::add_part(std::span<const SequenceRows> sequences, int64_t prefix) {
  Part part{prefix, prefix == 0 ? nullptr : sums_ + used_rows_ * sum_width_};
  used_rows_ += prefix;
  RL_CHECK(used_rows_ <= max_rows_);
  for (const SequenceRows& s : sequences) {
    const int64_t end = prefix + s.rows;
    int64_t of_sequence = 0;
    for (int64_t first = prefix; first < end; ++of_sequence) {
      const int64_t next = std::min(end, (first / kChunk + 1) * kChunk);
      chunks_.push_back({{s.first_row + first - prefix, next - first, first, s.blocks},
                         part.chunks++,
                         of_sequence,
                         parts_.size()});
      first = next;
    }
    part.own_steps = std::max(part.own_steps, of_sequence);
  }
  parts_.push_back(part);
  steps_ = std::max(steps_, part.own_steps + part.prefix_steps());
}

std::span<const AttentionBackwardPiece> BackwardWork::pieces(int64_t step,
                                                             const AttentionRule& rule) {
  pieces_.clear();
  for (const Chunk& chunk : chunks_) add_piece(chunk, step, rule);
  return pieces_;
}

void BackwardWork::add_piece(const Chunk& chunk, int64_t step, const AttentionRule& rule) {
  const Part& part = parts_[chunk.part];
  AttentionBackwardPiece piece{chunk.rows, 0, 0, part.prefix, part.sums, step == 0};
  if (step < part.own_steps) {
    if (step > chunk.of_sequence) return;
    const int64_t at = part.prefix / kChunk + chunk.of_sequence - step;
    piece.first_key = std::max(part.prefix, at * kChunk);
    piece.end_key = std::min((at + 1) * kChunk, chunk.rows.first_position + chunk.rows.rows);
  } else {
    const int64_t prefix_step = step - part.own_steps, prefix_steps = part.prefix_steps();
    if (prefix_step >= prefix_steps) return;
    const int64_t at = (chunk.of_part - prefix_step + prefix_steps) % prefix_steps;
    if (at >= part.prefix_chunks()) return;
    piece.first_key = at * kChunk;
    piece.end_key = std::min((at + 1) * kChunk, part.prefix);
  }
  if (piece.end_key > rule.first_key(chunk.rows.first_position)) pieces_.push_back(piece);
}

void BackwardWork::add_row(const float* sum, float* to) const { add_elements(sum, sum_width_, to); }

}  // namespace rl
