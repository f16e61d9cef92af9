// Arenas: sizes first, then one reservation, then pointers. An ArenaPlan lists named regions and
// yields their total; an Arena reserves that many bytes once (page-aligned, huge pages advised,
// touched once) and returns pointers to the regions. An ArenaLedger tracks the live arenas of a
// runtime and says where those in the host's memory get it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "core/cpu_list.h"

namespace rl {

class ArenaPlan {
 public:
  static constexpr uint64_t kAlignment = 64;
  // Adds bytes under a name and returns the region's offset. Regions never overlap and lie in
  // memory in call order.
  uint64_t add_region(std::string name, uint64_t bytes);
  uint64_t total_bytes() const { return total_; }
  struct Region {
    std::string name;
    uint64_t offset;
    uint64_t bytes;
  };
  const std::vector<Region>& regions() const { return regions_; }

 private:
  std::vector<Region> regions_;
  uint64_t total_ = 0;
};

// Whose memory bytes are in: the host's, or that of a device, which the host cannot touch.
enum class MemorySpace : uint8_t { kHost = 0, kDevice = 1 };

// Where arenas get their bytes: the allocator seam. reserve returns page-aligned memory, or null
// with errno set. Calls come from any thread, several at once. bytes are multiples of kPage. Arenas
// do not touch the memory of a device: there reserve() returns zeros in any case.
class MemorySource {
 public:
  static constexpr uint64_t kPage = 4096;
  virtual ~MemorySource() = default;
  virtual MemorySpace space() const { return MemorySpace::kHost; }
  virtual void* reserve(uint64_t bytes) = 0;
  virtual bool reserves_zeros() const { return true; }
  virtual void release(void* data, uint64_t bytes) noexcept = 0;
  // Returns the pages to the system but keeps the range, which reads as zeros from now on.
  virtual void decommit(void* data, uint64_t bytes) noexcept = 0;
  // Memory of a device only: called before it is used again after decommit(). Throws
  // Error(kOutOfMemory) if the pages cannot be had back.
  virtual void commit(void*, uint64_t) {}
};

// Anonymous mappings, huge pages advised. Never destroyed.
MemorySource& system_memory();

// For tests: while it lives, new arenas whose ledger names no source take their bytes from source,
// which must outlive them.
class ScopedMemorySource {
 public:
  explicit ScopedMemorySource(MemorySource& source);
  ~ScopedMemorySource();
  ScopedMemorySource(const ScopedMemorySource&) = delete;
  ScopedMemorySource& operator=(const ScopedMemorySource&) = delete;

 private:
  MemorySource* previous_;
};

// The live arenas of one owner, such as a runtime, by name. Thread-safe. It must outlive the arenas
// made with it.
class ArenaLedger {
 public:
  struct Entry {
    std::string name;
    uint64_t bytes;
    MemorySpace space = MemorySpace::kHost;
  };
  // memory: where arenas of the host get their bytes; null: from the system. Threads that touch new
  // memory run on these CPUs.
  explicit ArenaLedger(std::shared_ptr<MemorySource> memory = nullptr, const CpuList& cpus = {})
      : memory_(std::move(memory)), cpus_(cpus) {}
  ArenaLedger(const ArenaLedger&) = delete;

  const std::shared_ptr<MemorySource>& memory() const { return memory_; }
  const CpuList& cpus() const { return cpus_; }
  uint64_t bytes() const;  // sum
  std::vector<Entry> entries() const;

 private:
  friend class Arena;
  void add(const void* data, Entry entry);
  void remove(const void* data) noexcept;

  const std::shared_ptr<MemorySource> memory_;
  const CpuList cpus_;
  mutable std::mutex mutex_;
  std::vector<std::pair<const void*, Entry>> entries_;
};

// When the first touch of an arena's pages happens: at construction, on all cores, or later, by the
// first writer or by a Prefault (core/prefault.h).
enum class Touch : uint8_t { kNow, kLater };

// Who counts an arena, and where its bytes come from. A null ledger counts nothing and stands for
// the system's memory. source: of a device with memory of its own; null: that of the ledger.
struct ArenaPlace {
  ArenaPlace(ArenaLedger* ledger = nullptr, MemorySource* source = nullptr)
      : ledger(ledger), source(source) {}
  ArenaLedger* ledger;
  MemorySource* source;
};

class Arena {
 public:
  Arena() = default;
  // Error(kOutOfMemory) names the arena, the bytes requested and the cause. Zero bytes reserve
  // nothing and stay out of the ledger. The content is initially zero. Memory of a device is not
  // touched, whatever `touch` says.
  Arena(std::string name, uint64_t bytes, Touch touch = Touch::kNow, const ArenaPlace& place = {});
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }
  MemorySpace space() const { return source_ != nullptr ? source_->space() : MemorySpace::kHost; }
  std::byte* data() const { return data_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }
  template <typename T>
  T* at(uint64_t offset) const {
    return reinterpret_cast<T*>(data_ + offset);
  }
  // Returns the pages to the system and keeps the addresses: the content is zeros again. The arena
  // stays in the ledger, because it takes the same bytes when it is written next.
  void decommit();
  // Touches the pages again after decommit(), as a new arena does with Touch::kNow. Memory of a
  // device must be had back so before it is used: Error(kOutOfMemory), as for a new arena, if that
  // fails; the arena then is as after decommit().
  void commit();

 private:
  void release();
  [[noreturn]] void refuse(const char* what, const Error& cause) const;
  void for_parts(void (*work)(std::byte*, uint64_t)) const;
  std::string name_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
  MemorySource* source_ = nullptr;
  ArenaLedger* ledger_ = nullptr;
};

}  // namespace rl
