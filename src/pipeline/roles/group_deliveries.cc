#include "pipeline/roles/group_deliveries.h"

#include <algorithm>
#include <string>
#include <utility>

#include "buffer/batch_bytes.h"
#include "buffer/store_consumer.h"

namespace rl {
namespace {

constexpr int64_t kReadNs = 10'000'000;  // between two looks at the book

}  // namespace

// Even if the oldest of those that wait comes last, behind the others and a new one, since it is
// slow, it is trained on with step taken_for + (taken_groups + waiting) /
// batch_groups, if the groups of taken_for make that step complete or will. That step may be at
// most oldest + max_staleness + 1.
int64_t num_to_draw_ahead(const DeliveryRules& rules, const DeliveryProgress& now) {
  const int64_t batches = rules.max_staleness + 2 - (now.taken_for - now.oldest);
  return std::max<int64_t>(0, batches * rules.batch_groups - now.taken_groups - now.waiting);
}

GroupDeliveries::GroupDeliveries(std::shared_ptr<ExperienceStore> store, uint64_t instance,
                                 const Clock& clock)
    : store_(std::move(store)), instance_(instance), clock_(clock) {}

void GroupDeliveries::begin() {
  open_.clear();
  generated_.clear();
  read_book();
}

void GroupDeliveries::read_book() {
  read_ns_ = clock_.now_ns();
  const std::string bytes = store_->read_book();
  book_ = bytes.empty() ? StoreBook() : StoreBook::decode(bytes, store_->book_place());
  std::erase_if(open_, [&](const auto& item) { return book_.is_done(key(item.first)); });
}

DeliveryProgress GroupDeliveries::progress(int64_t batch_groups) const {
  const StoreBook::LastTaken last = book_.last_taken(instance_);
  const auto saved = static_cast<int64_t>(book_.step());
  DeliveryProgress now{saved, saved, batch_groups, 0, saved};
  if (book_.has_taken()) {
    now.taken_for = static_cast<int64_t>(last.step);
    now.taken_groups = last.groups;
  }
  for (const auto& [ordinal, step] : open_) {
    if (book_.is_taken(key(ordinal))) continue;
    ++now.waiting;
    now.oldest = std::min(now.oldest, static_cast<int64_t>(step));
  }
  return now;
}

int64_t GroupDeliveries::room(const DeliveryRules& rules) {
  const int64_t known = num_to_draw_ahead(rules, progress(rules.batch_groups));
  if (known > 0 || clock_.now_ns() - read_ns_ < kReadNs) return known;
  read_book();
  return num_to_draw_ahead(rules, progress(rules.batch_groups));
}

uint64_t GroupDeliveries::draw(uint64_t ordinal) {
  while (book_.is_done(key(ordinal)) || book_.is_taken(key(ordinal))) ++ordinal;
  open_[ordinal] = book_.step();
  generated_.insert(ordinal);
  return ordinal;
}

void GroupDeliveries::settle(FunctionRef<bool(uint64_t ordinal)> is_open) {
  std::erase_if(generated_, [&](uint64_t ordinal) {
    if (is_open(ordinal)) return false;
    open_.erase(ordinal);
    return true;
  });
}

void GroupDeliveries::put(std::span<const SamplePtr> group) {
  store_->put(key_of(group), encode_samples(group));
  generated_.erase(group.front()->ordinal);
}

}  // namespace rl
