// Handles as the host sees them: 64-bit tokens of kind (8 bits), generation (32) and slot (24). A
// token is never dereferenced; every use looks it up, so NULL, stale, foreign and forked handles
// are errors. A slot's generation grows with each release, and a slot that has used all of them is
// retired: a token never refers to another object later. Thread-safe.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/error.h"

namespace rl {

// Detects a child process forked from the one that created this object. The flag lies in a page
// that the kernel wipes on fork (MADV_WIPEONFORK, Linux 4.14), so the test is one load. If the
// kernel does not support that, it compares process ids, at one system call per test.
class ForkGuard {
 public:
  // wipe_on_fork false: behave as on a kernel without it.
  explicit ForkGuard(bool wipe_on_fork = true);
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  bool forked() const;

 private:
  volatile uint32_t* page_ = nullptr;  // null: compare pid_
  pid_t pid_;
};

class HandleTable {
 public:
  // kind is 1..255. kResourceExhausted if every slot is taken.
  uint64_t insert(uint8_t kind, std::shared_ptr<void> payload);

  // insert() in two halves, so that everything that can fail happens before the payload is moved
  // from anywhere. The token is not live yet; fill() or cancel(), which cannot fail, must follow.
  uint64_t reserve(uint8_t kind);
  void fill(uint64_t token, std::shared_ptr<void> payload) noexcept;
  void cancel(uint64_t token) noexcept;

  // The payload, kept alive by the result. Errors: kInvalidArgument (token 0), kForked,
  // kStaleHandle (released or never issued), kWrongHandle (live, but of another kind), or the
  // code of the poison.
  std::shared_ptr<void> get(uint64_t token, uint8_t kind) const;
  template <typename T>
  std::shared_ptr<T> get_as(uint64_t token, uint8_t kind) const {
    return std::static_pointer_cast<T>(get(token, kind));
  }

  // Ends the token; the payload lives until its last user is done. Accepts poisoned handles too.
  std::shared_ptr<void> remove(uint64_t token, uint8_t kind);

  // After a broken invariant, or the loss of a device: from now on get() fails with this code and
  // message. A stale token is ignored.
  void poison(uint64_t token, std::string message, Code code = Code::kInternal);

  size_t num_live() const;
  bool forked() const { return guard_.forked(); }

 private:
  struct Slot {
    uint32_t generation = 1;
    uint8_t kind = 0;  // 0: free
    std::shared_ptr<void> payload;
    std::string poison;
    Code poison_code = Code::kInternal;
  };
  const Slot& find(uint64_t token, uint8_t kind) const;
  void refuse_forked() const;

  ForkGuard guard_;
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  size_t num_live_ = 0;
};

}  // namespace rl
