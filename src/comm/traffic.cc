#include "comm/traffic.h"

#include <iterator>

namespace rl {

const char* collective_name(Collective collective) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                    "broadcast",  "a message",      "barrier"};
  static_assert(std::size(kNames) == kNumCollectives);
  return kNames[static_cast<size_t>(collective)];
}

TrafficBytes& TrafficBytes::operator+=(const TrafficBytes& other) {
  sent += other.sent;
  received += other.received;
  return *this;
}

TrafficBytes TrafficBytes::operator-(const TrafficBytes& before) const {
  return {sent - before.sent, received - before.received};
}

TrafficBytes Traffic::total() const {
  TrafficBytes sum;
  for (const TrafficBytes& bytes : by_use) sum += bytes;
  return sum;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (size_t i = 0; i < kNumCollectives; ++i) by_call[i] += other.by_call[i];
  for (size_t i = 0; i < kNumTrafficUses; ++i) by_use[i] += other.by_use[i];
  overlapped += other.overlapped;
  between += other.between;
  return *this;
}

Traffic Traffic::operator-(const Traffic& before) const {
  Traffic out;
  for (size_t i = 0; i < kNumCollectives; ++i) out.by_call[i] = by_call[i] - before.by_call[i];
  for (size_t i = 0; i < kNumTrafficUses; ++i) out.by_use[i] = by_use[i] - before.by_use[i];
  out.overlapped = overlapped - before.overlapped;
  out.between = between - before.between;
  return out;
}

void TrafficCounter::add(const Kind& kind, const TrafficBytes& bytes) {
  const std::lock_guard lock(mutex_);
  traffic_.by_call[static_cast<size_t>(kind.call)] += bytes;
  traffic_.by_use[static_cast<size_t>(kind.use)] += bytes;
  if (kind.started) traffic_.overlapped += bytes;
}

Traffic TrafficCounter::now() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

}  // namespace rl
