// The free list is a stack: a block given back last is still warm in the cache and is reused first.
#include "rollout/block_pool.h"

#include <limits>

#include "core/error.h"

namespace rl {

BlockPool::BlockPool(int64_t num_blocks, int64_t block_size) : block_size_(block_size) {
  RL_CHECK(block_size > 0);
  RL_CHECK(num_blocks >= 0 && num_blocks <= std::numeric_limits<int32_t>::max());
  references_.assign(static_cast<size_t>(num_blocks), 0);
  free_.reserve(static_cast<size_t>(num_blocks));
  for (int64_t b = num_blocks - 1; b >= 0; --b) free_.push_back(static_cast<int32_t>(b));
}

void BlockPool::reserve(int64_t blocks) {
  RL_CHECK(blocks >= 0 && can_reserve(blocks));
  reserved_ += blocks;
}

void BlockPool::cancel_reservation(int64_t blocks) {
  RL_CHECK(blocks >= 0 && blocks <= reserved_);
  reserved_ -= blocks;
}

int32_t BlockPool::allocate() {
  RL_CHECK(reserved_ > 0);
  --reserved_;
  const int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::retain(int32_t block) { ++references_[index_of_used(block)]; }

void BlockPool::release(int32_t block) {
  if (--references_[index_of_used(block)] == 0) free_.push_back(block);
}

int32_t BlockPool::references(int32_t block) const {
  RL_CHECK(block >= 0 && block < num_blocks());
  return references_[static_cast<size_t>(block)];
}

size_t BlockPool::index_of_used(int32_t block) const {
  RL_CHECK(references(block) > 0);
  return static_cast<size_t>(block);
}

}  // namespace rl
