// The groups that a trainer takes from a store, on each of its ranks (StoreClaims). The first rank
// has the store and its book; what it takes, and what fails there, all ranks have, so every one of
// them has all groups of a step. The calls that the ranks make together say so; the others are the
// first rank's, and do nothing on the other ranks.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/ranks/first_rank.h"
#include "pipeline/roles/store_claims.h"

namespace rl {

class SharedClaims {
 public:
  // own: null on all ranks but the first.
  SharedClaims(std::unique_ptr<StoreClaims> own, const FirstRank& first)
      : own_(std::move(own)), first_(first) {}

  // Together: begin, resume and take of StoreClaims.
  bool begin();
  void resume(uint64_t step);
  std::vector<std::vector<SamplePtr>> take(const StoreClaims::Wanted& wanted);
  void settle(FunctionRef<bool(uint64_t ordinal)> is_open);
  void end_step(std::span<const SamplePtr> batch);
  void acknowledge(uint64_t step);
  StoreCounts counts() const;
  void require_own();

 private:
  const std::unique_ptr<StoreClaims> own_;
  const FirstRank first_;
};

}  // namespace rl
