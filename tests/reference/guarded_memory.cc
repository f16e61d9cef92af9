// A touch of closed pages is a SIGSEGV, whose handler says what happened before the process ends.
#include "guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace rl::testing {
namespace {

void explain(int number, siginfo_t* info, void*) {
  char text[160];
  const bool ours = GuardedMemory::instance().has(info->si_addr);
  const int length = std::snprintf(
      text, sizeof text,
      ours ? "the host touched memory of the device at %p: only ops and copy_bytes may\n"
           : "segmentation fault at %p\n",
      info->si_addr);
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, text, static_cast<size_t>(length));
  std::signal(number, SIG_DFL);  // the same access ends the process
}

}  // namespace

GuardedMemory& GuardedMemory::instance() {
  static GuardedMemory* const memory = new GuardedMemory;
  return *memory;
}

GuardedMemory::GuardedMemory() {
  struct sigaction action {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

void* GuardedMemory::reserve(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const int protection = opens_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* const data = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  ranges_[static_cast<std::byte*>(data)] = {bytes};
  return data;
}

void GuardedMemory::release(void* data, uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  ranges_.erase(static_cast<std::byte*>(data));
  munmap(data, bytes);
}

void GuardedMemory::decommit(void* data, uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  ranges_.at(static_cast<std::byte*>(data)).dropped = true;
  madvise(data, bytes, MADV_DONTNEED);
  mprotect(data, bytes, PROT_NONE);
}

void GuardedMemory::commit(void* data, uint64_t) {
  const std::lock_guard lock(mutex_);
  ranges_.at(static_cast<std::byte*>(data)).dropped = false;
}

bool GuardedMemory::has(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto* const at = static_cast<const std::byte*>(address);
  for (const auto& [data, range] : ranges_) {
    if (at >= data && at < data + range.bytes) return true;
  }
  return false;
}

void GuardedMemory::add(int opens) {
  const std::lock_guard lock(mutex_);
  const bool before = opens_ > 0;
  opens_ += opens;
  if ((opens_ > 0) == before) return;
  for (const auto& [data, range] : ranges_) {
    if (range.dropped) continue;
    mprotect(data, range.bytes, opens_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

}  // namespace rl::testing
