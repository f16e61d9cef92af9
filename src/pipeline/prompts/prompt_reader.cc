// Each thread takes the next row that nobody has taken; the calling thread is one of them.
#include "pipeline/prompts/prompt_reader.h"

#include <algorithm>
#include <atomic>
#include <deque>

#include "pipeline/session/background_task.h"

namespace rl {

std::vector<ReadPrompt> PromptReader::read(uint64_t first, int64_t count,
                                           const PromptLimits& limits) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(file_.row_of(first + static_cast<uint64_t>(i)));
  }
  std::vector<ReadPrompt> prompts(rows.size());
  std::atomic<size_t> next = 0, end = rows.size();
  const auto work = [&] {
    for (size_t i = next++; i < end; i = next++) {
      try {
        prompts[i].prompt = file_.read(rows[i], model_, limits);
      } catch (...) {
        prompts[i].failure = std::current_exception();
        end = std::min<size_t>(end, i + 1);
      }
    }
  };
  const int64_t num_workers = std::min(num_workers_, count);
  most_workers_ = std::max(most_workers_.load(), num_workers);
  std::deque<BackgroundTask> others;
  for (int64_t i = 1; i < num_workers; ++i) others.emplace_back(cpus_).start(work);
  work();
  for (BackgroundTask& other : others) other.finish();
  const auto failed =
      std::ranges::find_if(prompts, [](const ReadPrompt& p) { return p.failure != nullptr; });
  if (failed != prompts.end()) prompts.erase(failed + 1, prompts.end());
  return prompts;
}

}  // namespace rl
