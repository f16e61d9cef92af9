// Ordered maps, so that a batch is in (ordinal, slot) order by construction.
#include "buffer/experience_buffer.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/sample_document.h"

namespace rl {
namespace {

constexpr auto kMaxGroupSize = static_cast<int64_t>(kMaxGroupSamples);

void check_sample(const SamplePtr& sample, int64_t group_size, bool needs_scores) {
  if (sample == nullptr) throw Error(Code::kInvalidArgument, "the sample is null");
  const Sample& s = *sample;
  if (s.purpose != Purpose::kTrain) {
    throw Error(Code::kInvalidArgument, sample_name(s) + " is an evaluation sample");
  }
  if (needs_scores && !s.scored)
    throw Error(Code::kFailedPrecondition, sample_name(s) + " is not scored");
  if (!std::isfinite(s.reward)) {
    throw Error(Code::kNonFinite, str("the reward of ", sample_name(s), " is ", s.reward));
  }
  if (s.slot >= group_size) {
    throw Error(Code::kOutOfRange, str(sample_name(s), " does not fit into groups of ", group_size))
        .with_expected(str("slot 0..", group_size - 1));
  }
  require_storable(s);
}

// Rethrows the current exception as an error of sample i.
[[noreturn]] void name_refused(std::string_view name, size_t i) {
  try {
    throw;
  } catch (Error& error) {
    if (name.empty()) throw;
    error.message = str(name, "[", i, "]: ", error.message);
    error.key = str(name, "[", i, "]");
    throw;
  }
}

}  // namespace

ExperienceBuffer::ExperienceBuffer(int64_t group_size, int64_t capacity, bool needs_scores)
    : group_size_(group_size), capacity_(capacity), needs_scores_(needs_scores) {
  if (group_size < 1 || group_size > kMaxGroupSize) {
    throw Error(Code::kOutOfRange, str("group size ", group_size, " is outside 1..", kMaxGroupSize))
        .with_key("group_size");
  }
  if (capacity < group_size) {
    throw Error(Code::kOutOfRange,
                str("capacity ", capacity, " is too small for one group of ", group_size))
        .with_key("capacity");
  }
}

void ExperienceBuffer::put(SamplePtr sample) {
  check_sample(sample, group_size_, needs_scores_);
  const std::lock_guard lock(mutex_);
  put_locked(std::move(sample));
}

void ExperienceBuffer::put_all(std::vector<SamplePtr> samples, std::string_view name) {
  const std::lock_guard lock(mutex_);
  size_t done = 0;
  try {
    for (; done < samples.size(); ++done) {
      check_sample(samples[done], group_size_, needs_scores_);
      put_locked(samples[done]);
    }
  } catch (...) {
    const size_t refused = done;
    while (done > 0) erase_locked(*samples[--done]);
    name_refused(name, refused);
  }
}

void ExperienceBuffer::put_locked(SamplePtr sample) {
  if (num_samples_ == capacity_) {
    throw Error(Code::kResourceExhausted,
                str("the buffer is full: it holds ", capacity_, " samples"));
  }
  const uint64_t ordinal = sample->ordinal;
  const uint32_t slot = sample->slot;
  const auto found = groups_.find(ordinal);
  if (found != groups_.end() && found->second.contains(slot)) {
    throw Error(Code::kDuplicate,
                str("ordinal ", ordinal, ", slot ", slot, " is already in the buffer"));
  }
  // Made first: if memory runs out here, no group without samples is left behind.
  std::map<uint32_t, SamplePtr> only;
  only.emplace(slot, std::move(sample));
  groups_[ordinal].merge(only);
  ++num_samples_;
}

void ExperienceBuffer::erase_locked(const Sample& sample) {
  const auto found = groups_.find(sample.ordinal);
  found->second.erase(sample.slot);
  if (found->second.empty()) groups_.erase(found);
  --num_samples_;
}

void ExperienceBuffer::visit(FunctionRef<void(const Group& group)> visitor) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [ordinal, slots] : groups_) {
    Group group{ordinal, {}};
    for (const auto& [slot, sample] : slots) group.samples.push_back(sample);
    visitor(group);
  }
}

std::vector<SamplePtr> ExperienceBuffer::take(int64_t max_groups) {
  const std::lock_guard lock(mutex_);
  const int64_t groups = std::min(max_groups, num_whole_locked());
  std::vector<SamplePtr> out;
  // If memory runs out here, nothing is lost.
  out.reserve(static_cast<size_t>(groups * group_size_));
  for (auto it = groups_.begin(); static_cast<int64_t>(out.size()) < groups * group_size_;) {
    if (static_cast<int64_t>(it->second.size()) < group_size_) {
      ++it;
      continue;
    }
    for (auto& [slot, sample] : it->second) out.push_back(std::move(sample));
    it = groups_.erase(it);
  }
  num_samples_ -= static_cast<int64_t>(out.size());
  return out;
}

void ExperienceBuffer::erase(uint64_t ordinal) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(ordinal);
  if (found == groups_.end()) return;
  num_samples_ -= static_cast<int64_t>(found->second.size());
  groups_.erase(found);
}

void ExperienceBuffer::clear() {
  const std::lock_guard lock(mutex_);
  groups_.clear();
  num_samples_ = 0;
}

int64_t ExperienceBuffer::num_samples() const {
  const std::lock_guard lock(mutex_);
  return num_samples_;
}

int64_t ExperienceBuffer::num_whole_groups() const {
  const std::lock_guard lock(mutex_);
  return num_whole_locked();
}

int64_t ExperienceBuffer::num_whole_locked() const {
  int64_t whole = 0;
  for (const auto& [ordinal, group] : groups_) {
    whole += static_cast<int64_t>(group.size()) == group_size_;
  }
  return whole;
}

}  // namespace rl
