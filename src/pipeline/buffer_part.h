// The experience buffer as the host drives it: samples drawn here or elsewhere gather to groups of
// pipeline.samples_per_prompt. Thread-safe.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "buffer/experience_buffer.h"
#include "core/options.h"

namespace rl {

class BufferPart {
 public:
  BufferPart(const OptionSet& options, int64_t capacity)
      : buffer_(options.get_i64("pipeline.samples_per_prompt"), capacity) {}

  void put(SamplePtr sample) { buffer_.put(std::move(sample)); }
  std::vector<SamplePtr> take(int64_t max_groups) { return buffer_.take(max_groups); }
  int64_t num_samples() const { return buffer_.num_samples(); }
  int64_t num_whole_groups() const { return buffer_.num_whole_groups(); }

 private:
  ExperienceBuffer buffer_;
};

}  // namespace rl
