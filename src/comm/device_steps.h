// The steps of collectives whose values are in the memory of devices. Values go by DeviceMessages;
// the Transport, which the ranks have in any case, carries what such a library does not check: a
// call begins when all its ranks have come to it and agree on what it is, so a rank that does not
// come is named as in any other call, and no device waits for it. While a device computes, the
// Transport says whether all ranks are still there.
#pragma once
#include <memory>
#include <vector>

#include "comm/device_messages.h"
#include "comm/transport.h"

namespace rl {

// The ranks of a group: their numbers among all ranks, in the group's order.
struct DeviceRanks {
  std::shared_ptr<Transport> transport;
  std::shared_ptr<DeviceMessages> messages;
  std::vector<int> ranks;
};

class DeviceSteps {
 public:
  // What a call is, for errors, and until when it may run.
  struct Call {
    uint64_t channel;
    std::string_view what;
    int64_t deadline_ns;  // by real_clock(); negative: there is none
  };
  // All ranks of the group make it together. Its errors and those of the functions below have
  // ended the ranks' Transport.
  DeviceSteps(DeviceRanks ranks, const Call& joining);

  // Before the first step of a call: waits for the ranks of its messages, whose sizes those of all
  // steps follow from. Error(kIncompatible) names both ends of one that disagree about its size.
  void begin(const Exchange& all);
  // Messages of the host's numbering; their memory is the device's. Complete after end().
  void exchange(const Exchange& step);
  // Within the device.
  void copy(std::span<const std::byte> from, std::byte* to);
  // What others sent to slots, in the group's order, is reduced with the values of this rank.
  uint64_t slot_bytes() const;
  std::byte* slots() const { return group_.messages->scratch().data(); }
  void reduce(Reduction reduction, const Values& out);
  // In place of steps, and after begin() too: sums in the messages' own order.
  void reduce_scatter_own_order(const Call& call, const DividedValues& all);
  void all_reduce_own_order(const Call& call, const Values& values);
  // The values are there when it returns.
  void end(const Call& call);

 private:
  void share_id(const Call& call, std::vector<std::byte>& id);
  // Throws if a rank has failed, or this call is late.
  void require_ranks(const Call& call);
  int number_of(int rank) const;  // within the group

  const DeviceRanks group_;
  int rank_;
};

}  // namespace rl
