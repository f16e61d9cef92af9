// Reads and encodes prompts of a file, several at once on threads of its own
// (data.preprocess_workers). What it returns does not depend on their number. Used by one thread at
// a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <vector>

#include "core/cpu_list.h"
#include "pipeline/prompts/prompt_source.h"

namespace rl {

// A prompt, or why it cannot be read.
struct ReadPrompt {
  Prompt prompt;
  std::exception_ptr failure;  // null: there is a prompt
};

class PromptReader {
 public:
  // All outlive the reader. cpus: of its threads.
  PromptReader(PromptFile& file, const LoadedModel& model, int64_t num_workers, const CpuList& cpus)
      : file_(file), model_(model), num_workers_(num_workers), cpus_(cpus) {}

  // The prompts of `count` ordinals in a row, up to the first that cannot be read.
  std::vector<ReadPrompt> read(uint64_t first, int64_t count, const PromptLimits& limits);
  // The most threads that a read had. Thread-safe.
  int64_t most_workers() const { return most_workers_; }

 private:
  PromptFile& file_;
  const LoadedModel& model_;
  const int64_t num_workers_;
  const CpuList& cpus_;
  std::atomic<int64_t> most_workers_ = 0;
};

}  // namespace rl
