// The blocks of an engine: a pool, and the cache that finds blocks by content. A block for new
// content always comes from allocate(), so the cache never names a block that was overwritten.
// Invariant: the content of a block that the cache holds does not change while it holds it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "rollout/block_pool.h"
#include "rollout/prefix_cache.h"

namespace rl {

class KvBlocks {
 public:
  KvBlocks(int64_t num_blocks, int64_t block_size, bool prefix_caching)
      : block_size_(block_size), pool_(num_blocks) {
    if (prefix_caching) cache_.emplace(num_blocks, block_size);
  }

  int64_t block_size() const { return block_size_; }
  const BlockPool& pool() const { return pool_; }
  // Null when prefix caching is off.
  PrefixCache* cache() { return cache_ ? &*cache_ : nullptr; }
  int64_t num_free() const { return pool_.num_free(); }
  // Blocks needed for that many positions.
  int64_t count(int64_t positions) const {
    return positions / block_size_ + (positions % block_size_ != 0 ? 1 : 0);
  }

  // Length of the longest cached prefix of ids, in tokens; whole blocks.
  int64_t cached_tokens(std::span<const int32_t> ids) const {
    if (!cache_) return 0;
    const auto size = static_cast<size_t>(block_size_);
    PrefixPlace place = cache_->root();
    for (size_t end = size; end <= ids.size(); end += size, ++place.blocks) {
      const int32_t block = cache_->find(place.serial, ids.subspan(end - size, size));
      if (block < 0) break;
      place.serial = cache_->serial(block);
    }
    return place.blocks * block_size_;
  }

  // A block for new content, with one reference. There must be a free one.
  int32_t allocate() {
    const int32_t block = pool_.allocate();
    if (cache_) cache_->erase(block);
    return block;
  }
  void retain(int32_t block) { pool_.retain(block); }
  void release(int32_t block) { pool_.release(block, cache_ && cache_->holds(block)); }

 private:
  int64_t block_size_;
  BlockPool pool_;
  std::optional<PrefixCache> cache_;
};

}  // namespace rl
