// The prompts of a run: the file data.path, or the rows that the host feeds, and the rows of
// eval.path. The n-th prompt of a run is always the same row (prompt_source.h). The host's threads
// feed; the loop's thread draws.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "pipeline/loop/control.h"
#include "pipeline/prompts/prompt_prefetch.h"
#include "pipeline/prompts/prompt_source.h"

namespace rl {

class PromptSupply {
 public:
  // Opens the files that the options name.
  PromptSupply(Control& control, LoadedModel& model, int64_t max_model_len);

  // For the host: see Pipeline.
  bool feed_line(std::string_view json, int64_t timeout_ns);
  bool feed_ids(std::vector<int32_t> ids, std::string tag, int64_t timeout_ns);
  int64_t feed_size(const Control::Lock&) const { return feed_.size(); }
  int64_t feed_capacity() const { return feed_.capacity(); }
  void end_feed();

  // Before the run, if it resumes: the ordinal of its next prompt.
  void resume_at(uint64_t cursor);

  struct Drawn {
    std::vector<Prompt> prompts;  // empty: the feed has too few
    bool ended = false;           // then: and will have no more
  };
  // The prompts from this ordinal on, `count` of them. From a feed that has fewer: none.
  Drawn draw(uint64_t ordinal, int64_t count) { return draw(ordinal, count, count); }
  // The same, except that from a feed there may be fewer, but at least one.
  Drawn draw_some(uint64_t ordinal, int64_t count) { return draw(ordinal, count, 1); }

  // Prompts that pipeline.prompt_prefetch had ready; 0 without it.
  int64_t num_prefetched() const { return ahead_ != nullptr ? ahead_->num_ready() : 0; }

  // Rows that were read from data.path because they were drawn; 0 without it.
  int64_t num_rows_read() const { return data_ != nullptr ? data_->num_rows_read() : 0; }
  // The most threads that prompts were read on; 0 without data.path.
  int64_t most_workers() const { return reader_ != nullptr ? reader_->most_workers() : 0; }

  uint64_t digest() const { return data_ != nullptr ? data_->digest() : 0; }
  // 0 for a feed.
  uint64_t epoch_of(uint64_t ordinal) const;

  bool has_eval() const { return eval_ != nullptr; }
  // Rows of an evaluation.
  int64_t num_eval_rows() const;
  // max_new_tokens and objective are those of the evaluation (PromptLimits).
  Prompt eval_row(int64_t row, int64_t max_new_tokens, Objective objective) const;

 private:
  Drawn draw(uint64_t ordinal, int64_t count, int64_t min_count);
  std::vector<Prompt> draw_rows(uint64_t first, int64_t count);
  PromptLimits limits() const;
  // One row, made by row_at(location); false if the feed was full until the timeout.
  bool feed(int64_t timeout_ns, FunctionRef<PromptRow(const std::string&)> row_at);
  bool feed_row(const PromptRow& row, const std::string& location);
  std::string feed_location() const;
  void check_feed(const Control::Lock& lock) const;

  Control& control_;
  LoadedModel& model_;
  const int64_t max_model_len_;
  std::unique_ptr<PromptFile> data_;       // null: the host feeds
  std::unique_ptr<PromptReader> reader_;   // of data_
  std::unique_ptr<PromptPrefetch> ahead_;  // null: prompts are read when they are drawn
  std::unique_ptr<PromptFile> eval_;       // null: there are no evaluations
  PromptFeed feed_;                        // under control's lock
  std::mutex feed_mutex_;                  // rows are numbered in the order fed
};

}  // namespace rl
