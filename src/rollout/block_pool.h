// Ids of KV blocks with reference counts. A block without references is free. Free blocks are
// handed out in this order: uncached blocks first, most recently freed first (warm); then cached
// blocks, least recently used first.
// Invariants:
// 1. A block is free or has at least one reference; num_free() + num_used() is num_blocks().
// 2. Nothing is allocated after construction.
// The pool knows ids only; model/kv_pool.h says where their bytes are. One owner, no locks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rl {

class BlockPool {
 public:
  explicit BlockPool(int64_t num_blocks);

  int64_t num_blocks() const { return static_cast<int64_t>(references_.size()); }
  int64_t num_free() const { return num_free_; }
  int64_t num_used() const { return num_blocks() - num_free_; }

  // The first free block, with one reference. There must be one.
  int32_t allocate();
  // Adds a reference, also to a free block whose content is needed again.
  void retain(int32_t block);
  // Drops a reference; the last one frees the block. `keep`: its content is cached, so it is
  // reused late.
  void release(int32_t block, bool keep);
  int32_t references(int32_t block) const;

 private:
  static constexpr int32_t kNone = -1;
  size_t index_of(int32_t block) const;
  void unlink(int32_t block);
  void push_front(int32_t block);
  void push_back(int32_t block);

  std::vector<int32_t> references_;   // by block; 0 when free
  std::vector<int32_t> next_, prev_;  // of free blocks
  int32_t first_ = kNone, last_ = kNone;
  int64_t num_free_ = 0;
};

}  // namespace rl
