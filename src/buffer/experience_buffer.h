// Holds samples on their way to the trainer: scored ones, or given responses. Samples collect into
// groups by ordinal; a group can be taken once all its slots are filled, so a batch never holds a
// partial group. The content can be saved: every sample obeys the rules of its document.
// Thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "data/sample.h"

namespace rl {

class ExperienceBuffer {
 public:
  // group_size is 1..kMaxGroupSamples; at most capacity samples are held. needs_scores: samples
  // without a reward are refused.
  ExperienceBuffer(int64_t group_size, int64_t capacity, bool needs_scores = true);

  // Errors: kInvalidArgument (null, from an evaluation, require_storable), kFailedPrecondition
  // (not scored), kNonFinite (reward), kDuplicate (same ordinal and slot), kOutOfRange (slot),
  // kResourceExhausted (full). The sample is then unchanged.
  void put(SamplePtr sample);
  // All of them or, after an error, none. Errors as for put; if the samples have a name, the key
  // of the error is "name[i]", and its message begins with it.
  void put_all(std::vector<SamplePtr> samples, std::string_view name = {});
  // Removes and returns the samples of up to max_groups complete groups, by (ordinal, slot).
  std::vector<SamplePtr> take(int64_t max_groups);
  // Removes the samples of this ordinal, if there are any.
  void erase(uint64_t ordinal);
  void clear();

  // Visits every group, complete or not, in order. Other calls wait meanwhile.
  void visit(FunctionRef<void(const Group& group)> visitor) const;

  int64_t num_samples() const;
  int64_t num_whole_groups() const;
  int64_t group_size() const { return group_size_; }
  int64_t capacity() const { return capacity_; }

 private:
  void put_locked(SamplePtr sample);
  void erase_locked(const Sample& sample);
  int64_t num_whole_locked() const;

  const int64_t group_size_, capacity_;
  const bool needs_scores_;
  mutable std::mutex mutex_;
  std::map<uint64_t, std::map<uint32_t, SamplePtr>> groups_;
  int64_t num_samples_ = 0;
};

}  // namespace rl
