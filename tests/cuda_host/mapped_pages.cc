// Which pages exist, and where each is mapped.
#include "cuda_host/mapped_pages.h"

#include <map>

namespace rl::emulated {
namespace {

struct Pages {
  uint64_t bytes;
  const Allocation* addresses = nullptr;  // where they are mapped, or null
  bool released = false;                  // their handle
};
struct AllPages {
  std::map<uint64_t, Pages> by_number;
  uint64_t made = 0;
};
AllPages& all() {
  static AllPages pages;
  return pages;
}

using Place = std::map<uint64_t, Pages>::iterator;

void forget_unused(Place at) {
  if (!at->second.released || at->second.addresses != nullptr) return;
  count_pages(-1, at->second.bytes);
  all().by_number.erase(at);
}

Place mapped_at(const Allocation* addresses) {
  Place at = all().by_number.begin();
  while (at != all().by_number.end() && at->second.addresses != addresses) ++at;
  return at;
}

}  // namespace

uint64_t create_pages(uint64_t bytes, uint64_t device_bytes) {
  const uint64_t taken = memory_totals().device_bytes;
  if (bytes > device_bytes || taken > device_bytes - bytes) return 0;
  count_pages(1, bytes);
  all().by_number[++all().made] = {bytes};
  return all().made;
}

bool release_pages(uint64_t pages) {
  const Place at = all().by_number.find(pages);
  if (at == all().by_number.end() || at->second.released) return false;
  at->second.released = true;
  forget_unused(at);
  return true;
}

bool map_pages(uint64_t pages, Allocation* addresses) {
  const Place at = all().by_number.find(pages);
  if (at == all().by_number.end() || at->second.released || has_pages(addresses)) return false;
  if (at->second.addresses != nullptr || at->second.bytes != addresses->end - addresses->begin)
    return false;
  at->second.addresses = addresses;
  return true;
}

bool unmap_pages(Allocation* addresses) {
  const Place at = mapped_at(addresses);
  if (at == all().by_number.end()) return false;
  set_usable(addresses, false);
  at->second.addresses = nullptr;
  forget_unused(at);
  return true;
}

bool has_pages(const Allocation* addresses) {
  return mapped_at(addresses) != all().by_number.end();
}

void drop_pages() {
  for (const auto& [number, pages] : all().by_number) count_pages(-1, pages.bytes);
  all() = {};
}

}  // namespace rl::emulated
