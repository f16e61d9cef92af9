// Ids of KV blocks with reference counts and reservations. Invariants:
// 1. A block is free or has at least one reference; num_free() + num_used() is num_blocks().
// 2. num_reserved() <= num_free(), and allocate() takes from a reservation, so that whoever holds
//    one never finds the pool empty.
// The pool knows ids only; the bytes are in model/kv_cache.h. One owner, no locks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rl {

class BlockPool {
 public:
  BlockPool(int64_t num_blocks, int64_t block_size);

  int64_t num_blocks() const { return static_cast<int64_t>(references_.size()); }
  int64_t block_size() const { return block_size_; }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  int64_t num_used() const { return num_blocks() - num_free(); }
  int64_t num_reserved() const { return reserved_; }

  bool can_reserve(int64_t blocks) const { return blocks <= num_free() - reserved_; }
  // Sets blocks aside for later allocate() calls.
  void reserve(int64_t blocks);
  // Gives back a part of a reservation that will not be used.
  void cancel_reservation(int64_t blocks);

  // One reserved block becomes a used one with one reference.
  int32_t allocate();
  void retain(int32_t block);
  // Takes a reference away; the last one frees the block.
  void release(int32_t block);
  int32_t references(int32_t block) const;

 private:
  size_t index_of_used(int32_t block) const;

  int64_t block_size_;
  int64_t reserved_ = 0;
  std::vector<int32_t> references_;  // by block; 0 when free
  std::vector<int32_t> free_;        // the last one is handed out next
};

}  // namespace rl
