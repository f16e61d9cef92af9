// A row is encoded outside the lock, so that feeding does not delay the loop.
#include "pipeline/loop/prompt_supply.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

constexpr int64_t kFeedSteps = 4;  // steps' worth of rows that a feed holds

void refuse_after_end(bool ended) {
  if (ended)
    throw Error(Code::kFailedPrecondition, "the pipeline has ended: it accepts no more rows");
}

}  // namespace

PromptSupply::PromptSupply(Control& control, LoadedModel& model, int64_t max_model_len)
    : control_(control),
      model_(model),
      max_model_len_(max_model_len),
      feed_(kFeedSteps * control.settings().pipeline.prompts_per_step, 0) {
  const Settings& settings = control.settings();
  FileSystem& fs = model.runtime().fs();
  const std::string &path = settings.data.path, &eval = settings.eval.path;
  if (!path.empty()) {
    const PromptFile::Order order{settings.data.shuffle, settings.data.shuffle_seed};
    const KeptRows kept{!settings.data.streaming, settings.data.streaming_buffer_size};
    data_ = std::make_unique<PromptFile>(fs, path, order, kept);
    reader_ = std::make_unique<PromptReader>(*data_, model_, settings.data.preprocess_workers,
                                             model.runtime().cpus());
  }
  if (settings.pipeline.prompt_prefetch) {
    const auto read = [this](uint64_t first, int64_t count, const PromptLimits& limits) {
      return reader_->read(first, count, limits);
    };
    ahead_ = std::make_unique<PromptPrefetch>(read, settings.pipeline.prompt_prefetch_size,
                                              model.runtime().cpus());
  }
  if (!eval.empty()) eval_ = std::make_unique<PromptFile>(fs, eval, PromptFile::Order{});
}

void PromptSupply::resume_at(uint64_t cursor) {
  feed_ = PromptFeed(feed_.capacity(), static_cast<int64_t>(cursor));
}

PromptLimits PromptSupply::limits() const {
  const Settings& settings = control_.settings();
  return {settings.sampling.max_new_tokens, max_model_len_, settings.algo.objective};
}

std::vector<Prompt> PromptSupply::draw_rows(uint64_t first, int64_t count) {
  std::vector<Prompt> prompts;
  if (ahead_ != nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      prompts.push_back(ahead_->take(first + static_cast<uint64_t>(i), limits()));
    }
    return prompts;
  }
  for (ReadPrompt& read : reader_->read(first, count, limits())) {
    if (read.failure != nullptr) std::rethrow_exception(read.failure);
    prompts.push_back(std::move(read.prompt));
  }
  return prompts;
}

PromptSupply::Drawn PromptSupply::draw(uint64_t ordinal, int64_t count, int64_t min_count) {
  Drawn out;
  if (data_ != nullptr) {
    out.prompts = draw_rows(ordinal, count);
    return out;
  }
  const Control::Lock lock = control_.lock();
  if (feed_.size() < min_count) {
    out.ended = feed_.ended();
    if (out.ended && feed_.size() > 0) {
      model_.runtime().logger().log(LogLevel::kWarn, "pipeline", {{"rows", feed_.size()}},
                                    feed_.size(),
                                    " rows of the feed do not fill a step and are not used");
    }
    return out;
  }
  for (int64_t i = std::min(count, feed_.size()); i > 0; --i) out.prompts.push_back(feed_.pop());
  control_.notify(lock);  // who feeds may wait for room
  return out;
}

uint64_t PromptSupply::epoch_of(uint64_t ordinal) const {
  return data_ != nullptr ? data_->epoch_of(ordinal) : 0;
}

int64_t PromptSupply::num_eval_rows() const {
  const int64_t max_prompts = control_.settings().eval.max_prompts;
  return max_prompts == 0 ? eval_->num_rows() : std::min(max_prompts, eval_->num_rows());
}

Prompt PromptSupply::eval_row(int64_t row, int64_t max_new_tokens, Objective objective) const {
  return eval_->read(row, model_, {max_new_tokens, max_model_len_, objective});
}

void PromptSupply::check_feed(const Control::Lock&) const {
  if (control_.settings().pipeline.role == PipelineRole::kTrain) {
    throw Error(Code::kFailedPrecondition,
                "a pipeline of pipeline.role = train takes groups from a store, so no prompts can "
                "be fed")
        .with_key("pipeline.role");
  }
  if (data_ != nullptr) {
    throw Error(Code::kFailedPrecondition, "prompts come from data.path, so none can be fed")
        .with_key("data.path");
  }
  if (feed_.ended()) throw Error(Code::kFailedPrecondition, "the feed has ended");
}

std::string PromptSupply::feed_location() const {
  const Control::Lock lock = control_.lock();
  check_feed(lock);
  refuse_after_end(control_.ended(lock));
  return feed_.next_location();
}

bool PromptSupply::feed_row(const PromptRow& row, const std::string& location) {
  PromptLimits limits;
  {
    const Control::Lock lock = control_.lock();
    limits = this->limits();
  }
  Prompt prompt = make_prompt(row, model_, limits, location);
  {
    const Control::Lock lock = control_.lock();
    check_feed(lock);
    refuse_after_end(control_.ended(lock));
    if (feed_.full()) return false;
    feed_.push(std::move(prompt));
  }
  control_.notify();
  return true;
}

// Whoever waits for room does not hold the feed's mutex, so that others are not kept from theirs.
bool PromptSupply::feed(int64_t timeout_ns, FunctionRef<PromptRow(const std::string&)> row_at) {
  const Clock& clock = model_.runtime().clock();
  const int64_t start = clock.now_ns();
  for (;;) {
    {
      const std::lock_guard one(feed_mutex_);
      const std::string location = feed_location();
      if (feed_row(row_at(location), location)) return true;
    }
    const int64_t waited = clock.now_ns() - start;
    const int64_t left = timeout_ns < 0 ? -1 : std::max<int64_t>(timeout_ns - waited, 0);
    Control::Lock lock = control_.lock();
    const auto may_try = [&] { return !feed_.full() || feed_.ended() || control_.ended(lock); };
    if (!control_.wait_until(lock, left, may_try)) return false;
  }
}

bool PromptSupply::feed_line(std::string_view json, int64_t timeout_ns) {
  return feed(timeout_ns,
              [&](const std::string& location) { return parse_prompt_row(json, location); });
}

bool PromptSupply::feed_ids(std::vector<int32_t> ids, std::string tag, int64_t timeout_ns) {
  PromptRow row;
  row.ids.assign(ids.begin(), ids.end());
  row.tag = std::move(tag);
  return feed(timeout_ns, [&](const std::string&) { return row; });
}

void PromptSupply::end_feed() {
  {
    const Control::Lock lock = control_.lock();
    check_feed(lock);
    feed_.end();
  }
  control_.notify();
}

}  // namespace rl
