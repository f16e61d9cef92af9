// The groups that a pipeline of role rollout puts into a store, on each of the ranks that divide
// its model and generate together (GroupDeliveries). The first rank has the store: it reads the
// book, says how many groups are drawn and which, and puts them. The calls that the ranks make
// together say so; the others are the first rank's, and do nothing on the other ranks.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/ranks/first_rank.h"
#include "pipeline/roles/group_deliveries.h"

namespace rl {

class SharedDeliveries {
 public:
  // own: null on all ranks but the first.
  SharedDeliveries(std::unique_ptr<GroupDeliveries> own, const FirstRank& first)
      : own_(std::move(own)), first_(first) {}

  // Together: begin, room and draw of GroupDeliveries.
  void begin();
  int64_t room(const DeliveryRules& rules);
  uint64_t draw(uint64_t ordinal);
  void settle(FunctionRef<bool(uint64_t ordinal)> is_open);
  void put(std::span<const SamplePtr> group);

 private:
  const std::unique_ptr<GroupDeliveries> own_;
  const FirstRank first_;
};

}  // namespace rl
