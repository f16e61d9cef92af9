#include "pipeline/roles/shared_deliveries.h"

namespace rl {

void SharedDeliveries::begin() {
  first_.run([&] { own_->begin(); });
}

int64_t SharedDeliveries::room(const DeliveryRules& rules) {
  return first_.tell<int64_t>([&] { return own_->room(rules); });
}

uint64_t SharedDeliveries::draw(uint64_t ordinal) {
  return first_.tell<uint64_t>([&] { return own_->draw(ordinal); });
}

void SharedDeliveries::settle(FunctionRef<bool(uint64_t ordinal)> is_open) {
  if (own_ != nullptr) own_->settle(is_open);
}

void SharedDeliveries::put(std::span<const SamplePtr> group) {
  if (own_ != nullptr) own_->put(group);
}

}  // namespace rl
