#include "pipeline/roles/shared_claims.h"

#include <utility>

#include "pipeline/ranks/group_documents.h"

namespace rl {
namespace {

using Groups = std::vector<std::vector<SamplePtr>>;

std::vector<std::byte> encode(const Groups& groups) {
  std::vector<SamplePtr> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return encode_groups(all);
}

Groups decode(std::span<const std::byte> bytes) {
  Groups groups;
  for (const SamplePtr& s : decode_groups(bytes)) {
    if (groups.empty() || groups.back().front()->ordinal != s->ordinal) groups.emplace_back();
    groups.back().push_back(s);
  }
  return groups;
}

}  // namespace

bool SharedClaims::begin() {
  return first_.tell<bool>([&] { return own_->begin(); });
}

void SharedClaims::resume(uint64_t step) {
  first_.run([&] { own_->resume(step); });
}

Groups SharedClaims::take(const StoreClaims::Wanted& wanted) {
  if (first_.alone()) return own_->take(wanted);
  Groups groups;
  const std::vector<std::byte> told = first_.tell_bytes([&] {
    groups = own_->take(wanted);
    return encode(groups);
  });
  return first_.leads() ? std::move(groups) : decode(told);
}

void SharedClaims::settle(FunctionRef<bool(uint64_t ordinal)> is_open) {
  if (own_ != nullptr) own_->settle(is_open);
}

void SharedClaims::end_step(std::span<const SamplePtr> batch) {
  if (own_ != nullptr) own_->end_step(batch);
}

void SharedClaims::acknowledge(uint64_t step) {
  if (own_ != nullptr) own_->acknowledge(step);
}

StoreCounts SharedClaims::counts() const {
  return own_ != nullptr ? own_->counts() : StoreCounts();
}

void SharedClaims::require_own() {
  if (own_ != nullptr) own_->require_own();
}

}  // namespace rl
