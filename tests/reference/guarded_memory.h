// Pages that are closed to the host unless an op runs (guarded_device.h). Thread-safe.
#pragma once
#include <map>
#include <mutex>

#include "core/arena.h"

namespace rl::testing {

class GuardedMemory final : public MemorySource {
 public:
  static GuardedMemory& instance();  // never destroyed

  MemorySpace space() const override { return MemorySpace::kDevice; }
  void* reserve(uint64_t bytes) override;
  void release(void* data, uint64_t bytes) noexcept override;
  // Stays closed until commit(), also while ops run.
  void decommit(void* data, uint64_t bytes) noexcept override;
  void commit(void* data, uint64_t bytes) override;

  bool has(const void* address) const;

  // Open while one of these lives.
  class Open {
   public:
    Open() { instance().add(1); }
    ~Open() { instance().add(-1); }
    Open(const Open&) = delete;
  };
  // Within an Open, closed while one of these lives.
  class Closed {
   public:
    Closed() { instance().add(-1); }
    ~Closed() { instance().add(1); }
    Closed(const Closed&) = delete;
  };

 private:
  struct Range {
    uint64_t bytes;
    bool dropped = false;
  };
  GuardedMemory();
  void add(int opens);

  mutable std::mutex mutex_;
  int opens_ = 0;
  std::map<std::byte*, Range> ranges_;
};

}  // namespace rl::testing
