// The row that was read longest ago makes room.
#include "pipeline/prompts/jsonl_rows.h"

namespace rl {

JsonlRows::JsonlRows(FileSystem& fs, const std::string& path, KeptRows kept)
    : index_(fs, path), num_last_(kept.all ? 0 : kept.last) {
  if (!kept.all) return;
  all_.reserve(static_cast<size_t>(index_.num_rows()));
  for (int64_t row = 0; row < index_.num_rows(); ++row) all_.push_back(index_.row(row));
}

std::string JsonlRows::row(int64_t row) const {
  if (!all_.empty()) return all_[static_cast<size_t>(row)];
  std::string text;
  if (num_last_ > 0 && find(row, text)) return text;
  text = index_.row(row);
  ++num_read_;
  if (num_last_ > 0) keep(row, text);
  return text;
}

bool JsonlRows::find(int64_t row, std::string& text) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(row);
  if (found == places_.end()) return false;
  last_.splice(last_.begin(), last_, found->second);
  text = last_.front().text;
  return true;
}

// Another thread may have read the same row meanwhile.
void JsonlRows::keep(int64_t row, const std::string& text) const {
  const std::lock_guard lock(mutex_);
  if (places_.contains(row)) return;
  last_.push_front({row, text});
  places_[row] = last_.begin();
  if (static_cast<int64_t>(last_.size()) <= num_last_) return;
  places_.erase(last_.back().row);
  last_.pop_back();
}

}  // namespace rl
