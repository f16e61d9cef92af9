// One arena of the host has the content of all that is kept, one after the other.
#include "train/optimizer/host_copy.h"

#include "core/error.h"

namespace rl {
namespace {

uint64_t place_after(const Arena& arena) {
  return CheckedU64(arena.bytes()).align_up(ArenaPlan::kAlignment).get();
}

}  // namespace

void HostCopy::sleep(Compute& compute, std::vector<Arena*> kept, std::vector<Arena*> dropped) {
  RL_CHECK(!asleep_);
  CheckedU64 total(0);
  for (const Arena* arena : kept) total = total + CheckedU64(place_after(*arena));
  Arena host("optimizer states, asleep", total.get(), Touch::kNow, compute.ledger());
  uint64_t at = 0;
  for (const Arena* arena : kept) {
    if (arena->bytes() != 0) copy_bytes(compute, {arena->data(), host.data() + at, arena->bytes()});
    at += place_after(*arena);
  }
  for (Arena* arena : kept) arena->decommit();
  for (Arena* arena : dropped) arena->decommit();
  kept_ = std::move(kept);
  dropped_ = std::move(dropped);
  host_ = std::move(host);
  asleep_ = true;
}

void HostCopy::wake(Compute& compute) {
  if (!asleep_) return;
  for (const std::vector<Arena*>* arenas : {&kept_, &dropped_}) {
    for (Arena* arena : *arenas) arena->commit();
  }
  uint64_t at = 0;
  for (const Arena* arena : kept_) {
    if (arena->bytes() != 0)
      copy_bytes(compute, {host_.data() + at, arena->data(), arena->bytes()});
    at += place_after(*arena);
  }
  host_ = Arena();
  asleep_ = false;
}

}  // namespace rl
