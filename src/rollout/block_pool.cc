#include "rollout/block_pool.h"

#include <limits>

#include "core/error.h"

namespace rl {

BlockPool::BlockPool(int64_t num_blocks) {
  RL_CHECK(num_blocks >= 0 && num_blocks <= std::numeric_limits<int32_t>::max());
  const auto count = static_cast<size_t>(num_blocks);
  references_.assign(count, 0);
  next_.assign(count, kNone);
  prev_.assign(count, kNone);
  for (int32_t block = 0; block < num_blocks; ++block) push_back(block);
}

int32_t BlockPool::allocate() {
  RL_CHECK(num_free_ > 0);
  const int32_t block = first_;
  retain(block);
  return block;
}

void BlockPool::retain(int32_t block) {
  if (references_[index_of(block)]++ == 0) unlink(block);
}

void BlockPool::release(int32_t block, bool keep) {
  RL_CHECK(references(block) > 0);
  if (--references_[index_of(block)] > 0) return;
  if (keep)
    push_back(block);
  else
    push_front(block);
}

int32_t BlockPool::references(int32_t block) const { return references_[index_of(block)]; }

size_t BlockPool::index_of(int32_t block) const {
  RL_CHECK(block >= 0 && block < num_blocks());
  return static_cast<size_t>(block);
}

void BlockPool::unlink(int32_t block) {
  const int32_t before = prev_[index_of(block)], after = next_[index_of(block)];
  (before == kNone ? first_ : next_[index_of(before)]) = after;
  (after == kNone ? last_ : prev_[index_of(after)]) = before;
  --num_free_;
}

void BlockPool::push_front(int32_t block) {
  next_[index_of(block)] = first_;
  prev_[index_of(block)] = kNone;
  (first_ == kNone ? last_ : prev_[index_of(first_)]) = block;
  first_ = block;
  ++num_free_;
}

void BlockPool::push_back(int32_t block) {
  prev_[index_of(block)] = last_;
  next_[index_of(block)] = kNone;
  (last_ == kNone ? first_ : next_[index_of(last_)]) = block;
  last_ = block;
  ++num_free_;
}

}  // namespace rl
