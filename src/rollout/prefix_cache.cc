#include "rollout/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace rl {

PrefixCache::PrefixCache(int64_t num_blocks, int64_t block_size) : block_size_(block_size) {
  RL_CHECK(num_blocks >= 0 && block_size > 0);
  const auto count = static_cast<size_t>(num_blocks);
  buckets_.assign(std::bit_ceil(std::max<size_t>(count, 1)), kNone);
  entries_.resize(count);
  ids_.resize(count * static_cast<size_t>(block_size));
}

// FNV-1a over words; a poor hash only costs time, as keys are compared in full.
uint64_t PrefixCache::hash_of(uint64_t before, std::span<const int32_t> ids) {
  constexpr uint64_t kPrime = 1099511628211u;
  uint64_t h = (14695981039346656037u ^ before) * kPrime;
  for (const int32_t id : ids) h = (h ^ static_cast<uint32_t>(id)) * kPrime;
  return h ^ (h >> 32);
}

std::span<const int32_t> PrefixCache::ids_of(int32_t block) const {
  return {ids_.data() + block * block_size_, static_cast<size_t>(block_size_)};
}

int32_t PrefixCache::find(uint64_t before, std::span<const int32_t> ids) const {
  RL_CHECK(static_cast<int64_t>(ids.size()) == block_size_);
  const uint64_t hash = hash_of(before, ids);
  for (int32_t b = buckets_[bucket(hash)]; b != kNone; b = entries_[static_cast<size_t>(b)].next) {
    const Entry& e = entries_[static_cast<size_t>(b)];
    if (e.hash == hash && e.before == before && std::ranges::equal(ids_of(b), ids)) return b;
  }
  return kNone;
}

uint64_t PrefixCache::insert(uint64_t before, std::span<const int32_t> ids, int32_t block) {
  const int32_t equal = find(before, ids);
  if (equal != kNone) return serial(equal);
  RL_CHECK(!holds(block));
  const uint64_t hash = hash_of(before, ids);
  int32_t& first = buckets_[bucket(hash)];
  entries_[static_cast<size_t>(block)] = {++last_serial_, before, hash, first};
  first = block;
  std::ranges::copy(ids, ids_.begin() + block * block_size_);
  return last_serial_;
}

void PrefixCache::erase(int32_t block) {
  if (!holds(block)) return;
  Entry& entry = entries_[static_cast<size_t>(block)];
  int32_t* link = &buckets_[bucket(entry.hash)];
  while (*link != block) link = &entries_[static_cast<size_t>(*link)].next;
  *link = entry.next;
  entry = {};
}

void PrefixCache::cut() {
  std::ranges::fill(buckets_, kNone);
  std::ranges::fill(entries_, Entry{});
  root_ = ++last_serial_;
}

}  // namespace rl
