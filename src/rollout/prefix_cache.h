// Finds KV blocks by content. A cached block is a whole block of tokens after a known prefix: its
// key is the serial number of the block before it and its own ids, compared in full, so a hit is
// never a mistake. Serials are never reused. The first block of a sequence follows the root, and
// cut() makes a new root, so nothing computed with older weights is ever found.
// Invariants:
// 1. A block has at most one key, and a key has at most one block.
// 2. Nothing is allocated after construction.
// One owner, no locks.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rl {

// How far a sequence has been entered into the cache, or found there.
struct PrefixPlace {
  uint64_t serial = 0;  // of its last whole block; the root's when it has none
  int64_t blocks = 0;   // whole blocks
};

class PrefixCache {
 public:
  PrefixCache(int64_t num_blocks, int64_t block_size);

  PrefixPlace root() const { return {root_, 0}; }
  // The block that holds `ids` (block_size of them) after `before`; -1: none.
  int32_t find(uint64_t before, std::span<const int32_t> ids) const;
  uint64_t serial(int32_t block) const { return entries_[static_cast<size_t>(block)].serial; }
  bool holds(int32_t block) const { return serial(block) != 0; }
  // Enters a block whose K and V are computed, unless an equal one is cached. Returns the serial
  // of the block that lookups find from now on.
  uint64_t insert(uint64_t before, std::span<const int32_t> ids, int32_t block);
  // The block is about to be overwritten; no effect if it is not held.
  void erase(int32_t block);
  // Forgets everything: the weights have changed.
  void cut();

 private:
  static constexpr int32_t kNone = -1;
  struct Entry {
    uint64_t serial = 0;  // 0: not held
    uint64_t before = 0;
    uint64_t hash = 0;
    int32_t next = kNone;  // of the same bucket
  };
  static uint64_t hash_of(uint64_t before, std::span<const int32_t> ids);
  size_t bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }
  std::span<const int32_t> ids_of(int32_t block) const;

  int64_t block_size_;
  uint64_t root_ = 1, last_serial_ = 1;
  std::vector<int32_t> buckets_;  // first block; a power of two of them
  std::vector<Entry> entries_;    // by block
  std::vector<int32_t> ids_;      // by block, block_size each
};

}  // namespace rl
