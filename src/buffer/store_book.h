// The book of a store: which groups are done, trained or dropped for good, and which were taken for
// a step that may still be undone. Invariant: a group is done, taken or unknown, and no step of a
// taken group is at or before the acknowledged one. Its size follows from the gaps between done
// ordinals, not from their number.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/experience_store.h"
#include "buffer/store_lease.h"

namespace rl {

inline constexpr std::string_view kBookKind = "RLSB";

class StoreBook {
 public:
  uint64_t opening = 0;  // how often a buffer began to take
  StoreLease lease;      // of the one that began last

  uint64_t step() const { return step_; }  // the last that was acknowledged
  bool is_done(const GroupKey& key) const;
  bool is_taken(const GroupKey& key) const { return taken_.contains(key); }
  bool has_taken() const { return !taken_.empty(); }
  // The last step that groups were taken for, and how many of an instance; zeros if none are.
  struct LastTaken {
    uint64_t step = 0;
    int64_t groups = 0;
  };
  LastTaken last_taken(uint64_t instance) const;
  // The steps that groups were taken for, from..to.
  std::string taken_steps() const;

  void take(const GroupKey& key, uint64_t step) { taken_[key] = step; }
  // It is done without a step.
  void finish(const GroupKey& key);
  // Groups taken for this step and earlier ones are done; returns them.
  std::vector<GroupKey> acknowledge(uint64_t step);
  // Groups that are taken are unknown again; returns them.
  std::vector<GroupKey> give_back();

  // One frame in the layout of a buffer file.
  std::string encode() const;
  // Nothing of the bytes is used before it was checked: kDataLoss and kIncompatible name place and
  // offset.
  static StoreBook decode(std::string_view bytes, const std::string& place);

 private:
  using Runs = std::map<uint64_t, uint64_t>;  // one beyond the last ordinal, by the first

  uint64_t step_ = 0;
  std::map<uint64_t, Runs> done_;  // by instance
  std::map<GroupKey, uint64_t> taken_;
};

}  // namespace rl
