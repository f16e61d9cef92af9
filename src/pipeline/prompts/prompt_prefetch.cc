// The next prompts are read when half of those that waited are gone.
#include "pipeline/prompts/prompt_prefetch.h"

#include <iterator>
#include <utility>

namespace rl {

bool PromptPrefetch::has(uint64_t ordinal) const {
  return ordinal >= first_ && ordinal - first_ < ready_.size();
}

// Waits for the task.
void PromptPrefetch::collect() {
  if (!running_) return;
  task_.finish();
  running_ = false;
  std::move(reading_.begin(), reading_.end(), std::back_inserter(ready_));
  reading_.clear();
}

// Ends with a prompt that cannot be read: the run ends there.
void PromptPrefetch::read_ahead() {
  const uint64_t begin = first_ + ready_.size();
  const uint64_t end = first_ + static_cast<uint64_t>(size_);
  if (running_ || 2 * ready_.size() > static_cast<uint64_t>(size_)) return;
  if (!ready_.empty() && ready_.back().failure != nullptr) return;
  task_.start(
      [this, begin, end] { reading_ = read_(begin, static_cast<int64_t>(end - begin), limits_); });
  running_ = true;
}

// Prompts that were read within other limits, or out of order, are read again.
Prompt PromptPrefetch::take(uint64_t ordinal, const PromptLimits& limits) {
  const bool same = limits.max_new_tokens == limits_.max_new_tokens &&
                    limits.max_model_len == limits_.max_model_len &&
                    limits.objective == limits_.objective;
  if (same && has(ordinal)) ++num_ready_;
  if (!same || !has(ordinal)) collect();
  if (!same || !has(ordinal)) {
    limits_ = limits;
    ready_.clear();
    first_ = ordinal;
    ready_.push_back(std::move(read_(ordinal, 1, limits).front()));
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(ordinal - first_));
  ReadPrompt entry = std::move(ready_.front());
  ready_.pop_front();
  first_ = ordinal + 1;
  if (entry.failure != nullptr) std::rethrow_exception(entry.failure);
  read_ahead();
  return std::move(entry.prompt);
}

}  // namespace rl
