// The groups that a pipeline of role rollout puts into a store, and how far it may run ahead of the
// trainer that takes them. The book of the store says which groups are done and which are taken for
// which step. No group is drawn if then a group that waits, or the new one, could be trained on
// later than its bound allows: so slow groups are waited for. A process that starts again draws
// what no trainer has. The loop's thread alone uses it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "buffer/experience_store.h"
#include "buffer/store_book.h"
#include "core/clock.h"
#include "core/function_ref.h"
#include "data/sample.h"

namespace rl {

// Of the trainer, as its options say.
struct DeliveryRules {
  int64_t batch_groups = 1;   // of a step
  int64_t max_staleness = 0;  // most steps that may end between the draw of a group and its own
};

// Where training is, as a book says, and what waits for it: steps are counted from 1.
struct DeliveryProgress {
  int64_t saved = 0;         // the last step whose groups are done
  int64_t taken_for = 0;     // the last step that groups were taken for; `saved` if none are taken,
  int64_t taken_groups = 0;  // and how many; those of a batch if none are
  int64_t waiting = 0;       // groups drawn and not taken
  int64_t oldest = 0;        // `saved` at the draw of the first of them; `saved` if there are none
};
// How many groups may be drawn now.
int64_t num_to_draw_ahead(const DeliveryRules& rules, const DeliveryProgress& now);

class GroupDeliveries {
 public:
  // instance: runtime.instance, of all groups.
  GroupDeliveries(std::shared_ptr<ExperienceStore> store, uint64_t instance, const Clock& clock);

  // Before anything is drawn.
  void begin();
  // How many groups may be drawn now. Reads the book again if there are none, not too often.
  int64_t room(const DeliveryRules& rules);
  // The first ordinal from this one on that no trainer has; it is drawn from now on.
  uint64_t draw(uint64_t ordinal);
  // Groups that were drawn and dropped, as is_open says, are no longer waited for.
  void settle(FunctionRef<bool(uint64_t ordinal)> is_open);
  // A complete group, scored. Durable on return; errors of the store.
  void put(std::span<const SamplePtr> group);

 private:
  void read_book();
  GroupKey key(uint64_t ordinal) const { return {instance_, ordinal}; }
  DeliveryProgress progress(int64_t batch_groups) const;

  const std::shared_ptr<ExperienceStore> store_;
  const uint64_t instance_;
  const Clock& clock_;
  StoreBook book_;  // as read last
  int64_t read_ns_ = 0;
  std::map<uint64_t, uint64_t> open_;  // groups that are not done, with book_.step() at their draw
  std::set<uint64_t> generated_;       // of them, those that are not put yet
};

}  // namespace rl
