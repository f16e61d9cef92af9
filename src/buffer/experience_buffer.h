// Holds samples on their way to the trainer: scored ones, or given responses. Samples collect into
// groups by ordinal; a group can be taken once all its slots are filled, so a batch never holds a
// partial group. The content can be saved: every sample obeys the rules of its document.
// Thread-safe.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "data/sample.h"

namespace rl {

// The oldest version of the tokens of a sample that are trained on; kUnknownVersion if there are
// none, or if no version is known.
uint64_t oldest_version(const Sample& sample);

// Which complete groups are taken.
struct TakeRule {
  int64_t min_groups = 1;  // fewer are not taken
  int64_t max_groups = std::numeric_limits<int64_t>::max();
  bool newest_first = false;  // highest ordinals first
  uint64_t min_version = 0;   // groups with an older version are removed instead
  bool oldest_first = false;  // lowest versions first, of equal ones the lowest ordinals
};

// Which groups are dropped, complete or not: those that fulfil every condition.
struct DropRule {
  std::optional<std::span<const uint64_t>> ordinals = std::nullopt;  // nothing: all
  uint64_t below_version = 0;  // those with an older version; 0: all
  bool incomplete_only = false;
};

// Accounting of samples. At any time put = taken + dropped + stale + held.
struct BufferCounts {
  int64_t held = 0, groups = 0, whole_groups = 0;  // now
  int64_t put = 0, taken = 0, dropped = 0, stale = 0;
  bool operator==(const BufferCounts&) const = default;
};

// Hears of what is put, taken and dropped, under the buffer's lock: it may not call the buffer.
class BufferObserver {
 public:
  virtual ~BufferObserver() = default;
  // The number of complete groups; more: some have come.
  virtual void changed(int64_t whole_groups, bool more) noexcept = 0;
  // A group was removed and not taken; one of its samples.
  virtual void removed(const Sample& of, DropReason reason) noexcept = 0;
};

class GroupSpill;

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
  // The same by a rule; waits until there are enough groups. Empty if there are not in time, or
  // once the buffer is closed.
  std::vector<SamplePtr> take(const TakeRule& rule, int64_t timeout_ns);
  // Removes groups, and returns the number of their samples.
  int64_t drop(const DropRule& rule);
  // Removes the samples of this ordinal, if there are any, without a word to the observer.
  void erase(uint64_t ordinal);
  void clear();
  // From now on complete groups wait in files of the spill, which outlives the buffer, and not in
  // memory. Groups that it has are put: kIncompatible if their size differs, kResourceExhausted
  // naming buffer.spill_path if there are too many. A damaged file (kDataLoss) is set aside, and
  // its group dropped, when it is read.
  void spill_to(GroupSpill& spill);
  int64_t num_spilled() const;  // groups
  // From now on the observer, which outlives the buffer, hears of changes; at once of complete
  // groups that wait.
  void observe(BufferObserver& observer);
  // Removes those of these samples that are there, as if they had never been put.
  void take_back(std::span<const SamplePtr> samples);
  // Ends all waits, now and later.
  void close();
  bool closed() const;
  // Waits at most so long.
  bool wait_until_closed(int64_t timeout_ns);

  // Visits every group, complete or not, in order. Other calls wait meanwhile.
  void visit(FunctionRef<void(const Group& group)> visitor) const;

  int64_t num_samples() const;
  int64_t num_whole_groups() const;
  BufferCounts counts() const;
  int64_t group_size() const { return group_size_; }
  int64_t capacity() const { return capacity_; }

 private:
  struct Slots {
    std::map<uint32_t, SamplePtr> samples;
    uint64_t oldest = ~uint64_t{0};  // the least oldest_version of them
    int64_t data_row = -1;
    bool on_disk = false;  // it is complete, has a file, and its samples need not be here
  };
  using Groups = std::map<uint64_t, Slots>;

  void put_locked(SamplePtr sample);
  void erase_locked(const Sample& sample);
  bool is_whole(const Slots& slots) const;
  int64_t size_of(const Slots& slots) const;
  // Writes the complete groups of these ordinals to files or, after an error, none.
  void spill_locked(std::span<const SamplePtr> put);
  // The samples are here afterwards; a damaged group is dropped.
  void load_locked(uint64_t ordinal, Slots& slots);
  // The group has no file afterwards.
  void remove_file(uint64_t ordinal, Slots& slots);
  // Removes groups for which refuse(ordinal, slots) holds; adds their samples to the count of the
  // reason.
  template <typename F>
  int64_t remove_locked(F refuse, DropReason reason);
  // The complete groups that a rule takes first, by ordinal.
  std::vector<Groups::iterator> choose_locked(const TakeRule& rule, int64_t count);
  std::vector<SamplePtr> take_locked(const TakeRule& rule);
  // There were so many complete groups before the change.
  void tell(int64_t whole_before) const;

  const int64_t group_size_, capacity_;
  const bool needs_scores_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Groups groups_;
  BufferCounts counts_;  // without groups, which groups_ counts
  BufferObserver* observer_ = nullptr;
  GroupSpill* spill_ = nullptr;
  bool closed_ = false;
};

}  // namespace rl
