// Ordered maps, so that a batch is in (ordinal, slot) order by construction.
#include "buffer/experience_buffer.h"

#include <algorithm>
#include <cmath>

#include "buffer/group_spill.h"
#include "core/deadline.h"
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

// What an observer is told of a group, whose samples may not be here.
Sample stand_in(uint64_t ordinal, int64_t data_row) {
  Sample sample;
  sample.ordinal = ordinal;
  sample.data_row = data_row;
  return sample;
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

uint64_t oldest_version(const Sample& sample) {
  uint64_t oldest = kUnknownVersion;
  for (size_t i = 0; i < sample.versions.size(); ++i) {
    if (sample.loss_mask[i] != 0) oldest = std::min(oldest, sample.versions[i]);
  }
  return oldest;
}

ExperienceBuffer::ExperienceBuffer(int64_t group_size, int64_t capacity, bool needs_scores)
    : group_size_(group_size), capacity_(capacity), needs_scores_(needs_scores) {
  if (group_size < 1 || group_size > kMaxGroupSize) {
    throw Error(Code::kOutOfRange, str("group size ", group_size, " is outside 1..", kMaxGroupSize))
        .with_key("group_size");
  }
  if (capacity < group_size) {
    throw Error(Code::kOutOfRange,
                str("max_samples is ", capacity, ", too small for one group of ", group_size))
        .with_key("max_samples")
        .with_expected(str("at least ", group_size));
  }
}

void ExperienceBuffer::put(SamplePtr sample) {
  check_sample(sample, group_size_, needs_scores_);
  {
    const std::lock_guard lock(mutex_);
    const int64_t before = counts_.whole_groups;
    put_locked(sample);
    try {
      spill_locked({&sample, 1});
    } catch (...) {
      erase_locked(*sample);
      throw;
    }
    tell(before);
  }
  changed_.notify_all();
}

void ExperienceBuffer::put_all(std::vector<SamplePtr> samples, std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    const int64_t before = counts_.whole_groups;
    size_t done = 0;
    try {
      for (; done < samples.size(); ++done) {
        check_sample(samples[done], group_size_, needs_scores_);
        put_locked(samples[done]);
      }
      spill_locked(samples);
    } catch (...) {
      const size_t refused = done;
      while (done > 0) erase_locked(*samples[--done]);
      if (refused == samples.size()) throw;
      name_refused(name, refused);
    }
    tell(before);
  }
  changed_.notify_all();
}

void ExperienceBuffer::put_locked(SamplePtr sample) {
  if (counts_.held == capacity_) {
    throw Error(Code::kResourceExhausted,
                str("the buffer is full: it holds ", capacity_, " samples"));
  }
  const uint64_t ordinal = sample->ordinal;
  const uint32_t slot = sample->slot;
  const auto found = groups_.find(ordinal);
  if (found != groups_.end() && (found->second.on_disk || found->second.samples.contains(slot))) {
    throw Error(Code::kDuplicate,
                str("ordinal ", ordinal, ", slot ", slot, " is already in the buffer"));
  }
  const uint64_t oldest = oldest_version(*sample);
  const int64_t data_row = sample->data_row;
  // Made first: if memory runs out here, no group without samples is left behind.
  std::map<uint32_t, SamplePtr> only;
  only.emplace(slot, std::move(sample));
  Slots& slots = groups_[ordinal];
  slots.samples.merge(only);
  slots.oldest = std::min(slots.oldest, oldest);
  slots.data_row = data_row;
  counts_.whole_groups += is_whole(slots);
  ++counts_.held;
  ++counts_.put;
}

// Takes back what put_locked did.
void ExperienceBuffer::erase_locked(const Sample& sample) {
  const auto found = groups_.find(sample.ordinal);
  Slots& slots = found->second;
  counts_.whole_groups -= is_whole(slots);
  slots.samples.erase(sample.slot);
  slots.oldest = kUnknownVersion;
  for (const auto& [slot, kept] : slots.samples) {
    slots.oldest = std::min(slots.oldest, oldest_version(*kept));
  }
  if (slots.samples.empty()) groups_.erase(found);
  --counts_.held;
  --counts_.put;
}

void ExperienceBuffer::visit(FunctionRef<void(const Group& group)> visitor) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [ordinal, slots] : groups_) {
    Group group{ordinal, {}};
    for (const auto& [slot, sample] : slots.samples) group.samples.push_back(sample);
    if (group.samples.empty()) group.samples = spill_->read(ordinal);
    visitor(group);
  }
}

std::vector<SamplePtr> ExperienceBuffer::take(int64_t max_groups) {
  const std::lock_guard lock(mutex_);
  return take_locked({.max_groups = max_groups});
}

std::vector<SamplePtr> ExperienceBuffer::take(const TakeRule& rule, int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const auto enough = [&] {
    if (closed_) return true;
    remove_locked(
        [&](uint64_t, const Slots& slots) {
          return slots.oldest < rule.min_version && is_whole(slots);
        },
        DropReason::kStale);
    return counts_.whole_groups >= rule.min_groups;
  };
  if (!wait_until_ready(changed_, lock, timeout_ns, enough) || closed_) return {};
  return take_locked(rule);
}

std::vector<ExperienceBuffer::Groups::iterator> ExperienceBuffer::choose_locked(
    const TakeRule& rule, int64_t count) {
  std::vector<Groups::iterator> whole;
  for (auto it = groups_.begin(); it != groups_.end(); ++it) {
    if (is_whole(it->second)) whole.push_back(it);
  }
  if (rule.oldest_first) {
    std::ranges::stable_sort(whole, {}, [](const auto& it) { return it->second.oldest; });
  }
  if (rule.newest_first) whole.erase(whole.begin(), whole.end() - count);
  whole.resize(static_cast<size_t>(count));
  std::ranges::sort(whole, {}, [](const auto& it) { return it->first; });
  return whole;
}

std::vector<SamplePtr> ExperienceBuffer::take_locked(const TakeRule& rule) {
  const int64_t whole = counts_.whole_groups, count = std::min(rule.max_groups, whole);
  std::vector<SamplePtr> out;
  // If memory runs out here, nothing is lost.
  out.reserve(static_cast<size_t>(count * group_size_));
  const std::vector<Groups::iterator> taken = choose_locked(rule, count);
  for (const auto& it : taken) load_locked(it->first, it->second);
  for (const auto& it : taken) remove_file(it->first, it->second);
  for (const auto& it : taken) {
    for (auto& [slot, sample] : it->second.samples) out.push_back(std::move(sample));
    groups_.erase(it);
  }
  counts_.held -= static_cast<int64_t>(out.size());
  counts_.taken += static_cast<int64_t>(out.size());
  counts_.whole_groups -= count;
  tell(whole);
  return out;
}

template <typename F>
int64_t ExperienceBuffer::remove_locked(F refuse, DropReason reason) {
  const int64_t whole = counts_.whole_groups;
  int64_t removed = 0;
  for (auto it = groups_.begin(); it != groups_.end();) {
    Slots& slots = it->second;
    if (!refuse(it->first, slots)) {
      ++it;
      continue;
    }
    const int64_t size = size_of(slots);
    const bool whole_group = is_whole(slots);
    remove_file(it->first, slots);
    if (observer_ != nullptr) observer_->removed(stand_in(it->first, slots.data_row), reason);
    removed += size;
    counts_.held -= size;
    (reason == DropReason::kStale ? counts_.stale : counts_.dropped) += size;
    counts_.whole_groups -= whole_group;
    it = groups_.erase(it);
  }
  if (removed > 0) tell(whole);
  return removed;
}

int64_t ExperienceBuffer::drop(const DropRule& rule) {
  std::vector<uint64_t> ordinals;
  if (rule.ordinals) ordinals.assign(rule.ordinals->begin(), rule.ordinals->end());
  std::ranges::sort(ordinals);
  const std::lock_guard lock(mutex_);
  return remove_locked(
      [&](uint64_t ordinal, const Slots& slots) {
        if (rule.ordinals && !std::ranges::binary_search(ordinals, ordinal)) return false;
        if (rule.below_version > 0 && slots.oldest >= rule.below_version) return false;
        return !rule.incomplete_only || !is_whole(slots);
      },
      DropReason::kCancelled);
}

void ExperienceBuffer::erase(uint64_t ordinal) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(ordinal);
  if (found == groups_.end()) return;
  const int64_t count = size_of(found->second);
  const bool whole_group = is_whole(found->second);
  remove_file(ordinal, found->second);
  counts_.held -= count;
  counts_.dropped += count;
  counts_.whole_groups -= whole_group;
  groups_.erase(found);
}

void ExperienceBuffer::clear() { drop({}); }

void ExperienceBuffer::observe(BufferObserver& observer) {
  const std::lock_guard lock(mutex_);
  observer_ = &observer;
  tell(0);
}

void ExperienceBuffer::tell(int64_t whole_before) const {
  if (observer_ == nullptr) return;
  observer_->changed(counts_.whole_groups, counts_.whole_groups > whole_before);
}

void ExperienceBuffer::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

bool ExperienceBuffer::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool ExperienceBuffer::wait_until_closed(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  return wait_until_ready(changed_, lock, timeout_ns, [&] { return closed_; });
}

void ExperienceBuffer::take_back(std::span<const SamplePtr> samples) {
  const std::lock_guard lock(mutex_);
  const int64_t before = counts_.whole_groups;
  for (const SamplePtr& s : samples) {
    const auto group = groups_.find(s->ordinal);
    if (group == groups_.end()) continue;
    const auto found = group->second.samples.find(s->slot);
    if (found != group->second.samples.end() && found->second == s) erase_locked(*s);
  }
  tell(before);
}

int64_t ExperienceBuffer::num_samples() const {
  const std::lock_guard lock(mutex_);
  return counts_.held;
}

int64_t ExperienceBuffer::num_whole_groups() const {
  const std::lock_guard lock(mutex_);
  return counts_.whole_groups;
}

BufferCounts ExperienceBuffer::counts() const {
  const std::lock_guard lock(mutex_);
  BufferCounts counts = counts_;
  counts.groups = static_cast<int64_t>(groups_.size());
  return counts;
}

bool ExperienceBuffer::is_whole(const Slots& slots) const { return size_of(slots) == group_size_; }

int64_t ExperienceBuffer::size_of(const Slots& slots) const {
  return slots.on_disk ? group_size_ : static_cast<int64_t>(slots.samples.size());
}

// The files come first, then memory is given up, which cannot fail.
void ExperienceBuffer::spill_locked(std::span<const SamplePtr> put) {
  if (spill_ == nullptr) return;
  std::vector<uint64_t> written;
  try {
    for (const SamplePtr& s : put) {
      Slots& slots = groups_.at(s->ordinal);
      const bool is_written = std::ranges::find(written, s->ordinal) != written.end();
      if (slots.on_disk || is_written || !is_whole(slots)) continue;
      std::vector<SamplePtr> samples;
      for (const auto& [slot, sample] : slots.samples) samples.push_back(sample);
      written.reserve(written.size() + 1);
      spill_->write(s->ordinal, samples);
      written.push_back(s->ordinal);
    }
  } catch (...) {
    for (const uint64_t ordinal : written) spill_->remove(ordinal);
    throw;
  }
  for (const uint64_t ordinal : written) {
    Slots& slots = groups_.at(ordinal);
    slots.on_disk = true;
    slots.samples.clear();
  }
}

void ExperienceBuffer::load_locked(uint64_t ordinal, Slots& slots) {
  if (!slots.on_disk || !slots.samples.empty()) return;
  try {
    for (SamplePtr& s : spill_->read(ordinal)) slots.samples.emplace(s->slot, std::move(s));
  } catch (const Error& e) {
    if (e.code != Code::kDataLoss && e.code != Code::kIncompatible) throw;
    counts_.held -= group_size_;
    counts_.dropped += group_size_;
    --counts_.whole_groups;
    groups_.erase(ordinal);
    throw;
  }
}

void ExperienceBuffer::remove_file(uint64_t ordinal, Slots& slots) {
  if (!slots.on_disk) return;
  spill_->remove(ordinal);
  slots.on_disk = false;
}

void ExperienceBuffer::spill_to(GroupSpill& spill) {
  const std::lock_guard lock(mutex_);
  spill_ = &spill;
  for (const uint64_t ordinal : spill.ordinals()) {
    const std::vector<SamplePtr> samples = spill.read(ordinal);
    if (static_cast<int64_t>(samples.size()) != group_size_) {
      throw Error(Code::kIncompatible,
                  str("buffer.spill_path has group ", ordinal, " of ", samples.size(),
                      " samples, but the buffer's groups have ", group_size_))
          .with_key("pipeline.samples_per_prompt")
          .with_expected(str(samples.size()));
    }
    if (counts_.held + group_size_ > capacity_) {
      throw Error(Code::kResourceExhausted, str("buffer.spill_path has more samples than the ",
                                                capacity_, " that the buffer has room for"))
          .with_key("buffer.spill_path");
    }
    Slots slots{.samples = {}, .data_row = samples[0]->data_row, .on_disk = true};
    for (const SamplePtr& s : samples) {
      check_sample(s, group_size_, needs_scores_);
      slots.oldest = std::min(slots.oldest, oldest_version(*s));
    }
    groups_.emplace(ordinal, std::move(slots));
    counts_.held += group_size_;
    counts_.put += group_size_;
    ++counts_.whole_groups;
  }
}

int64_t ExperienceBuffer::num_spilled() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::count_if(groups_, [](const auto& group) { return group.second.on_disk; });
}

}  // namespace rl
