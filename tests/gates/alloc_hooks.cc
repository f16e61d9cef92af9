// Replaces operator new of the program (and so of every library in it), mmap and pthread_create.
// Nothing here allocates: tables have a fixed size, and the state of a thread is one word.
#include "gates/alloc_hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <new>

namespace gates {
namespace {

constexpr size_t kMaxSites = 1 << 14, kMaxLive = 1 << 20;
constexpr int kMaxFrames = 32;

struct Range {
  uintptr_t base = 0, begin = 0, end = 0;  // load address; executable segment
  bool holds(uintptr_t address) const { return address >= begin && address < end; }
};
Range library, runtime_library;  // librl.so and libstdc++.so
// Functions of nlohmann/json, compiled into the library; by address, sorted.
std::vector<Range> excluded;

struct SiteRow {
  std::atomic<uintptr_t> offset{0};
  std::atomic<uint64_t> hits{0}, live{0};
};
std::array<SiteRow, kMaxSites> sites;

// Live blocks by address: open addressing with linear probing, under one lock.
struct LiveRow {
  void* block = nullptr;
  SiteRow* site = nullptr;
};
std::array<LiveRow, kMaxLive> live;
std::mutex live_mutex;
std::atomic<size_t> num_live{0};
std::atomic<int64_t> mapped_bytes{0};

std::atomic<Mode> mode{Mode::kCount};
std::atomic<uintptr_t> armed_site{0};
std::atomic<bool> failing{false}, failed{false};
thread_local bool inside = false;
void* failed_stack[kMaxFrames];
std::atomic<int> failed_depth{0};

size_t slot_of(const void* block) {
  return (reinterpret_cast<uintptr_t>(block) * 0x9e3779b97f4a7c15u >> 40) % kMaxLive;
}

void remember(void* block, SiteRow* site) {
  if (block == nullptr || site == nullptr) return;
  const std::lock_guard lock(live_mutex);
  size_t i = slot_of(block);
  while (live[i].block != nullptr) i = (i + 1) % kMaxLive;
  live[i] = {block, site};
  ++site->live;
  ++num_live;
}

void forget(void* block) {
  if (block == nullptr || num_live == 0) return;
  const std::lock_guard lock(live_mutex);
  size_t i = slot_of(block);
  for (; live[i].block != block; i = (i + 1) % kMaxLive) {
    if (live[i].block == nullptr) return;
  }
  --live[i].site->live;
  --num_live;
  // Later rows move up, so that no probe ends before its row.
  for (size_t k = (i + 1) % kMaxLive; live[k].block != nullptr; k = (k + 1) % kMaxLive) {
    const size_t home = slot_of(live[k].block);
    const bool reaches =
        (k >= home ? k - home : k + kMaxLive - home) >= (k >= i ? k - i : k + kMaxLive - i);
    if (!reaches) continue;
    live[i] = live[k];
    i = k;
  }
  live[i] = {};
}

SiteRow* row_of(uintptr_t offset) {
  size_t i = offset * 0x9e3779b97f4a7c15u >> 50;
  for (size_t n = 0; n < kMaxSites; ++n, i = (i + 1) % kMaxSites) {
    uintptr_t seen = 0;
    if (sites[i].offset.compare_exchange_strong(seen, offset) || seen == offset) return &sites[i];
  }
  return nullptr;
}

struct Walk {
  uintptr_t found = 0;
  bool in_runtime = false;
  int frames = 0;
};

// Skips the hooks of this program and the frames of libstdc++ to find the caller.
_Unwind_Reason_Code step(_Unwind_Context* context, void* data) {
  auto* const walk = static_cast<Walk*>(data);
  const uintptr_t address = _Unwind_GetIP(context);
  if (++walk->frames > kMaxFrames) return _URC_END_OF_STACK;
  if (runtime_library.holds(address)) {
    walk->in_runtime = true;
  } else if (walk->in_runtime) {
    if (library.holds(address)) walk->found = address;
    return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

bool is_excluded(uintptr_t address) {
  const auto before = [](uintptr_t wanted, const Range& range) { return wanted < range.begin; };
  const auto next = std::upper_bound(excluded.begin(), excluded.end(), address, before);
  return next != excluded.begin() && std::prev(next)->holds(address);
}

// The address in the library that allocates, or 0.
uintptr_t site_behind(uintptr_t caller) {
  Walk walk;
  if (library.holds(caller)) {
    walk.found = caller;
  } else if (runtime_library.holds(caller)) {
    _Unwind_Backtrace(step, &walk);
  }
  return is_excluded(walk.found) ? 0 : walk.found;
}

struct Decision {
  SiteRow* site = nullptr;
  bool fail = false;
};

Decision decide(void* caller) {
  if (inside || library.end == 0) return {};
  inside = true;
  Decision out;
  if (const uintptr_t address = site_behind(reinterpret_cast<uintptr_t>(caller)); address != 0) {
    const uintptr_t offset = address - library.base;
    out.site = row_of(offset);
    if (out.site != nullptr) ++out.site->hits;
    const Mode now = mode;
    if (now != Mode::kCount) {
      uintptr_t wanted = offset;
      const bool first = armed_site.compare_exchange_strong(wanted, 0);
      if (first && now == Mode::kFailFromThen) failing = true;
      out.fail = first || failing;
      if (first) failed_depth = backtrace(failed_stack, kMaxFrames);
    }
    if (out.fail) failed = true;
  }
  inside = false;
  return out;
}

int find_ranges(dl_phdr_info* info, size_t, void* data) {
  const auto wanted = *static_cast<const uintptr_t*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    const Range range{info->dlpi_addr, begin, begin + segment.p_memsz};
    if (range.holds(wanted)) library = range;
    if (strstr(info->dlpi_name, "libstdc++.so") != nullptr) runtime_library = range;
  }
  return 0;
}

// Members of namespace nlohmann, and templates of std made for them.
bool of_json(const char* name) {
  const bool of_std = strncmp(name, "_ZNSt", 5) == 0 || strncmp(name, "_ZSt", 4) == 0 ||
                      strncmp(name, "_ZNKSt", 6) == 0;
  return strncmp(name, "_ZN8nlohmann", 12) == 0 || strncmp(name, "_ZNK8nlohmann", 13) == 0 ||
         (of_std && strstr(name, "8nlohmann") != nullptr);
}

// Reads the symbols of the file; none if it is stripped.
void find_excluded(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto* const head = reinterpret_cast<const ElfW(Ehdr)*>(bytes.data());
  const auto* const sections = reinterpret_cast<const ElfW(Shdr)*>(bytes.data() + head->e_shoff);
  for (int i = 0; i < head->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* const symbols =
        reinterpret_cast<const ElfW(Sym)*>(bytes.data() + sections[i].sh_offset);
    const char* const names = bytes.data() + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; ++k) {
      if (!of_json(names + symbols[k].st_name) || symbols[k].st_size == 0) continue;
      const uintptr_t begin = library.base + symbols[k].st_value;
      excluded.push_back({library.base, begin, begin + symbols[k].st_size});
    }
  }
  const auto less = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  std::sort(excluded.begin(), excluded.end(), less);
}

}  // namespace

bool watch_library_of(const void* address) {
  void* frames[2];
  backtrace(frames, 2);  // loads the unwinder, which allocates
  auto wanted = reinterpret_cast<uintptr_t>(address);
  dl_iterate_phdr(find_ranges, &wanted);
  Dl_info info{};
  if (dladdr(address, &info) != 0) find_excluded(info.dli_fname);
  return !excluded.empty();
}

std::vector<Site> allocation_sites() {
  std::vector<Site> out;
  for (const SiteRow& row : sites) {
    if (row.offset != 0) out.push_back({row.offset, row.hits});
  }
  return out;
}

void arm(Mode wanted, uintptr_t site) {
  failed = failing = false;
  armed_site = site;
  mode = wanted;
}

bool disarm() {
  mode = Mode::kCount;
  armed_site = 0;
  failing = false;
  return failed;
}

int64_t live_mapped_bytes() { return mapped_bytes; }

std::vector<uint64_t> live_marks() {
  std::vector<uint64_t> out(kMaxSites);
  for (size_t i = 0; i < kMaxSites; ++i) out[i] = sites[i].live;
  return out;
}

std::string leaks_since(const std::vector<uint64_t>& marks) {
  std::string out;
  for (size_t i = 0; i < kMaxSites; ++i) {
    const uint64_t now = sites[i].live;
    if (now <= marks[i]) continue;
    char text[96];
    snprintf(text, sizeof text, " +0x%lx (%lu more)", sites[i].offset.load(), now - marks[i]);
    out += text;
  }
  return out;
}

void print_failed_stack() { backtrace_symbols_fd(failed_stack, failed_depth, STDOUT_FILENO); }

bool of_library(const void* caller) { return library.holds(reinterpret_cast<uintptr_t>(caller)); }

// Memory for the program, or null if the site is to fail.
void* allocate(size_t size, size_t alignment, void* caller) {
  const Decision decision = decide(caller);
  if (decision.fail) return nullptr;
  const size_t bytes = (size + alignment - 1) / alignment * alignment;
  void* const block = alignment > 16 ? aligned_alloc(alignment, bytes) : malloc(size);
  remember(block, decision.site);
  return block;
}

void* allocate_or_throw(size_t size, size_t alignment, void* caller) {
  void* const block = allocate(size, alignment, caller);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) {
  forget(block);
  free(block);
}

}  // namespace gates

// ---- the functions of the program ----

#define RL_CALLER __builtin_return_address(0)
#define RL_HOOK __attribute__((visibility("default")))

extern "C" {

RL_HOOK void* mmap(void* address, size_t size, int protection, int flags, int fd,
                   off_t offset) noexcept {
  static const auto real = reinterpret_cast<decltype(&mmap)>(dlsym(RTLD_NEXT, "mmap"));
  const gates::Decision decision = gates::decide(RL_CALLER);
  if (decision.fail) return errno = ENOMEM, MAP_FAILED;
  if (gates::of_library(RL_CALLER)) gates::mapped_bytes += static_cast<int64_t>(size);
  return real(address, size, protection, flags, fd, offset);
}

RL_HOOK int munmap(void* address, size_t size) noexcept {
  static const auto real = reinterpret_cast<decltype(&munmap)>(dlsym(RTLD_NEXT, "munmap"));
  if (gates::of_library(RL_CALLER)) gates::mapped_bytes -= static_cast<int64_t>(size);
  return real(address, size);
}

RL_HOOK int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                           void* (*start)(void*), void* argument) noexcept {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (gates::decide(RL_CALLER).fail) return EAGAIN;
  return real(thread, attributes, start, argument);
}

}  // extern "C"

using gates::allocate;
using gates::allocate_or_throw;

void* operator new(size_t size) { return allocate_or_throw(size, 1, RL_CALLER); }
void* operator new[](size_t size) { return allocate_or_throw(size, 1, RL_CALLER); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, 1, RL_CALLER);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, 1, RL_CALLER);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<size_t>(alignment), RL_CALLER);
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<size_t>(alignment), RL_CALLER);
}
void operator delete(void* block) noexcept { gates::release(block); }
void operator delete[](void* block) noexcept { gates::release(block); }
void operator delete(void* block, size_t) noexcept { gates::release(block); }
void operator delete[](void* block, size_t) noexcept { gates::release(block); }
void operator delete(void* block, std::align_val_t) noexcept { gates::release(block); }
void operator delete[](void* block, std::align_val_t) noexcept { gates::release(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { gates::release(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { gates::release(block); }
