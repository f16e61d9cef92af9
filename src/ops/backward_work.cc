#include "ops/backward_work.h"

#include "core/error.h"
#include "ops/convert.h"

namespace rl {
namespace {

constexpr int64_t kChunk = kAttentionBackwardChunk;

// The sequence of the whole batch that one of a rank is a part of; null: none.
const SequenceRows* whole_of(const DividedRows& all, size_t own) {
  const int32_t index = all.own[own];
  return index < 0 ? nullptr : &all.sequences[static_cast<size_t>(index)];
}

// Whose keys it takes first: its prompt's or its own.
int32_t root_of(const DividedRows& all, size_t own) {
  const int32_t prompt = whole_of(all, own)->prefix_sequence;
  return prompt >= 0 ? prompt : all.own[own];
}

// Neighbours that begin where their prompt ends form a part.
size_t end_of_part(std::span<const SequenceRows> own, const DividedRows& all, size_t first) {
  const auto follows = [&](size_t i) {
    const SequenceRows* const whole = whole_of(all, i);
    return whole != nullptr && whole->prefix_sequence >= 0 &&
           own[i].first_position == whole->first_position;
  };
  size_t end = first + 1;
  if (!follows(first)) return end;
  while (end < own.size() && follows(end) && root_of(all, end) == root_of(all, first)) ++end;
  return end;
}

}  // namespace

BackwardWork::BackwardWork(int64_t max_rows, int64_t sum_width)
    : max_rows_(max_rows), sum_width_(sum_width) {
  const auto most = static_cast<size_t>(max_rows);
  parts_.reserve(most);
  chunks_.reserve(most);
  pieces_.reserve(most);
  shared_prefixes_.reserve(most);
}

void BackwardWork::clear(float* sums) {
  sums_ = sums;
  parts_.clear();
  chunks_.clear();
  shared_prefixes_.clear();
  prefix_keys_.clear();
  used_rows_ = steps_ = sum_stride_ = 0;
  has_own_keys_ = true;
}

void BackwardWork::cut(std::span<const SequenceRows> sequences, float* sums) {
  clear(sums);
  for (size_t i = 0; i < sequences.size();) {
    const auto prefix_sequence = static_cast<int32_t>(i);
    const SequenceRows& t = sequences[i];
    RL_CHECK(t.first_position == 0 && t.prefix_sequence < 0);
    add_part(sequences.subspan(i++, 1), part_of(0, 0));
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
      add_part(sequences.subspan(first, i - first), part_of(t.rows, used_rows_));
      used_rows_ += t.rows;
      RL_CHECK(used_rows_ <= max_rows_);
    }
    if (parts_.size() > first_part)
      shared_prefixes_.push_back({t.first_row, t.rows, first_part, parts_.size()});
  }
}

void BackwardWork::cut(std::span<const SequenceRows> own, const DividedRows& all, float* sums) {
  clear(sums);
  used_rows_ = all.rows;
  const RankRows every{0, all.rows, false};
  std::vector<int64_t> turns(all.sequences.size(), 0);  // the end of the last part, by its root
  for (size_t i = 0; i < own.size();) {
    const size_t first = i;
    i = end_of_part(own, all, first);
    Part part = part_of(own[first].first_position, 0);
    if (part.prefix > 0)
      add_prefix_keys(all, {*whole_of(all, first), part.prefix, every, false}, part);
    add_part(own.subspan(first, i - first), part);
    if (part.prefix > 0) wait_turn(turns[static_cast<size_t>(root_of(all, first))]);
  }
  if (all.own_rows == 0) return;
  shared_prefixes_.push_back({0, all.own_rows, parts_.size(), parts_.size() + 1});
  parts_.push_back(part_of(all.own_rows, all.own_place));
}

// Among this rank's own rows a part takes keys of the parts before it, which have their gradients
// by then: all of one root take turns, those without a prefix too.
void BackwardWork::cut(std::span<const SequenceRows> own, const DividedRows& all,
                       const RankRows& keys, const KeyGradients& to) {
  clear(to.gradients);
  sum_stride_ = to.stride;
  has_own_keys_ = keys.own;
  used_rows_ = keys.own ? 0 : keys.count();
  std::vector<int64_t> turns(all.sequences.size(), 0);
  for (size_t i = 0; i < own.size();) {
    const size_t first = i;
    i = end_of_part(own, all, first);
    Part part = part_of(own[first].first_position, 0);
    if (part.prefix > 0)
      add_prefix_keys(all, {*whole_of(all, first), part.prefix, keys, true}, part);
    if (!keys.own && part.prefix_chunks() == 0) continue;
    add_part(own.subspan(first, i - first), part, keys.own);
    if (whole_of(all, first) != nullptr) wait_turn(turns[static_cast<size_t>(root_of(all, first))]);
  }
}

void BackwardWork::take_sums(int64_t rows, float* sums) {
  clear(sums);
  used_rows_ = rows;
  shared_prefixes_.push_back({0, rows, 0, 1});
  parts_.push_back(part_of(rows, 0));
}

void BackwardWork::wait_turn(int64_t& turn) {
  Part& added = parts_.back();
  added.first_step = std::max<int64_t>(0, turn - added.own_steps);
  turn = added.end_step();
  steps_ = std::max(steps_, turn);
}

void BackwardWork::add_prefix_keys(const DividedRows& all, const KeysBefore& keys, Part& part) {
  runs_.clear();
  add_key_runs(all, keys.whole, keys.end, keys.rows, runs_);
  part.divided = true;
  part.first_keys = prefix_keys_.size();
  for (const KeyRun& run : runs_) {
    const int64_t first_row = run.place - keys.rows.begin;
    for (int64_t key = run.first; key < run.end;) {
      const int64_t end = std::min(run.end, (key / kChunk + 1) * kChunk);
      prefix_keys_.push_back(
          {key, end, first_row + key - run.first, keys.of_rank ? run.blocks : nullptr});
      key = end;
    }
  }
  part.end_keys = prefix_keys_.size();
}

void BackwardWork::set_sum_width(int64_t width) {
  if (width == sum_width_) return;
  sum_width_ = width;
  for (Part& part : parts_) part.sums = part_of(part.prefix, part.sum_row).sums;
}

BackwardWork::Part BackwardWork::part_of(int64_t prefix, int64_t sum_row) const {
  return {prefix, prefix == 0 ? nullptr : sums_ + sum_row * sum_width_, sum_row};
}

void BackwardWork::add_part(std::span<const SequenceRows> sequences, Part part,
                            bool with_own_keys) {
  for (const SequenceRows& s : sequences) {
    const int64_t end = part.prefix + s.rows;
    int64_t of_sequence = 0;
    for (int64_t first = part.prefix; first < end; ++of_sequence) {
      const int64_t next = std::min(end, (first / kChunk + 1) * kChunk);
      chunks_.push_back({{s.first_row + first - part.prefix, next - first, first, s.blocks},
                         part.chunks++,
                         of_sequence,
                         parts_.size()});
      first = next;
    }
    if (with_own_keys) part.own_steps = std::max(part.own_steps, of_sequence);
  }
  parts_.push_back(part);
  steps_ = std::max(steps_, part.end_step());
}

std::span<const AttentionBackwardPiece> BackwardWork::pieces(int64_t step,
                                                             const AttentionRule& rule) {
  pieces_.clear();
  for (const Chunk& chunk : chunks_) add_piece(chunk, step, rule);
  return pieces_;
}

void BackwardWork::add_piece(const Chunk& chunk, int64_t of_all, const AttentionRule& rule) {
  const Part& part = parts_[chunk.part];
  const int64_t step = of_all - part.first_step;
  if (step < 0) return;
  AttentionBackwardPiece piece{chunk.rows,  0,         0,
                               part.prefix, part.sums, step == 0 && part.own_steps > 0};
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
    take_prefix_keys(part, at, piece);
  }
  if (piece.end_key > rule.first_key(chunk.rows.first_position)) pieces_.push_back(piece);
}

void BackwardWork::take_prefix_keys(const Part& part, int64_t at,
                                    AttentionBackwardPiece& piece) const {
  if (!part.divided) {
    piece.first_key = at * kChunk;
    piece.end_key = std::min((at + 1) * kChunk, part.prefix);
    return;
  }
  const PrefixKeys& keys = prefix_keys_[part.first_keys + static_cast<size_t>(at)];
  piece.first_key = piece.first_sum = keys.first;
  piece.end_key = keys.end;
  piece.prefix_stride = sum_stride_;
  piece.d_prefix = sums_ + keys.sum_row * (of_one_rank() ? sum_stride_ : sum_width_);
  if (keys.blocks != nullptr) piece.rows.blocks = keys.blocks;
}

void BackwardWork::add_row(const float* sum, float* to) const { add_elements(sum, sum_width_, to); }

}  // namespace rl
