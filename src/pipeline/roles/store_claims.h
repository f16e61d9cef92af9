// The groups that a pipeline of role train takes from a store. It numbers them itself, in the order
// in which it takes them, so that the groups of several processes that sample never meet in one
// number; their samples keep their ids. Invariant: a group that was taken is trained on with the
// step that it was taken for, or done without one. The loop's thread alone uses it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "buffer/store_consumer.h"
#include "core/function_ref.h"
#include "core/log.h"

namespace rl {

class StoreClaims {
 public:
  struct Rules {
    int64_t group_size;
    int64_t max_groups;  // that are claimed and not taken: a step takes the oldest of them
    int64_t lease_ns;
  };
  StoreClaims(std::shared_ptr<ExperienceStore> store, const Rules& rules, Logger& logger);

  // Whether the store is this one's now: it is once no other process has a lease of it.
  bool begin() { return consumer_.begin(); }
  // After begin(), before anything is taken: training goes on after this step. Errors of
  // StoreConsumer::resume.
  void resume(uint64_t step);
  struct Wanted {
    int64_t groups;          // so many, or none
    uint64_t step;           // that trains on them
    uint64_t version;        // of the weights now
    uint64_t oldest;         // version that a token may have; older ones come alone, to be dropped
    uint64_t first_ordinal;  // their numbers from now on
  };
  // Complete groups by number; none until there are enough, so the order in which another process
  // puts them changes nothing. Errors of StoreConsumer::take. A group that is damaged is
  // set aside, done, and logged; kDataLoss if it is of another size, or nobody knows which one it
  // was, so that whoever generates would wait for it. kFailedPrecondition for tokens of a later
  // version than the weights have: they are of another run, or training has gone back behind a
  // checkpoint.
  std::vector<std::vector<SamplePtr>> take(const Wanted& wanted);
  // Groups that were dropped, as is_open says of their numbers, are done.
  void settle(FunctionRef<bool(uint64_t ordinal)> is_open);
  // The step is over for these groups.
  void end_step(std::span<const SamplePtr> batch);
  // The weights of this step are durable.
  void acknowledge(uint64_t step);
  StoreCounts counts() const { return consumer_.counts(); }
  // StoreConsumer::require_own, on any thread.
  void require_own() { consumer_.require_own(); }

 private:
  using Group = std::vector<SamplePtr>;
  void collect(const Wanted& wanted);
  std::vector<SamplePtr> take_samples(int64_t groups, uint64_t step);
  std::vector<Group> numbered(std::vector<Group> groups, uint64_t first_ordinal);

  const int64_t group_size_;
  Logger& logger_;
  StoreConsumer consumer_;
  std::map<uint64_t, GroupKey> taken_;   // of the steps to come, by number
  std::map<GroupKey, Group> collected_;  // for the next step, not numbered yet
  uint64_t acknowledged_ = 0;
};

}  // namespace rl
