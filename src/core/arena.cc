// Arenas over anonymous mappings. The memory source is the only process-wide state; it exists
// because a test must be able to fail any reservation.
#include "core/arena.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "core/signals.h"

namespace rl {
namespace {

constexpr uint64_t kPage = MemorySource::kPage;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kTouchPart = uint64_t{32} << 20;
constexpr unsigned kMaxTouchThreads = 16;

class SystemMemory final : public MemorySource {
 public:
  void* reserve(uint64_t bytes) override {
    struct sysinfo info;
    if (sysinfo(&info) == 0) {
      const uint64_t most = (uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
      if (bytes > most) return fail(ENOMEM);
    }
    const bool huge = bytes >= kHugePage;
    const uint64_t slack = huge ? kHugePage : 0;
    void* raw =
        mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    if (!huge) return raw;
    std::byte* start = trim(static_cast<std::byte*>(raw), bytes);
    // Only advice: a kernel without transparent huge pages refuses it, and small pages work too.
    madvise(start, bytes, MADV_HUGEPAGE);
    return start;
  }

  void release(void* data, uint64_t bytes) noexcept override { munmap(data, bytes); }

  void decommit(void* data, uint64_t bytes) noexcept override {
    madvise(data, bytes, MADV_DONTNEED);
  }

 private:
  static void* fail(int code) {
    errno = code;
    return nullptr;
  }

  // Unmaps what lies before the first huge-page boundary and after the arena.
  static std::byte* trim(std::byte* raw, uint64_t bytes) {
    const uint64_t address = reinterpret_cast<uintptr_t>(raw);
    const uint64_t head = (kHugePage - address % kHugePage) % kHugePage;
    if (head > 0) munmap(raw, head);
    if (kHugePage > head) munmap(raw + head + bytes, kHugePage - head);
    return raw + head;
  }
};

std::atomic<MemorySource*>& source_override() {
  static std::atomic<MemorySource*> source{nullptr};
  return source;
}

MemorySource& source_of(const ArenaLedger* ledger) {
  if (ledger != nullptr && ledger->memory() != nullptr) return *ledger->memory();
  MemorySource* const source = source_override().load(std::memory_order_acquire);
  return source != nullptr ? *source : system_memory();
}

void touch_range(std::byte* data, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += kPage) {
    *reinterpret_cast<volatile unsigned char*>(data + i) = 0;
  }
}

void clear_range(std::byte* data, uint64_t bytes) { std::memset(data, 0, bytes); }

}  // namespace

MemorySource& system_memory() {
  static SystemMemory* const memory = new SystemMemory;
  return *memory;
}

ScopedMemorySource::ScopedMemorySource(MemorySource& source)
    : previous_(source_override().exchange(&source)) {}
ScopedMemorySource::~ScopedMemorySource() { source_override().store(previous_); }

uint64_t ArenaPlan::add_region(std::string name, uint64_t bytes) {
  const uint64_t offset = total_;
  total_ = (CheckedU64(offset) + CheckedU64(bytes)).align_up(kAlignment).get();
  regions_.push_back({std::move(name), offset, bytes});
  return offset;
}

uint64_t ArenaLedger::bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [data, entry] : entries_) sum += entry.bytes;
  return sum;
}

std::vector<ArenaLedger::Entry> ArenaLedger::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> copy;
  copy.reserve(entries_.size());
  for (const auto& [data, entry] : entries_) copy.push_back(entry);
  return copy;
}

void ArenaLedger::add(const void* data, Entry entry) {
  const std::lock_guard lock(mutex_);
  entries_.emplace_back(data, std::move(entry));
}

void ArenaLedger::remove(const void* data) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == data; });
}

Arena::Arena(std::string name, uint64_t bytes, Touch touch, const ArenaPlace& place)
    : name_(std::move(name)), bytes_(bytes), ledger_(place.ledger) {
  if (bytes == 0) return;
  mapped_bytes_ = CheckedU64(bytes).align_up(kPage).get();
  source_ = place.source != nullptr ? place.source : &source_of(ledger_);
  errno = 0;
  try {
    data_ = static_cast<std::byte*>(source_->reserve(mapped_bytes_));
  } catch (const Error& cause) {
    refuse("reserve", cause);
  }
  if (data_ == nullptr) {
    const int code = errno;
    refuse("reserve", Error(Code::kOutOfMemory, code != 0 ? std::strerror(code) : "refused")
                          .with_system_code(code));
  }
  try {
    if (space() == MemorySpace::kDevice) {
      // Its source has cleared it.
    } else if (!source_->reserves_zeros()) {
      for_parts(clear_range);
    } else if (touch == Touch::kNow) {
      for_parts(touch_range);
    }
    if (ledger_ != nullptr) ledger_->add(data_, {name_, bytes_, space()});
  } catch (...) {
    source_->release(data_, mapped_bytes_);  // the destructor does not run for an unfinished object
    throw;
  }
}

// A want of memory, with the cause. Other errors of a device go on as they are.
void Arena::refuse(const char* what, const Error& cause) const {
  if (cause.code != Code::kOutOfMemory) throw cause;
  const uint64_t held = ledger_ != nullptr ? ledger_->bytes() : 0;
  throw Error(Code::kOutOfMemory,
              str("arena ", name_, ": cannot ", what, " ", bytes_, " bytes in addition to ", held,
                  " bytes of live arenas: ", cause.message))
      .with_key(name_)
      .with_system_code(cause.system_code);
}

Arena::~Arena() { release(); }

Arena::Arena(Arena&& other) noexcept
    : name_(std::move(other.name_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      source_(std::exchange(other.source_, nullptr)),
      ledger_(std::exchange(other.ledger_, nullptr)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  if (this == &other) return *this;
  release();
  name_ = std::move(other.name_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  source_ = std::exchange(other.source_, nullptr);
  ledger_ = std::exchange(other.ledger_, nullptr);
  return *this;
}

void Arena::decommit() {
  if (data_ != nullptr) source_->decommit(data_, mapped_bytes_);
}

void Arena::commit() {
  if (data_ == nullptr) return;
  if (space() == MemorySpace::kHost) return for_parts(touch_range);
  try {
    source_->commit(data_, mapped_bytes_);
  } catch (const Error& cause) {
    refuse("take back", cause);
  }
}

// Calls work(data, bytes) for parts of the memory, on several threads if it is large. A first touch
// may fault in the kernel and again in a hypervisor, which takes seconds per GiB; both scale with
// cores.
void Arena::for_parts(void (*work)(std::byte*, uint64_t)) const {
  const CpuList cpus = ledger_ != nullptr ? ledger_->cpus() : CpuList();
  const auto usable = static_cast<unsigned>(cpus.count());
  const uint64_t cores =
      std::clamp(cpus.empty() ? std::thread::hardware_concurrency() : usable, 1u, kMaxTouchThreads);
  const uint64_t parts = std::min(cores, mapped_bytes_ / kTouchPart + 1);
  const uint64_t step = CheckedU64(mapped_bytes_ / parts + 1).align_up(kPage).get();
  const ScopedSignalMask mask;
  std::vector<std::thread> helpers;
  uint64_t done_from = mapped_bytes_;
  for (uint64_t part = parts - 1; part > 0; --part) {
    const uint64_t start = part * step;
    if (start >= mapped_bytes_) continue;
    try {
      helpers.emplace_back([&cpus, work, data = data_ + start, bytes = done_from - start] {
        cpus.bind_this_thread();
        work(data, bytes);
      });
    } catch (const std::exception&) {
      break;  // could not start another thread; do the rest here
    }
    done_from = start;
  }
  work(data_, done_from);
  for (std::thread& helper : helpers) helper.join();
}

void Arena::release() {
  if (data_ == nullptr) return;
  if (ledger_ != nullptr) ledger_->remove(data_);
  source_->release(data_, mapped_bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace rl
