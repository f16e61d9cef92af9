// Reads and encodes prompts on a thread of its own before a run asks for them
// (pipeline.prompt_prefetch). One owner, whose other thread is the only one that reads meanwhile.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "pipeline/prompts/prompt_reader.h"
#include "pipeline/session/background_task.h"

namespace rl {

class PromptPrefetch {
 public:
  // PromptReader::read.
  using Read = std::function<std::vector<ReadPrompt>(uint64_t first, int64_t count,
                                                     const PromptLimits& limits)>;

  // At most `size` prompts wait. read is called by one thread at a time; cpus: of the own thread.
  PromptPrefetch(Read read, int64_t size, const CpuList& cpus)
      : read_(std::move(read)), size_(size), task_(cpus) {}
  PromptPrefetch(const PromptPrefetch&) = delete;

  // The prompt of an ordinal, and the next ones are read meanwhile. Throws what reading it threw.
  Prompt take(uint64_t ordinal, const PromptLimits& limits);
  // Prompts that were there when they were asked for.
  int64_t num_ready() const { return num_ready_; }

 private:
  bool has(uint64_t ordinal) const;
  void collect();
  void read_ahead();

  const Read read_;
  const int64_t size_;
  PromptLimits limits_;
  uint64_t first_ = 0;  // ordinal of the first of ready_
  std::deque<ReadPrompt> ready_;
  std::vector<ReadPrompt> reading_;  // the task's while it runs
  bool running_ = false;
  int64_t num_ready_ = 0;
  BackgroundTask task_;  // the last member: it uses the others
};

}  // namespace rl
